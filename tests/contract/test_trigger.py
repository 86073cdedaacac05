"""The trigger index from inside: its arrays after any change, how well it prunes, merging while it matches."""

import threading

import numba
import numpy as np
import pytest
from hypothesis import given

from contract.conftest import kinds_of
from contract.naive import as_lists
from contract.worlds import EARTH, PLANE, SMALL, area, point, world
from nearcast.geo import Box, Circle
from nearcast.indexes import create, open_index
from nearcast.indexes.trigger import index as trigger_module
from nearcast.indexes.trigger.components import SegmentComponent
from nearcast.query import parse
from nearcast.testing import IndexActor, check_index, replay, scripts
from support.waiting import PATIENCE_S, join

UNIT = Box(0, 0, 1, 1)
A = parse("a")


class CheckedActor(IndexActor):
    """Walks through the index after every change."""

    def reweigh(self, weights):
        super().reweigh(weights)
        check_index(self.index)

    def insert(self, wanted):
        slots = super().insert(wanted)
        check_index(self.index)
        return slots

    def remove(self, slots):
        super().remove(slots)
        check_index(self.index)

    def replace(self, slots, wanted):
        super().replace(slots, wanted)
        check_index(self.index)

    def move(self, slots, regions):
        super().move(slots, regions)
        check_index(self.index)

    def settle(self):
        super().settle()
        check_index(self.index)


def small(space=PLANE, spec=SMALL):
    return IndexActor(create(spec, space))


def segments(index):
    return [component for component in index._components if isinstance(component, SegmentComponent)]


# Invariants


@pytest.mark.modes
@pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="minutes in plain Python; test_agrees_with_scan walks as well"
)
@given(script=scripts(kinds=kinds_of("trigger")))
def test_every_change_leaves_the_arrays_in_order(script):
    """Owners, lists, blocks, signatures, cells and counts keep their promises after each step of any script."""
    replay(CheckedActor(create("trigger:leaf_rows=2,few=0,delta_rows=6", script.space)), script)


@pytest.mark.modes
@pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])
def test_a_large_segment_is_in_order(space):
    """So do those of a segment with many cells and lists of several blocks."""
    wanted, _ = world(3, space, 400, 0)
    index = IndexActor(create("trigger:leaf_rows=16,few=2,delta_rows=8", space))
    index.insert(wanted)
    check_index(index.index)
    stats = index.index.stats()
    assert 1 == stats["segments"]
    assert stats["cells"] > 10
    assert stats["entries"] > stats["segment_rows"] > 400


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda s: s.signature.__setitem__(0, np.uint64(1 << 63)), "signature"),
        (lambda s: s.rectangle.__setitem__(0, np.uint64(0x7FFF)), "rectangle"),
        (lambda s: s.block.__setitem__(0, np.uint64(0x7FFF_7FFF_7FFF_7FFF)), "block"),
        (lambda s: s.row.__setitem__(slice(None), s.row[::-1].copy()), "ascending|require"),
        (lambda s: s.table.__setitem__(slice(None), -1), "in no list"),
        (lambda s: s.by_slot.__setitem__(0, s.by_slot[1]), "by_slot|rows_of_slots"),
        (lambda s: s.places.child.__setitem__(0, 0), "child|parent|cell"),
        (lambda s: s.rows.shape.__setitem__(0, 8), "shape"),
        (lambda s: s.earth.__setitem__(0, 1), "space"),
    ],
)
def test_the_walk_notices_damage(damage, message):
    """`check_index` fails where an array is wrong: it is able to."""
    index = small()
    index.insert([(parse(f"a b{i % 3}"), Box(i, 0, i + 0.5, 1)) for i in range(60)])
    check_index(index.index)
    damage(segments(index.index)[0].segment)
    with pytest.raises(AssertionError, match=message):
        check_index(index.index)


def test_the_walk_notices_a_lost_owner():
    """A slot that belongs to nobody, or a number that is lost, does not pass."""
    index = small()
    index.insert([(A, UNIT)] * 3)
    index.index._owner[1] = 77
    with pytest.raises(AssertionError, match="component that is not there"):
        check_index(index.index)


# Pruning


@pytest.mark.modes
def test_a_message_meets_only_triggers_of_its_words():
    """Of 200 subscriptions to 100 words, a message of one word looks at two."""
    index = small()
    index.insert([(parse(f"word{i % 100}"), None) for i in range(200)])
    matches = index.match([(["word7"], point(0, 0))])
    assert ([[7, 107]], 2, 2) == (as_lists(matches), matches.candidates, matches.verified)


@pytest.mark.modes
def test_the_rarest_word_is_the_trigger():
    """A message with the common word alone looks at none of those that also need a rare one."""
    index = small()
    index.insert([(parse(f"common rare{i}"), UNIT) for i in range(50)])
    matches = index.match([(["common"], point(0, 0))])
    assert ([[]], 0, 0) == (as_lists(matches), matches.candidates, matches.verified)
    matches = index.match([(["common", "rare3"], point(0, 0))])
    assert ([[3]], 1, 1) == (as_lists(matches), matches.candidates, matches.verified)


@pytest.mark.modes
@pytest.mark.parametrize("merged", [False, True], ids=["delta", "segment"])
def test_signatures_spare_verification(merged):
    """A trigger whose other words the message lacks is looked at and not verified: matched 1, verified 1 of 2."""
    index = small(spec="trigger:delta_rows=1" if merged else "trigger")
    others = [(parse(f"common{1 + i % 2} other{i}"), UNIT) for i in range(6)]
    index.insert([(parse("rare common1"), UNIT), (parse("rare common2"), UNIT), *others])
    matches = index.match([(["rare", "common1"], point(0, 0))])
    assert ([[0]], 2, 1) == (as_lists(matches), matches.candidates, matches.verified)


@pytest.mark.modes
@pytest.mark.parametrize("merged", [False, True], ids=["delta", "segment"])
def test_matched_one_verified_two(merged):
    """What passes word and rectangle is verified: here a circle's corner, matched 1, verified 2, of 3 looked at."""
    index = small(spec="trigger:delta_rows=1" if merged else "trigger")
    index.insert([(A, Box(0, 0, 9, 9)), (A, Circle(5, 5, 5)), (A, Box(5, 5, 9, 9))])
    matches = index.match([(["a"], point(0.5, 0.5))])
    assert ([[0]], 3, 2) == (as_lists(matches), matches.candidates, matches.verified)


@pytest.mark.modes
def test_cells_spare_what_is_far_away():
    """Of a thousand boxes in a row with one word, a point looks at those of its cell, about `leaf_rows`."""
    index = small(spec="trigger:leaf_rows=16,few=1,delta_rows=8")
    index.insert([(A, Box(i, 0, i + 0.5, 1)) for i in range(1000)])
    matches = index.match([(["a"], point(500.25, 0.5))])
    assert [[500]] == as_lists(matches)
    assert 1 == matches.verified
    assert matches.candidates <= 32


@pytest.mark.modes
def test_blocks_are_skipped():
    """A long list in one cell is skipped through 16 entries at a time."""
    index = small(spec="trigger:leaf_rows=100000,few=1,delta_rows=8")
    index.insert([(A, Box(i, 0, i + 0.5, 1)) for i in range(1600)])
    matches = index.match([(["a"], point(500.25, 0.5))])
    assert [[500]] == as_lists(matches)
    assert 1 == matches.verified
    assert matches.candidates < 100 + 2 * 16


# Merging


def test_many_inserts_are_merged_in_the_background():
    """Deltas become segments and segments of one size become one: few remain of hundreds of inserts."""
    index, scan = small(), IndexActor(create("scan", PLANE))
    wanted, said = world(2, PLANE, 300, 40)
    for each in wanted:
        index.insert([each])
        scan.insert([each])
    index.settle()
    stats = index.index.stats()
    assert stats["merges"] > 20
    assert stats["segments"] < 4 * 4
    assert stats["segment_rows"] + stats["delta_rows"] >= 300
    assert scan.match(said) == index.match(said)
    check_index(index.index)


def test_a_half_dead_segment_is_rebuilt():
    """Removing most of a segment makes the merger drop the dead rows."""
    index = small()
    slots = index.insert([(A, Box(i, 0, i + 1, 1)) for i in range(100)])
    index.remove(slots[:60])
    index.settle()
    assert 40 == index.index.stats()["segment_rows"]
    assert [slots[60:]] == as_lists(index.match([(["a"], (0, 0, 200, 1))]))
    check_index(index.index)


class SlowBuild:
    """Stops the merger inside `build_segment` until told to go on; other threads build as ever."""

    def __init__(self, monkeypatch):
        self.started, self.go = threading.Event(), threading.Event()
        self._build = trigger_module.build_segment
        monkeypatch.setattr(trigger_module, "build_segment", self)

    def __call__(self, *args, **kwargs):
        segment = self._build(*args, **kwargs)
        if threading.current_thread().name == "nearcast-merge" and not self.go.is_set():
            self.started.set()
            assert self.go.wait(PATIENCE_S), "the test forgot to let the merger go on"
        return segment


@pytest.fixture
def slow_build(monkeypatch):
    slow = SlowBuild(monkeypatch)
    yield slow
    slow.go.set()


def filled(slow_build, space=PLANE):
    """Return an index whose first full delta is being merged, and a scan that holds the same."""
    index, scan = small(space), IndexActor(create("scan", space))
    for k in range(3):
        wanted = [(A, Box(i + 8 * k, 0, i + 8 * k + 1, 1)) for i in range(8)]
        index.insert(wanted)
        scan.insert(wanted)
    assert slow_build.started.wait(PATIENCE_S)
    return index, scan


EVERYTHING = [(["a", "b"], (-10.0, -10.0, 1e4, 10.0)), (["b"], (-10.0, -10.0, 1e4, 10.0)), (["a"], point(3, 1))]


def both(index, scan, verb, *args):
    assert getattr(scan, verb)(*args) == getattr(index, verb)(*args)


def test_matching_and_changing_go_on_during_a_merge(slow_build):
    """While a merge is under way every call returns, and sees every change before it."""
    index, scan = filled(slow_build)
    both(index, scan, "match", EVERYTHING)
    for verb, *args in (
        ("remove", [0, 3, 17]),
        ("replace", [1, 20], [(parse("b"), UNIT), (parse("b"), Circle(5, 0, 2))]),
        ("move", [2, 21], [Box(100, 0, 101, 1), None]),
        ("insert", [(parse("a b"), UNIT)]),
        ("replace", [1, 24], [(A, area([(0, 0), (4, 0), (0, 4), (0, 0)])), (parse("b"), None)]),
        ("remove", [2]),
    ):
        both(index, scan, verb, *args)
        both(index, scan, "match", EVERYTHING)
        check_index(index.index)
    assert index.index._merger.is_alive()
    slow_build.go.set()
    index.settle()
    assert index.index.stats()["merges"] > 0
    both(index, scan, "match", EVERYTHING)
    check_index(index.index)


def test_rows_removed_during_a_merge_stay_removed(slow_build):
    """The merged segment lists them, and they are not found: after it, after more merges, after saving."""
    index, scan = filled(slow_build)
    gone = list(range(0, 24, 2))
    both(index, scan, "remove", gone)
    slow_build.go.set()
    index.settle()
    both(index, scan, "match", EVERYTHING)
    assert 12 == len(index.index)
    check_index(index.index)
    for _ in range(6):
        both(index, scan, "insert", [(A, UNIT)] * 8)
        index.settle()
        both(index, scan, "match", EVERYTHING)
    check_index(index.index)


def test_slots_that_grow_past_the_owner_array_during_a_merge(slow_build):
    """A merge that began with a shorter owner array does not bring back what was removed since."""
    index, scan = filled(slow_build)
    for _ in range(130):
        both(index, scan, "insert", [(A, Box(50, 0, 51, 1))] * 8)
    assert len(index.index._owner) > 1024
    both(index, scan, "remove", [1, 5, 1000])
    slow_build.go.set()
    index.settle()
    both(index, scan, "match", EVERYTHING)
    check_index(index.index)


def test_more_components_than_numbers(slow_build):
    """When changes outrun the merger, they wait for a merge of their own instead of failing."""
    index, scan = filled(slow_build)
    for _ in range(300):
        both(index, scan, "insert", [(A, Box(50, 0, 51, 1))] * 8)
    both(index, scan, "remove", [1, 2])
    slow_build.go.set()
    index.settle()
    both(index, scan, "match", EVERYTHING)
    check_index(index.index)


def test_settle_waits_for_the_merge_under_way(slow_build):
    """After `settle` no full delta is left."""
    index, _ = filled(slow_build)
    threading.Timer(0.05, slow_build.go.set).start()
    index.settle()
    assert index.index.stats()["segments"] > 0
    assert index.index.stats()["delta_rows"] <= 8


def test_a_failed_merge_is_told_once_and_loses_nothing(monkeypatch):
    """The next change raises what went wrong, is not half done, and everything is still found; then merging resumes."""
    build = trigger_module.build_segment

    def fail(*args, **kwargs):
        if threading.current_thread().name == "nearcast-merge":
            raise MemoryError("no room to merge")
        return build(*args, **kwargs)

    monkeypatch.setattr(trigger_module, "build_segment", fail)
    index = small()
    slots = index.insert([(A, UNIT)] * 8)
    slots += index.insert([(A, UNIT)] * 8)
    join(index.index._merger)
    monkeypatch.setattr(trigger_module, "build_segment", build)
    with pytest.raises(MemoryError, match="no room"):
        index.insert([(A, UNIT)])
    assert 16 == len(index.index)
    assert [slots] == as_lists(index.match([(["a"], point(0, 0))]))
    index.settle()
    assert [slots] == as_lists(index.match([(["a"], point(0, 0))]))
    check_index(index.index)


def test_an_insert_that_fails_leaves_nothing_behind(monkeypatch):
    """If a segment cannot be built, the index is as it was before the call."""
    index = small()
    slots = index.insert([(A, UNIT)] * 3)

    def fail(*args, **kwargs):
        raise MemoryError("no room to build")

    monkeypatch.setattr(trigger_module, "build_segment", fail)
    with pytest.raises(MemoryError):
        index.insert([(A, UNIT)] * 20)
    with pytest.raises(MemoryError):
        index.replace(slots, [(parse("a OR b OR c OR d"), UNIT)] * 3)
    assert 3 == len(index.index)
    assert [slots] == as_lists(index.match([(["a"], point(0, 0))]))
    check_index(index.index)


@pytest.mark.parametrize("n_threads", [3])
def test_calls_from_several_threads(n_threads):
    """Threads that insert, remove and match at once end with exactly what they left in the index."""
    index = small()
    columns = index.subscriptions([(A, Box(0, 0, i + 1, 1)) for i in range(5)])
    messages = index.messages([(["a"], point(0.5, 0.5))] * 3)
    kept, failures = [], []

    def work():
        try:
            for _ in range(40):
                slots = index.index.insert(columns)
                found = index.index.match(messages)
                assert set(slots.tolist()) <= set(found.slots_of(2).tolist())
                index.index.remove(slots[1:])
                assert not set(slots[1:].tolist()) & set(index.index.match(messages).slots_of(0).tolist())
                kept.append(int(slots[0]))
        except BaseException as error:  # noqa: BLE001  a thread has nobody to raise it to
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        join(thread)
    assert [] == failures
    index.settle()
    assert sorted(kept) == index.index.match(messages).slots_of(1).tolist()
    check_index(index.index)


def test_saving_while_another_thread_inserts(tmp_path):
    """What is saved is a moment of the index: every slot it counts has its rows."""
    index = small()
    stop = threading.Event()

    def insert():
        while not stop.is_set():
            index.insert([(A, UNIT)])

    thread = threading.Thread(target=insert)
    thread.start()
    try:
        for turn in range(5):
            index.index.save(tmp_path / str(turn))
    finally:
        stop.set()
        join(thread)
    for turn in range(5):
        saved = IndexActor(open_index(tmp_path / str(turn)), words=index.words)
        assert [list(range(len(saved.index)))] == as_lists(saved.match([(["a"], point(0, 0))]))
