"""Top-k subscriptions through an index's life: thresholds set, refused, kept and lost; moved, replaced, saved."""

from dataclasses import replace

import numpy as np
import pytest

from contract.naive import as_lists
from contract.topk import agree, best, filled
from contract.worlds import PLANE, point
from nearcast.errors import InvalidColumns, UnknownSubscription
from nearcast.geo import Box
from nearcast.indexes import open_index
from nearcast.model import Similar
from nearcast.query import parse
from nearcast.testing.values import point_box

pytestmark = pytest.mark.modes

HERE, AWAY = point(0, 0), point(1e9, 0)


# What is refused


def test_setting_no_thresholds(new_topk):
    """No slots, no change."""
    index = new_topk(PLANE)
    naive, _ = filled(index, [best()])
    index.set_thresholds([], [])
    agree(index, naive, [(["a"], HERE)])


def test_a_dead_slot_has_no_threshold(new_topk):
    """Naming one raises UnknownSubscription and changes nothing, not even the slots named before it."""
    index = new_topk(PLANE)
    naive, slots = filled(index, [best("a")] * 3)
    for each in (index, naive):
        each.remove([slots[2]])
    for dead in (slots[2], 10_000):
        with pytest.raises(UnknownSubscription, match=f"slot {dead} "):
            index.set_thresholds([slots[0], dead], [2.0, 2.0])
    assert [slots[:2]] == [[slot for slot, _ in each] for each in agree(index, naive, [(["a"], HERE)])]


def test_thresholds_named_twice_or_not_at_all(new_topk):
    """A slot twice in a call, or fewer values than slots, raises ValueError and changes nothing."""
    index = new_topk(PLANE)
    naive, slots = filled(index, [best("a")] * 2)
    with pytest.raises(ValueError, match="slot"):
        index.set_thresholds([slots[0], slots[1], slots[0]], [2.0, 2.0, 2.0])
    with pytest.raises(ValueError, match="thresholds"):
        index.set_thresholds(slots, [2.0])
    assert [slots] == [[slot for slot, _ in each] for each in agree(index, naive, [(["a"], HERE)])]


def test_other_kinds_keep_their_thresholds(new_of_all_kinds):
    """Naming a similar or boolean slot raises ValueError and changes nothing."""
    index = new_of_all_kinds(PLANE)
    naive, slots = filled(index, [best("a")])
    for other_kind in (
        Similar(0, place=(0.0, 0.0), terms=("a",), threshold=0.5, max_distance=1.0),
        (parse("a"), Box(0, 0, 1, 1)),
    ):
        other = index.insert([other_kind])
        assert naive.insert([other_kind]) == other
        with pytest.raises(ValueError, match="topk"):
            index.set_thresholds([slots[0], *other], [2.0, 2.0])
    assert 3 == len(agree(index, naive, [(["a"], HERE)])[0])


def test_messages_without_totals_are_refused(new_topk):
    """The length of a message is part of its score."""
    index = new_topk(PLANE)
    index.insert([best()])
    messages = replace(index.messages([(["a"], HERE)]), totals=None)
    with pytest.raises(InvalidColumns, match="totals"):
        index.index.match(messages)


# What becomes of thresholds


def test_what_becomes_of_a_threshold(new_topk, tmp_path):
    """A move and new numbers keep it, so do saving and opening; replacing begins at 0 again; new words weigh in."""
    index = new_topk(PLANE)
    naive, slots = filled(index, [best("a b"), best("a b"), best("a b"), best("a b", text_weight=0.2)])
    said = [(["a"], HERE), (["a"], point(4, 0)), (["a", "b"], AWAY), (["b", "x"], point(4, 3))]

    def both(verb, *arguments):
        for each in (index, naive):
            getattr(each, verb)(*arguments)
        return agree(index, naive, said)

    both("set_thresholds", slots, [0.8, 0.8, 0.8, 0.9])
    both("move", [slots[0], slots[3]], [point_box(4, 0), point_box(3, 0)])
    both("replace", [slots[1]], [best("b", place=(4.0, 3.0))])
    both("remove", [0, 5])
    assert naive.renumber() == index.renumber()
    agree(index, naive, said)
    both("reweigh", {"a": 3.0, "x": 0.1})
    index.index.save(tmp_path / "index")
    index.index = open_index(tmp_path / "index")
    agree(index, naive, said)
    first = slots[0] - 2
    both("set_thresholds", [first, first + 1], [0.0, 0.7])
    both("move", [first + 1], [point_box(0, 0)])
    both("reweigh", {})


def test_thresholds_are_given_back_with_the_columns(new_topk):
    """`subscriptions` tells the threshold of the moment."""
    index = new_topk(PLANE)
    _, slots = filled(index, [best("a"), best("b"), best("c")], [0.1, 0.2, 0.3])
    index.settle()
    index.set_thresholds(slots[:1], [0.9])
    scoring = index.index.subscriptions(np.array(slots[::-1], np.int32)).scoring
    assert [0.3, 0.2, 0.9] == scoring.threshold.tolist()


def test_the_columns_handed_in_stay_as_they_are(new_topk):
    """Setting a threshold does not write into what was inserted."""
    index = new_topk(PLANE)
    columns = index.subscriptions([best("a"), best("b")])
    slots = index.index.insert(columns)
    index.index.set_thresholds(slots, np.array([0.5, 0.7]))
    assert [0.0, 0.0] == columns.scoring.threshold.tolist()
    assert [[]] == as_lists(index.match([(["a", "x", "y"], point(50, 50))]))


def test_many_of_one_word_with_thresholds_of_their_own(new_topk, interpreted):
    """Long lists of one word: the right ones are found whatever order their thresholds are in."""
    n = 40 if interpreted else 400
    index = new_topk(PLANE)
    wanted = [best("a b" if i % 2 else "a", text_weight=(i * 7 % 11) / 10, place=(i % 9, i % 4)) for i in range(n)]
    naive, slots = filled(index, wanted, [(i * 13 % 20) / 20 for i in range(n)])
    said = [(["a"], point(3, 1)), (["b"], point(8, 3)), (["a", "b", "x"], point(30, 0)), (["a", "b"], (0, 0, 9, 9))]
    agree(index, naive, said)
    for each in (index, naive):
        each.set_thresholds(slots[::3], [0.5] * len(slots[::3]))
        each.move(slots[1::5], [point_box(5, 5)] * len(slots[1::5]))
        each.remove(slots[2::7])
    agree(index, naive, said)
