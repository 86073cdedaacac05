"""The messages of a window: every index finds what the definition finds, to the last bit, whatever happened before."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nearcast.columns import NO_TIME
from nearcast.errors import IncompatibleStore, UnknownIndex
from nearcast.geo import Space
from nearcast.geo.hilbert import hilbert_keys
from nearcast.similarity import near_of, score_of, tfidf_of
from nearcast.topk.window.column_queue import ColumnQueue
from nearcast.topk.window.registry import (
    MESSAGE_INDEXES,
    LiveRows,
    WindowBatch,
    WindowQueries,
    message_index,
    open_message_index,
)

pytestmark = pytest.mark.modes

SPACES = {"earth": Space.earth(), "plane": Space.plane(), "bounded": Space.plane((0.0, 0.0, 10.0, 10.0))}
SEARCHING = [name for name in MESSAGE_INDEXES if name != "scan"]
_X = {"earth": (-180.0, -179.5, -90.0, 0.0, 0.5, 179.0, 180.0), "plane": (-5.0, 0.0, 1.0, 2.5, 10.0)}
_Y = {"earth": (-90.0, -89.9, -45.0, 0.0, 0.5, 60.0, 90.0), "plane": (-5.0, 0.0, 1.0, 2.5, 10.0)}
#: Of a world; the last are those at the limits of a given weight.
_WEIGHTS = (*[(0.0, 0.5, 1.0, 1.0, 3.0)] * 4, (0.0, 1e-30, 1.0, 1e30))
_FAR = {"earth": (1e-3, 5e4, 2e6, 2.1e7), "plane": (1e-3, 1.0, 7.0, 100.0)}


class World:
    """Random messages and subscriptions over few words, places, weights and times, so that much is equal."""

    def __init__(self, seed, space, *, by_time=False, names=tuple(MESSAGE_INDEXES)):
        self.random = np.random.default_rng(seed)
        self.space, self.by_time = space, by_time
        self.weight = self.new_weights(6)
        self.indexes = {name: small_index(name, space, by_time) for name in names}
        self.each("set_weights", self.weight)
        self.floor = 0

    def new_weights(self, n):
        return self.random.choice(_WEIGHTS[self.random.integers(len(_WEIGHTS))], n)

    def each(self, method, *arguments):
        return [getattr(index, method)(*arguments) for index in self.indexes.values()]

    @property
    def next_row(self):
        return self.indexes["scan"].next_row

    def points(self, n):
        kind = self.space.kind
        x, y = self.random.choice(_X[kind], n), self.random.choice(_Y[kind], n)
        if kind == "plane":
            x, y = x + self.random.choice([0.0, 0.25], n), y + self.random.choice([0.0, 0.25], n)
        return np.column_stack([x, y])

    def boxes(self, n):
        box = np.hstack([self.points(n), self.points(n)])
        is_point = self.random.random(n) < 0.6
        box[is_point, 2:] = box[is_point, :2]
        box[:, 1::2].sort(axis=1)
        if not self.space.is_earth:
            box[:, ::2].sort(axis=1)
        return box

    def words(self, n, most):
        """Words of n rows, distinct in each and in any order."""
        rows = [self.random.permutation(self.weight.size)[: self.random.integers(0, most + 1)] for _ in range(n)]
        start = np.cumsum([0, *map(len, rows)])
        return start, np.concatenate([np.zeros(0), *rows]).astype(np.int32)

    def batch(self, n):
        start, word = self.words(n, 4)
        count = self.random.choice([1, 1, 2], len(word)).astype(np.int32)
        time = self.random.integers(0, 12, n)
        return WindowBatch(start, word, count, self.boxes(n), squared(start, count * self.weight[word]), time)

    def asked(self, n):
        start, word = self.words(n, 5)
        weight = self.weight[word]
        own = squared(start, weight)
        word[self.random.random(len(word)) < 0.1] = -1
        text_weight = self.random.choice([0.0, 0.3, 0.5, 0.9, 1.0], n)
        far = self.random.choice(_FAR[self.space.kind], n)
        return WindowQueries(start, word, weight, self.points(n), text_weight, far, own)

    def alive(self):
        first = int(self.random.integers(self.floor, self.next_row + 1))
        last = int(self.random.integers(first, self.next_row + 2))
        return LiveRows(
            int(self.random.choice([0, self.floor, first])),
            int(self.random.choice([last, self.next_row])),
            int(self.random.choice([NO_TIME, -1, 3, 8])) if self.by_time else NO_TIME,
        )

    # --- what happens -----------------------------------------------------------------------------------------------

    def append(self):
        self.each("append", self.batch(int(self.random.choice([0, 1, 3, 9, 40]))))

    def drop(self):
        self.floor = int(self.random.integers(self.floor, self.next_row + 1))
        self.each("drop_before", self.floor)

    def reweigh(self):
        self.weight = self.new_weights(self.weight.size)
        self.each("set_weights", self.weight)
        held = self.indexes["scan"].messages(np.arange(self.floor, self.next_row))
        length = squared(held.word_start, held.count * self.weight[held.word])
        self.each("relength", self.floor, length)

    def add_words(self):
        self.weight = np.append(self.weight, self.new_weights(2))
        self.each("set_weights", self.weight)

    def renumber(self):
        used = self.indexes["scan"].used_words()
        assert all(np.array_equal(used, other) for other in self.each("used_words"))
        kept = self.random.permutation(np.flatnonzero(used))
        new_of_old = np.full(self.weight.size, -1, np.int32)
        new_of_old[kept] = np.arange(len(kept))
        self.weight = np.append(self.weight[kept], self.new_weights(1))
        self.remake("with_words", new_of_old, self.weight)

    def roll_back(self):
        """Append and drop, and go back to before that."""
        first, next_row = self.floor, self.next_row
        dropped = self.indexes["scan"].messages(np.arange(first, int(self.random.integers(first, next_row + 1))))
        self.append()
        self.each("drop_before", first + len(dropped.box))
        self.remake("rolled_back", first, next_row, [dropped])

    def remake(self, method, *arguments):
        made = self.each(method, *arguments)
        self.indexes = dict(zip(self.indexes, map(with_few, made), strict=True))

    def check(self, n=6):
        asked, alive = self.asked(n), self.alive()
        most = self.random.integers(0, 30, n).astype(np.int32)
        threshold = self.random.choice([-1.0, 0.0, 0.3, 0.5, 1.0, 1.5], n)
        threads = int(self.random.integers(1, 3))
        same(*self.each("best", asked, most, alive, threads))
        same(*self.each("at_least", asked, threshold, alive, threads))


def squared(start, component):
    return np.array([float(np.sum(component[a:b] ** 2)) for a, b in pairwise(start)])


def small_index(name, space, by_time):
    """An index that makes segments of very few messages, and merges them."""
    return with_few(message_index(name, space, by_time))


def with_few(index):
    index.TAIL, index.MOST = 4, 64
    return index


def same(expected, *others):
    for actual in others:
        assert expected.start.tolist() == actual.start.tolist()
        assert expected.row.tolist() == actual.row.tolist()
        assert expected.score.tolist() == actual.score.tolist()


def plainly(world, asked, which, alive, row):
    """The score of one message for one of the asked in ordinary Python, None if it does not count."""
    (time,) = world.indexes["scan"].time([row])
    message = world.indexes["scan"].messages([row])
    if not (alive.first <= row < alive.last and row >= world.floor and (alive.after == NO_TIME or time > alive.after)):
        return None
    says = dict(zip(message.word.tolist(), message.count.tolist(), strict=True))
    common, shares = 0.0, False
    for i in range(asked.word_start[which], asked.word_start[which + 1]):
        if asked.word[i] in says:
            shares, weight = True, float(asked.weight[i])
            common += weight * (says[asked.word[i]] * weight)
    if not shares:
        return None
    distance = world.space.distance_to_box(*asked.point[which], message.box[0])
    text = tfidf_of(common, asked.own[which], message.length[0])
    return score_of(asked.text_weight[which], text, near_of(distance, asked.max_distance[which])), time


seeds = st.integers(0, 2**32 - 1)
spaces = st.sampled_from(sorted(SPACES))


@given(seeds, spaces, st.booleans())
def test_scan_is_the_definition(seed, space, by_time):
    """The n best by score, of equals the newer: as ordinary Python ranks them."""
    world = World(seed, SPACES[space], by_time=by_time, names=["scan"])
    world.append()
    world.append()
    world.drop()
    asked, alive = world.asked(3), world.alive()
    found = world.indexes["scan"].best(asked, np.array([0, 3, 1000], np.int32), alive)
    for which, n in enumerate([0, 3, 1000]):
        ranked = []
        for row in range(world.floor, world.next_row):
            counts = plainly(world, asked, which, alive, row)
            if counts is not None:
                ranked.append((counts[0], counts[1] if by_time else 0, row))
        ranked = sorted(ranked, reverse=True)[:n]
        part = slice(found.start[which], found.start[which + 1])
        assert [row for _, _, row in ranked] == found.row[part].tolist()
        assert [score for score, _, _ in ranked] == found.score[part].tolist()


@given(seeds, spaces, st.booleans())
@example(0, "earth", True)
def test_every_index_finds_what_scan_finds(seed, space, by_time):
    """Appends, drops, new weights, new words and new numbers of words in any order change no answer."""
    world = World(seed, SPACES[space], by_time=by_time)
    happenings = ["append"] * 6 + ["drop", "drop", "reweigh", "add_words", "renumber", "roll_back"]
    for _ in range(8):
        getattr(world, world.random.choice(happenings))()
        world.check()


@pytest.mark.parametrize("name", SEARCHING)
@pytest.mark.parametrize("space", sorted(SPACES))
def test_large_segments(name, space):
    """Lists of many blocks, trees of several levels."""
    world = World(3, SPACES[space], names=["scan", name])
    world.indexes[name].TAIL = 100
    world.indexes[name].MOST = 10_000
    batch = world.batch(1500)
    spread = batch.box + world.random.uniform(-0.4, 0.4, (1500, 1))
    if space == "earth":
        spread[:, 1::2], spread[:, ::2] = spread[:, 1::2].clip(-90, 90), spread[:, ::2].clip(-180, 180)
    world.each("append", batch._replace(box=spread))
    for _ in range(3):
        world.check(4)


@pytest.mark.parametrize("name", MESSAGE_INDEXES)
def test_nothing_held(name):
    """An empty window has no best messages, nor has a search for nobody."""
    index = message_index(name, SPACES["plane"], True)
    index.set_weights(np.ones(2))
    asked = WindowQueries(np.array([0, 1]), np.array([1], np.int32), np.ones(1), np.zeros((1, 2)), *np.ones((3, 1)))
    nobody = WindowQueries(np.zeros(1, np.int64), *(each[:0] for each in asked[1:]))
    alive = LiveRows(0, 10, NO_TIME)
    assert [0, 0] == index.best(asked, np.array([5], np.int32), alive).start.tolist()
    assert [0, 0] == index.at_least(asked, np.zeros(1), alive).start.tolist()
    assert [0] == index.best(nobody, np.zeros(0, np.int32), alive).start.tolist()
    index.drop_before(7)
    assert 0 == index.next_row


@pytest.mark.parametrize("name", MESSAGE_INDEXES)
@pytest.mark.parametrize(("by_time", "expected"), [(False, [3, 2]), (True, [0, 3])])
def test_of_equal_scores_the_newer_comes_first(name, by_time, expected):
    """Newer is the later row, or where the window goes by time the larger time, then the later row."""
    index = small_index(name, SPACES["plane"], by_time)
    index.set_weights(np.ones(1))
    word, one = np.zeros(4, np.int32), np.ones(4, np.int32)
    index.append(WindowBatch(np.arange(5), word, one, np.zeros((4, 4)), np.ones(4), np.array([9, 5, 7, 7])))
    asked = WindowQueries(np.array([0, 1]), word[:1], np.ones(1), np.zeros((1, 2)), *np.ones((3, 1)))
    assert expected == index.best(asked, np.array([2], np.int32), LiveRows(0, 4, NO_TIME)).row.tolist()


@pytest.mark.parametrize("name", MESSAGE_INDEXES)
def test_a_word_that_weighs_nothing_is_shared_all_the_same(name):
    """Who shares only such a word counts, by nearness alone; who shares none does not."""
    index = small_index(name, SPACES["plane"], False)
    index.set_weights(np.array([0.0, 1.0]))
    word, one = np.array([0, 1, 0, 1, 0], np.int32), np.ones(5, np.int32)
    box = np.repeat(np.arange(5.0), 4).reshape(5, 4)
    index.append(WindowBatch(np.arange(6), word, one, box, np.array([0.0, 1, 0, 1, 0]), np.zeros(5, np.int64)))
    asked = WindowQueries(
        np.array([0, 1]), word[:1], np.zeros(1), np.zeros((1, 2)), np.array([0.5]), np.array([8.0]), np.zeros(1)
    )
    assert [0, 2, 4] == index.best(asked, np.array([9], np.int32), LiveRows(0, 5, NO_TIME)).row.tolist()


@pytest.mark.parametrize("name", MESSAGE_INDEXES)
def test_what_was_appended_is_given_back(name):
    """Rows keep their words, places and times through segments, merges and drops; those dropped are refused."""
    world = World(5, SPACES["plane"], names=["scan", name])
    batches = [world.batch(30) for _ in range(5)]
    index = world.indexes[name]
    for batch in batches:
        index.append(batch)
    index.drop_before(65)
    rows = np.array([140, 66, 99, 65])
    given_back = index.messages(rows)
    for i, row in enumerate(rows):
        batch, at = batches[row // 30], row % 30
        mine, its = (slice(b.word_start[j], b.word_start[j + 1]) for b, j in ((given_back, i), (batch, at)))
        order = np.argsort(batch.word[its])
        assert batch.word[its][order].tolist() == given_back.word[mine].tolist()
        assert batch.count[its][order].tolist() == given_back.count[mine].tolist()
        assert batch.box[at].tolist() == given_back.box[i].tolist()
        assert batch.length[at] == given_back.length[i]
        assert batch.time[at] == index.time(rows)[i]
    assert 150 == index.next_row
    with pytest.raises(IndexError, match="are held"):
        index.time(np.array([150]))


@pytest.mark.parametrize("name", MESSAGE_INDEXES)
def test_memory_stays_bounded(name):
    """A window that slides for long holds no more than a short one does."""
    world = World(6, SPACES["plane"], names=["scan", name])
    index, size = world.indexes[name], []
    for _ in range(60):
        index.append(world.batch(20))
        index.drop_before(index.next_row - 50)
        size.append(index.nbytes)
    assert max(size[10:30]) >= max(size[30:]) / 2


@pytest.mark.parametrize("name", MESSAGE_INDEXES)
def test_saved_and_opened(name, tmp_path):
    """What is opened answers as what was saved, under any name, and goes on numbering where that was."""
    world = World(7, SPACES["earth"], by_time=True, names=["scan", name])
    for _ in range(6):
        world.append()
    world.drop()
    world.add_words()
    world.indexes[name].save(tmp_path / "saved")
    for other in MESSAGE_INDEXES:
        world.indexes[f"opened as {other}"] = open_message_index(other, tmp_path / "saved", world.space)
    assert {world.next_row} == {index.next_row for index in world.indexes.values()}
    world.check()
    world.append()
    world.check()
    with pytest.raises(FileExistsError):
        world.indexes[name].save(tmp_path / "saved")


def test_a_damaged_store_is_refused(tmp_path):
    """A folder without the arrays, or with others, is no index."""
    with pytest.raises(IncompatibleStore):
        open_message_index("blocks", tmp_path, SPACES["plane"])
    np.save(tmp_path / "about.npy", np.zeros(3, np.int64))
    with pytest.raises(IncompatibleStore, match="build it anew"):
        open_message_index("blocks", tmp_path, SPACES["plane"])


def test_an_unknown_name_is_refused():
    """The error names those that exist."""
    with pytest.raises(UnknownIndex, match="blocks, ir-tree, scan"):
        message_index("r-tree", SPACES["plane"], False)


@pytest.mark.parametrize("name", SEARCHING)
def test_segments_stay_few(name):
    """Single messages and small batches are merged by size."""
    world = World(8, SPACES["plane"], names=["scan", name])
    index = world.indexes[name]
    index.MOST = 1 << 20
    for n in world.random.integers(1, 9, 150):
        index.append(world.batch(int(n)))
        assert len(index._segments) <= 2 + np.log2(index.next_row)
    assert index._tail_row <= index.next_row < index._tail_row + index.TAIL


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), max_size=40))
def test_columns_keep_what_is_in_use(steps):
    """Growing, cutting and dropping move arrays about, and never change what is at a place."""
    columns, plain, first = ColumnQueue(3, value=np.zeros(0, np.int64)), list(range(3)), 3
    for kind, n in steps:
        if kind <= 1:
            columns.add(value=np.arange(len(plain), len(plain) + n) * 7)
            plain += [7 * i for i in range(len(plain), len(plain) + n)]
        elif kind == 2:
            first = min(first + n, len(plain))
            columns.drop(first)
        else:
            end = max(len(plain) - n, first)
            columns.cut(end)
            del plain[end:]
        assert plain[first:] == columns["value"].tolist()


@pytest.mark.parametrize("space", sorted(SPACES))
def test_the_curve_visits_neighbours_one_after_the_other(space):
    """Along the curve a grid is walked in steps between cells that touch, where cells are even."""
    side = np.arange(8)
    grid = np.array([(x, y) for x in side for y in side], float)
    low, high = {"earth": ((-180, -90), (180, 90)), "bounded": ((0, 0), (10, 10)), "plane": ((8, 8), (16, 16))}[space]
    middle = np.array(low) + (grid + 0.5) / 8 * (np.array(high) - np.array(low))
    key = hilbert_keys(SPACES[space], np.hstack([middle, middle]))
    walked = grid[np.argsort(key)]
    assert {1.0} == set(np.abs(np.diff(walked, axis=0)).sum(axis=1).tolist())
