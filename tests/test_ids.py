"""Ids ↔ slots."""

import numpy as np
import pyarrow as pa
import pytest

from nearcast._ids import MIXED_IDS, IdTable, id_of, key_of, keys_of


def bound(ids):
    """Return a table in which these ids have slots 0, 1, ..."""
    table = IdTable()
    table.bind(pa.array(ids), np.arange(len(ids), dtype=np.int32))
    return table


def column(table, slots):
    snapshot = table.snapshot()
    return snapshot.column(slots, snapshot.kinds_of(slots))


def test_strings_and_integers_keep_their_type():
    """An id comes back as it was given."""
    assert column(bound(["a", "b"]), np.array([1, 0])).to_pylist() == ["b", "a"]
    assert column(bound([7, -3]), np.array([1, 0])).to_pylist() == [-3, 7]


def test_one_and_the_string_one_are_two_ids():
    """An integer never meets the string that looks like it."""
    table = bound(["1"])
    table.bind(pa.array([1]), np.array([1], np.int32))

    assert (table.slot("1"), table.slot(1), table.slot(2)) == (0, 1, -1)
    assert table.snapshot().value(1) == 1
    both = column(table, np.array([0, 1, 0]))
    assert (both.type, both.to_pylist()) == (MIXED_IDS, ["1", 1, "1"])


def test_a_column_has_the_type_of_the_ids_in_it():
    """An id of another kind elsewhere in the table changes nothing."""
    table = bound(["a", ""])
    table.bind(pa.array([1, -(2**63), 2**63 - 1]), np.array([2, 3, 4], np.int32))

    assert column(table, np.array([4, 3])).type == pa.int64()
    assert column(table, np.array([4, 3])).to_pylist() == [2**63 - 1, -(2**63)]
    assert column(table, np.array([1, 0])).type == pa.string()
    assert table.snapshot().values(np.arange(5)) == ["a", "", 1, -(2**63), 2**63 - 1]
    assert table.snapshot().values(np.arange(100) % 5) == 20 * ["a", "", 1, -(2**63), 2**63 - 1]


@pytest.mark.parametrize("asked", ["\x001", "\x00", "\x00\x001", "\ud800"])
def test_a_string_that_no_id_can_be_finds_nothing(asked):
    """What marks integers inside is no way to ask for one, nor does half a character stand for another."""
    table = bound([1])
    table.bind(pa.array(["\ufffd", ""]), np.array([1, 2], np.int32))

    assert table.slot(asked) == -1


def test_every_id_has_a_key_of_its_own():
    """Keys and ids are one to one, also for strings that look like keys; a column has the keys of its values."""
    given = [1, "1", "\x001", "\x00\x001", "", -1, "\x00"]

    assert len({key_of(id_) for id_ in given}) == len(given)
    assert [id_of(key_of(id_)) for id_ in given] == given
    texts = [id_ for id_ in given if isinstance(id_, str)]
    assert keys_of(pa.array(texts)).to_pylist() == [key_of(id_) for id_ in texts]


def test_a_released_id_has_no_slot_but_old_snapshots_still_name_it():
    """What was delivered before stays readable."""
    table = bound(["a", "b"])
    before = table.snapshot()
    table.release(np.array([0], np.int32))

    assert (len(table), table.slot("a"), table.slot("b")) == (1, -1, 1)
    assert before.value(0) == "a"


def test_ids_that_come_and_go_do_not_pile_up():
    """Memory follows the ids that live, not those that ever lived."""
    table = bound(["stays"])
    n = 60_000
    for batch in range(4):
        slots = np.arange(1 + batch * n, 1 + (batch + 1) * n, dtype=np.int32)
        table.bind(pa.array([f"{batch}-{i}" for i in range(n)]), slots)
        table.release(slots)

    assert len(table) == 1
    assert table.slot("stays") == 0
    assert len(table._keys) <= 100_001


def test_slots_of_a_column():
    """A column of ids gives a column of slots, -1 where there is none."""
    assert bound(["a", "b"]).slots(pa.array(["b", "x", "a"])).tolist() == [1, -1, 0]
    assert bound([]).slots(pa.array(["x"])).tolist() == [-1]
