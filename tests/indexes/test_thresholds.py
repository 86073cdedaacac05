"""Top-k subscriptions in the trigger index: whatever happens to them, it answers as `scan` does."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.columns import SIMILAR, TOPK, WITHIN, Messages, ScoreParameters, Subscriptions
from nearcast.geo import BOX, Regions, Space
from nearcast.indexes import create, open_index
from nearcast.indexes.trigger.thresholds import ThresholdRows, bounds, frame, layout
from nearcast.indexes.trigger.thresholds.components import ThresholdSegment
from nearcast.indexes.trigger.thresholds.scratch import new_scratch
from nearcast.indexes.trigger.thresholds.search import live_triggers
from nearcast.similarity import TFIDF, TSIM
from nearcast.testing import check_index
from support.waiting import PATIENCE_S, join

pytestmark = pytest.mark.modes

EARTH, PLANE = Space.earth(), Space.plane()
SPACES = pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])
N_TERMS = 12


class World:
    """Draws subscriptions, messages and weights in a space, at awkward places too."""

    def __init__(self, seed, space):
        self.rng, self.space = np.random.default_rng(seed), space
        self.weights = self.new_weights()

    def new_weights(self):
        weights = np.round(self.rng.uniform(0, 3, N_TERMS), 1)
        weights[self.rng.integers(N_TERMS)] = 0.0
        return weights

    def places(self, n):
        if self.space.is_earth:
            places = np.column_stack([self.rng.uniform(-180, 180, n), self.rng.uniform(-90, 90, n)])
            awkward = np.array([(180, 0), (-180, 0), (0, 90), (77, -90), (179.99, 10), (13.4, 52.5), (13.41, 52.5)])
        else:
            places = self.rng.uniform(-5, 5, (n, 2))
            awkward = np.array([(0, 0), (0, 1), (1e6, -1e6), (0.1, 0.1), (3, 3), (-0.0, 0), (3, 3 + 1e-9)])
        odd = self.rng.random(n) < 0.4
        places[odd] = awkward[self.rng.integers(len(awkward), size=int(odd.sum()))]
        return places

    def regions(self, n):
        part = np.column_stack([self.places(n)] * 2)[:, :4] if n else np.empty((0, 4))
        each = np.arange(n + 1, dtype=np.int64)
        return Regions(
            np.full(n, BOX, np.uint8), each, part, np.full(n, -1, np.int32), np.empty((0, 3)), np.empty(0, object)
        )

    def subscriptions(self, n, kinds=(TOPK,), most_words=5):
        rng = self.rng
        kind = rng.choice(np.array(kinds, np.uint8), n)
        words = [np.sort(rng.choice(N_TERMS, rng.integers(1, most_words + 1), replace=False)) for _ in range(n)]
        code_start = np.append(0, np.cumsum([len(some) for some in words])).astype(np.int64)
        code = np.concatenate([np.empty(0, np.int32), *words]).astype(np.int32)
        w = rng.uniform(0, 1, n)
        w[rng.random(n) < 0.3] = rng.choice([0.0, 1.0])
        reach = rng.choice([1e3, 1e5, 2e7] if self.space.is_earth else [1e-3, 1.0, 20.0, 1e7], n)
        scored = kind != WITHIN
        similarity = np.where(kind == TOPK, TFIDF, TSIM).astype(np.uint8)
        threshold = np.where(kind == SIMILAR, 0.5, 0.0)
        scoring = ScoreParameters(
            np.where(scored, w, 0.0),
            threshold,
            np.where(scored, reach, 0.0),
            np.where(scored, similarity, 0).astype(np.uint8),
            np.where(kind == TOPK, 20, 0).astype(np.int32),
        )
        each = np.arange(n + 1, dtype=np.int64)
        return Subscriptions.of(each, code_start, code, self.regions(n), kind=kind, scoring=scoring)

    def messages(self, n):
        rng = self.rng
        terms = [rng.integers(-1, N_TERMS + 2, rng.integers(0, 9)) for _ in range(n)]
        start = np.append(0, np.cumsum([len(some) for some in terms])).astype(np.int64)
        low = self.places(n)
        box = np.column_stack([low, low])
        wide = rng.random(n) < 0.4
        if self.space.is_earth:
            box[wide, 2] = rng.uniform(-180, 180, int(wide.sum()))
            box[wide, 3] = np.minimum(90, box[wide, 1] + rng.exponential(20, int(wide.sum())))
        else:
            box[wide, 2:] += rng.exponential(1, (int(wide.sum()), 2))
        return Messages.of(start, np.concatenate([np.empty(0, np.int32), *terms]), box, totals=self.totals(terms))

    def totals(self, terms):
        """Return the totals of messages; words that nobody has weigh 1."""
        weights = np.append(self.weights, [1.0, 1.0, 1.0])
        rows = []
        for some in terms:
            words, count = np.unique(some, return_counts=True)
            rows.append((len(words), weights[words].sum(), ((count * weights[words]) ** 2).sum()))
        return np.array(rows, float).reshape(-1, 3)


class Pair:
    """The trigger index and `scan`, which do everything alike."""

    def __init__(self, world, spec="trigger:delta_rows=8,leaf_rows=16,few=1"):
        self.index, self.scan = create(spec, world.space), create("scan", world.space)
        self.both("set_weights", world.weights)

    def both(self, verb, *args):
        one, other = getattr(self.index, verb)(*args), getattr(self.scan, verb)(*args)
        if one is not None:
            np.testing.assert_array_equal(one, other)
        return one

    def agree(self, messages, **options):
        expected, found = self.scan.match(messages), self.index.match(messages, **options)
        assert expected == found
        return found

    def live(self):
        return np.flatnonzero(self.scan._row_of >= 0).astype(np.int32)

    def topk(self):
        live = self.live()
        return live[self.scan.subscriptions(live).kind == TOPK]


def tied_thresholds(pair, world, messages):
    """Return slots and thresholds that messages reach to the last bit, or miss by it."""
    found = pair.scan.match(messages)
    rows = np.flatnonzero(np.isin(found.slots, pair.topk()))
    slots, first = np.unique(found.slots[rows], return_index=True)
    score = found.score[rows][first]
    step = world.rng.integers(0, 3, len(slots))
    return slots, np.where(step == 0, score, np.where(step == 1, np.nextafter(score, 2), np.nextafter(score, -1)))


@pytest.mark.parametrize(("seed", "space"), [(0, EARTH), (1, PLANE), (2, EARTH)], ids=["0-earth", "1-plane", "2-earth"])
def test_a_long_life(space, seed, interpreted):
    """Random changes of all sorts, with ties at the threshold, leave it in step with `scan`."""
    world = World(seed, space)
    pair = Pair(world)
    for turn in range(12 if interpreted else 60):
        change(world, pair, turn)
        messages = world.messages(4)
        pair.agree(messages)
        slots, values = tied_thresholds(pair, world, messages)
        pair.both("set_thresholds", slots, values)
        pair.agree(messages)
        check_index(pair.index)


def change(world, pair, turn):
    rng, live = world.rng, pair.live()
    some = rng.permutation(live)[: rng.integers(0, 6)]
    match turn % 8:
        case 0 | 5:
            pair.both("insert", world.subscriptions(int(rng.integers(1, 20)), (WITHIN, SIMILAR, TOPK)))
        case 1:
            pair.both("remove", some[:2])
        case 2:
            pair.both("replace", some, world.subscriptions(len(some), (WITHIN, SIMILAR, TOPK)))
        case 3:
            pair.both("move", some, world.regions(len(some)))
        case 4:
            topk = pair.topk()
            pair.both("set_thresholds", topk, rng.choice([0.0, 0.3, 0.6, 0.9, 2.0, np.inf], len(topk)))
        case 6:
            world.weights = world.new_weights()
            pair.both("set_weights", world.weights)
        case 7:
            pair.index.settle()
            pair.both("renumber")


@pytest.fixture
def interpreted():
    """Tell whether kernels run as plain Python."""
    import numba

    return bool(numba.config.DISABLE_JIT)


@SPACES
def test_long_lists(space, interpreted):
    """Lists of several blocks, thresholds up and down and rows dying in them: the same answers."""
    world = World(9, space)
    pair = Pair(world)
    n = 500 if interpreted else 1500
    pair.both("insert", world.subscriptions(n))
    assert pair.index.stats()["topk_blocks"] > 0
    for turn in range(2 if interpreted else 12):
        messages = world.messages(4)
        pair.agree(messages)
        slots, values = tied_thresholds(pair, world, messages)
        pair.both("set_thresholds", slots, values)
        pair.agree(messages)
        topk = pair.topk()
        pair.both("set_thresholds", topk, world.rng.uniform(0, 1, len(topk)) ** (1 if turn % 2 else 0.2))
        pair.agree(messages)
        check_index(pair.index)
        pair.both("remove", world.rng.permutation(topk)[: n // 60])


@SPACES
def test_saved_and_opened(space, tmp_path):
    """What is opened answers as before, and can be changed."""
    world = World(4, space)
    pair = Pair(world)
    pair.both("insert", world.subscriptions(40, (WITHIN, SIMILAR, TOPK)))
    pair.both("insert", world.subscriptions(5))
    topk = pair.topk()
    pair.both("set_thresholds", topk, world.rng.uniform(0, 1, len(topk)))
    pair.both("remove", topk[:3])
    pair.index.save(tmp_path / "saved")
    pair.index = open_index(tmp_path / "saved")
    messages = world.messages(20)
    pair.agree(messages)
    check_index(pair.index)
    pair.both("set_thresholds", topk[3:], np.zeros(len(topk) - 3))
    pair.both("insert", world.subscriptions(20, (WITHIN, TOPK)))
    pair.agree(messages)
    pair.index.settle()
    pair.agree(messages)
    check_index(pair.index)


def test_most_rows_are_in_one_list():
    """However subscriptions come, each of the lists has more than twice the rows of all smaller ones in the end."""
    world = World(11, PLANE)
    pair = Pair(world)
    for n in (9, 9, 3, 30, 9, 9, 9, 2, 9, 5):
        pair.both("insert", world.subscriptions(n, (TOPK,)))
        pair.index.settle()
    held = pair.index._moving._components.values()
    sizes = sorted(each.n_rows for each in held if isinstance(each, ThresholdSegment))
    assert all(size > 2 * sum(sizes[:i]) for i, size in enumerate(sizes))
    pair.agree(world.messages(20))
    check_index(pair.index)


@SPACES
def test_what_slots_hold(space):
    """`subscriptions` gives back what was put in, of all kinds, in the order asked, with the present threshold."""
    world = World(5, space)
    pair = Pair(world)
    pair.both("insert", world.subscriptions(30, (WITHIN, SIMILAR, TOPK)))
    topk = pair.topk()
    pair.both("set_thresholds", topk, world.rng.uniform(0, 1, len(topk)))
    slots = world.rng.permutation(pair.live())
    one, other = pair.index.subscriptions(slots), pair.scan.subscriptions(slots)
    np.testing.assert_array_equal(one.kind, other.kind)
    np.testing.assert_array_equal(one.code, other.code)
    np.testing.assert_array_equal(one.code_start, other.code_start)
    np.testing.assert_array_equal(one.regions.part, other.regions.part)
    for mine, theirs in zip(one.scoring.columns(), other.scoring.columns(), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_thresholds_of_other_kinds_are_refused():
    """Only top-k subscriptions have one to set; nothing is changed."""
    world = World(6, PLANE)
    pair = Pair(world)
    pair.both("insert", world.subscriptions(3, (WITHIN,)))
    pair.both("insert", world.subscriptions(3))
    for index in (pair.index, pair.scan):
        with pytest.raises(ValueError, match="topk"):
            index.set_thresholds(np.array([1, 4]), np.ones(2))
        with pytest.raises(ValueError, match="2 slots"):
            index.set_thresholds(np.array([3, 4]), np.ones(3))
    pair.agree(world.messages(20))


@SPACES
def test_threads_give_the_same_answer(space, interpreted):
    """Several chunks on several threads."""
    world = World(7, space)
    pair = Pair(world)
    pair.both("insert", world.subscriptions(30))
    messages = world.messages(20 if interpreted else 1200)
    assert pair.scan.match(messages) == pair.agree(messages, threads=3)


def test_changing_and_matching_at_once():
    """Threads that change and match at once end with what they left."""
    world = World(8, PLANE)
    pair = Pair(world)
    pair.both("insert", world.subscriptions(60))
    messages, failures = world.messages(5), []
    values = world.rng.uniform(0, 1, (40, 60))
    more = [world.subscriptions(9) for _ in range(10)]

    def set_thresholds():
        try:
            for some in values:
                pair.index.set_thresholds(np.arange(60), some)
                pair.index.match(messages)
        except BaseException as error:  # noqa: BLE001  a thread has nobody to raise it to
            failures.append(error)

    thread = threading.Thread(target=set_thresholds)
    thread.start()
    for some in more:
        slots = pair.index.insert(some)
        pair.index.match(messages)
        pair.index.remove(slots[::2])
    join(thread)
    assert [] == failures
    pair.scan.set_thresholds(np.arange(60), values[-1])
    for some in more:
        pair.scan.remove(pair.scan.insert(some)[::2])
    pair.agree(messages)
    pair.index.settle()
    pair.agree(messages)
    check_index(pair.index)


class SlowBuild:
    """Stops the merger after it has laid out its rows, until told to go on."""

    def __init__(self, monkeypatch):
        from nearcast.indexes.trigger.thresholds import part

        self.started, self.go, self._build = threading.Event(), threading.Event(), part.build_lists
        monkeypatch.setattr(part, "build_lists", self)

    def __call__(self, *args, **kwargs):
        lists = self._build(*args, **kwargs)
        if threading.current_thread().name == "nearcast-merge" and not self.go.is_set():
            self.started.set()
            assert self.go.wait(PATIENCE_S), "the test forgot to let the merger go on"
        return lists


@pytest.fixture
def slow_build(monkeypatch):
    slow = SlowBuild(monkeypatch)
    yield slow
    slow.go.set()


@pytest.mark.parametrize("upset", [None, "renumber", "set_weights"])
def test_changes_during_a_merge(slow_build, upset):
    """Thresholds set, and rows removed, replaced and moved while a merge is under way, count after it."""
    world = World(11, PLANE)
    pair = Pair(world)
    for _ in range(4):
        pair.both("insert", world.subscriptions(8))
    assert slow_build.started.wait(PATIENCE_S)
    messages = world.messages(20)
    pair.both("set_thresholds", np.arange(0, 32, 2), world.rng.uniform(0, 1, 16))
    pair.both("remove", np.array([1, 4, 9]))
    pair.both("replace", np.array([2, 3]), world.subscriptions(2))
    pair.both("replace", np.array([5]), world.subscriptions(1, (WITHIN,)))
    pair.both("move", np.array([6, 30]), world.regions(2))
    if upset == "renumber":
        pair.both("renumber")
    if upset == "set_weights":
        world.weights = world.new_weights()
        pair.both("set_weights", world.weights)
        messages = world.messages(20)
    pair.agree(messages)
    slow_build.go.set()
    pair.index.settle()
    assert pair.index.stats()["topk_merges"] > 0
    pair.agree(messages)
    check_index(pair.index)


def test_explain_names_the_trigger():
    """It tells the word, what can be reached and what is needed."""
    pair = Pair(World(0, PLANE))
    each = np.arange(17, dtype=np.int64)
    nowhere = np.full(16, -1, np.int32)
    part = np.zeros((16, 4))
    regions = Regions(np.full(16, BOX, np.uint8), each, part, nowhere, np.empty((0, 3)), np.empty(0, object))
    scoring = ScoreParameters(
        np.full(16, 0.5), np.zeros(16), np.full(16, 10.0), np.full(16, TFIDF, np.uint8), np.full(16, 5, np.int32)
    )
    words = np.tile(np.array([3, 5], np.int32), 16)
    pair.both(
        "insert", Subscriptions.of(each, 2 * each, words, regions, kind=np.full(16, TOPK, np.uint8), scoring=scoring)
    )
    pair.both("set_weights", np.where(np.arange(N_TERMS) == 3, 2.0, 1.0))
    pair.both("set_thresholds", np.array([2]), np.array([0.9]))
    messages = Messages.of(
        np.array([0, 2, 3]), np.array([5, 1, 1]), np.zeros((2, 4)), totals=np.array([[2, 2, 2.0], [1, 1, 1.0]])
    )
    found = pair.agree(messages)
    assert 2 not in found.slots_of(0)
    assert "never scored" in pair.index.explain(messages, 0, 2, "abcdef".__getitem__)[1]
    assert "trigger 'f'" in pair.index.explain(messages, 0, 1, "abcdef".__getitem__)[0]
    assert "scored in full" in pair.index.explain(messages, 0, 1, "abcdef".__getitem__)[1]
    assert "no word" in pair.index.explain(messages, 1, 1, "abcdef".__getitem__)[0]


@settings(max_examples=min(15, settings().max_examples))
@given(
    seed=st.integers(0, 1 << 30),
    u=st.floats(0, 1, width=32),
    place=st.tuples(*[st.floats(-3, 3)] * 2),
)
def test_bounds_let_through_what_may_fire(seed, u, place):
    """Where a trigger reaches its threshold, its entry and its block let it: also after thresholds rose and fell."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 20))
    w, p = rng.uniform(0, 1, n) ** rng.choice([0.1, 1, 10]), rng.uniform(0, 1, n)
    point = rng.uniform(-1, 1, (n, 2)) * rng.choice([0, 0.1, 1])
    reach = rng.choice([10, 1, 0.03], n)
    after = np.sqrt(1 - u * u)
    near = np.maximum(0, 1 - np.hypot(*(point - place).T) / reach)
    score = w * (p * u + np.sqrt(1 - p * p) * after) + (1 - w) * near
    rows = rows_at(point, w, reach)
    entries, blocks = bounds.new_entries(n), bounds.new_blocks(1)
    around = frame.frame_around(False, rows.record, 0.0)
    view = np.empty(frame.VIEW)
    frame.set_view(False, around, np.array([[*place, *place]]), 0, view)
    loose = layout._LooseTriggers(
        *(np.asarray(column, np.float32) for column in (w * p, w * np.sqrt(1 - p * p), 1 - w)),
        score,
        *np.empty((4, n), np.float32),
        np.ones(n, np.uint32),
        np.zeros(n, np.int32),
    )
    place_loose(around, rows, loose)
    layout._lay_out(loose, np.arange(n), np.array([0, n]), np.array([0, 1]), around, entries, blocks)
    room = np.empty(bounds.CORNERS, np.float32)
    bounds.fill_blocks(entries, blocks, np.array([0, n]), np.array([0, 1]), room)
    for at in range(n):
        entries.threshold[at] = bounds.threshold_as_entry(0.0 if rng.random() < 0.5 else 2.0)
        bounds.raise_table(entries, blocks, 0, at)
        entries.threshold[at] = bounds.threshold_as_entry(score[at] - rng.choice([0.0, 0.0, 0.1, -0.1]))
        bounds.raise_table(entries, blocks, 0, at)
    share = np.float32(u), np.float32(after)
    box = bounds.box_of_block(blocks, 0)
    later = np.full(n, share[1] * share[1])
    live = bounds.live_entries(entries, 0, n, share[0], later, np.uint32(1), True, around, view, box)
    for at in range(n):
        if entries.threshold[at] <= bounds.threshold_as_entry(score[at]):
            assert (live >> at) & 1 == 1
            assert bounds.live_blocks(blocks, 0, 1, *share, around, view) == 1


@pytest.mark.parametrize("n_later", [0, 3, 64, 65, 200])
def test_later_words_of_a_message_count_for_triggers_that_may_have_them(n_later):
    """No trigger gets less than the length of those whose bits it has, and one that has none gets nothing."""
    rng = np.random.default_rng(n_later)
    entries = bounds.new_entries(bounds.GROUP)
    entries.signature[:] = rng.integers(0, 1 << 32, bounds.GROUP, dtype=np.uint32) & rng.integers(0, 1 << 32)
    entries.signature[5] = 0
    bit = (np.uint32(1) << rng.integers(0, 32, n_later + 1).astype(np.uint32)).astype(np.uint32)
    u = rng.dirichlet(np.ones(n_later + 1)).astype(np.float32) ** np.float32(0.5)
    scratch = new_scratch(8, 1, n_later + 1, 64)
    scratch.bit[:], scratch.u[:] = bit, u
    bits, after = np.bitwise_or.reduce(bit[1:], initial=np.uint32(0)), np.float32(np.sqrt((u[1:] ** 2).sum()))
    later = scratch.later
    bounds.fill_later(entries, 0, bounds.GROUP, scratch, 1, n_later + 1, bits, after, later)
    shares = (entries.signature[:, None] & bit[1:]) != 0
    assert (later >= (shares * u[1:] ** 2).sum(axis=1) - 1e-6).all()
    assert later[5] == 0.0
    assert (later <= np.float32(1.0001)).all()


@pytest.mark.parametrize("n", [1, 31, 32, 33, 70])
def test_triggers_at_the_end_are_tried_with_those_before_them(n):
    """Whether there are 32 triggers or fewer, every group of them has the bits of its own."""
    entries = bounds.new_entries(n)
    fires = np.random.default_rng(n).random(n) < 0.5
    entries.threshold[:] = np.where(fires, 0, 40_000)
    entries.text[:] = 32_768
    lists_frame, view = np.zeros(frame.FIELDS), np.zeros(frame.VIEW)
    box = bounds.box_of_frame(lists_frame)
    scratch = new_scratch(8, 1, 8, 64)
    for first in range(0, n, bounds.GROUP):
        n_here = min(bounds.GROUP, n - first)
        live = live_triggers(
            entries,
            first,
            n_here,
            np.float32(1.0),
            scratch,
            0,
            0,
            np.uint32(0),
            np.float32(0.0),
            True,
            lists_frame,
            view,
            box,
        )
        assert [bool(live >> bit & 1) for bit in range(bounds.GROUP)] == [
            *fires[first : first + n_here].tolist(),
            *[False] * (bounds.GROUP - n_here),
        ]


def rows_at(point, w, reach):
    record = np.zeros((len(point), 8))
    record[:, :2], record[:, 2], record[:, 4] = point, w, reach
    return ThresholdRows(np.zeros(len(w), np.int32), record, np.zeros(len(w), np.int32), np.empty(0, np.int32))


def place_loose(around, rows, loose):
    for at, record in enumerate(rows.record):
        point = np.empty(3)
        frame.set_place(False, around, record[0], record[1], point)
        loose.x[at], loose.y[at], loose.z[at] = point
        loose.steep[at] = frame.steepness(around, record[4])
