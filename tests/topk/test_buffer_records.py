"""Buffers as records: rows by their low bits, slabs that follow the length of a buffer, numbers of holders in lines."""

from datetime import UTC, datetime, timedelta

import numba
import numpy as np
import pytest

from nearcast import Hub, IncompatibleStore, Message, TopK
from nearcast.topk.buffers.entries import Entries, find_row
from nearcast.topk.buffers.pool import SLAB_SIZES
from nearcast.topk.holder_numbers import HolderTable
from nearcast.topk.saved_keeper import adopt, taken_out

pytestmark = pytest.mark.modes

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
#: So many rows from here on have other high bits than those before.
FIRST = (1 << 32) - 40


def posts(n):
    """Messages of scores that rise and fall; every seventh comes late."""
    for i in range(n):
        x = (i * 37 % 100) / 10 * (1 + i // 50 % 2)
        yield Message(i, f"tea w{i % 5}", (x, 0.0), time=BEGIN + timedelta(seconds=i - 6 * (i % 7 == 0)))


def hub_of(window, buffer, first_row):
    hub = Hub("plane", window=window, max_distance=10, index=f"scan:buffer={buffer},kmax=4,messages=scan")
    keeper = hub._state.topk
    keeper.messages._begin(first_row)
    keeper.sliding.first_row = keeper.sliding.next_row = first_row
    for i in range(4):
        hub.subscribe(TopK(i, f"tea w{i}", (i, 0), k=1 + i, text_weight=i / 4))
    return hub


@pytest.mark.parametrize("window", [15, "15s"])
@pytest.mark.parametrize("buffer", ["cskyband", "skyband", "kmax"])
def test_rows_may_pass_what_an_entry_has_bits_for(window, buffer):
    """An entry has 32 bits of a row; the window tells the others."""
    found = []
    for first_row in (0, FIRST):
        hub = hub_of(window, buffer, first_row)
        told = hub.publish_many(list(posts(90)))
        found.append([(d.subscription_id, d.message_id, d.change, d.score, d.rank) for d in told])
        assert first_row + 90 == hub._state.topk.next_row
    assert len(found[0]) > 100
    assert found[0] == found[1]


def test_a_buffer_that_became_short_moves_to_a_short_slab():
    """Messages that score less and less are all kept; then each is better than all before."""
    hub = Hub("plane", window=40, max_distance=100, index="scan:buffer=skyband")
    hub.subscribe(TopK("s", "tea", (0, 0), k=1, text_weight=0.0))
    keeper = hub._state.topk
    hub.publish_many([Message(i, "tea", (i, 0)) for i in range(39)])
    long = SLAB_SIZES[keeper.holders.size_class[0]]
    hub.publish_many([Message(100 + i, "tea", (90 - i, 0)) for i in range(91)])
    assert [190] == [d.message_id for d in hub.current("s")]
    assert SLAB_SIZES[keeper.holders.size_class[0]] < long


def test_a_buffer_is_cut_before_it_outgrows_its_slab():
    """However many messages are welcome, a buffer that was filled once stays in the slab it got then."""
    hub = Hub("plane", window=400, max_distance=100, index="scan")
    hub.publish_many([Message(i, "tea", (i * 37 % 400 / 10, 0)) for i in range(400)])
    hub.subscribe(TopK("s", "tea", (0, 0), k=5, text_weight=0.0))
    keeper = hub._state.topk
    slab, cut = keeper.holders.slab[0], keeper.slabs.at.tolist()
    hub.publish_many([Message(400 + i, "tea", (i * 53 % 300 / 10, 0)) for i in range(300)])
    assert slab == keeper.holders.slab[0]
    assert cut == keeper.slabs.at.tolist()
    assert keeper.holders.limit[0] < SLAB_SIZES[keeper.holders.size_class[0]]


def test_subscriptions_are_adopted_any_number_of_times():
    hub = hub_of(15, "cskyband", 0)
    hub.publish_many(list(posts(30)))
    keeper, slots = hub._state.topk, hub._state.topk.slots()
    before = [keeper.current(slot)[0].tolist() for slot in slots]
    for number in range(30):
        one = slots[number % 4 : number % 4 + 1]
        columns = taken_out(keeper, one)
        keeper.release(one)
        adopt(keeper, one, columns)
    assert before == [keeper.current(slot)[0].tolist() for slot in slots]


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_columns_of_few_holders_have_gaps_like_those_of_many(n):
    """Kernels are compiled for columns with gaps; a column without, as of one record, would compile them again."""
    table = HolderTable()
    assert not table.columns.theta.flags.c_contiguous
    table.restore({"slot": np.arange(5, 5 + n, dtype=np.int32), "k": np.full(n, 3, np.int32)})
    assert not table.columns.theta.flags.c_contiguous
    assert n == len(table)
    table.take(np.array([1, 2], np.int32))
    assert [1, 2, *range(5, 5 + n)] == table.slots().tolist()
    assert n + 2 == len(table)
    assert 0 == table.columns.theta.ctypes.data % 64


def test_new_numbers_of_slots_compile_no_kernel_again():
    """An index that was packed gives other slots: their column has the type it had, gaps included."""
    table = HolderTable()
    table.take(np.arange(4, dtype=np.int32))
    other = table.renumbered(np.array([3, 1], np.int32))
    assert other.columns.slot[other.of_slots(np.arange(2, dtype=np.int32))].tolist() == [0, 1]
    assert [numba.typeof(column) for column in table.columns] == [numba.typeof(column) for column in other.columns]


def test_a_saved_buffer_with_a_message_twice_is_refused(tmp_path):
    """What expires is looked for by its row: a second one would be left behind, and counted as if it were there."""
    hub = hub_of(15, "cskyband", 0)
    hub.publish_many(list(posts(40)))
    hub.save(tmp_path / "hub")
    (path,) = (tmp_path / "hub").rglob("entry_tag.npy")
    tags = np.load(path)
    tags[1] = tags[0]
    np.save(path, tags)
    with pytest.raises(IncompatibleStore, match=r"entry_tag\.npy .*a message twice"):
        Hub.open(tmp_path / "hub", verify=False)


def test_the_first_of_equal_rows_is_found():
    entries = Entries(score=np.zeros(4), row=np.array([7, 9, 9, 9], np.uint32), dominators=np.zeros(4, np.uint16))
    assert [0, 1, 4] == [find_row(entries, 4, row) for row in (7, 9, 8)]
