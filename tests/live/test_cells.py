"""What `cells` looks at: few messages for a move, and every promise of its arrays."""

import random
from itertools import pairwise

import numba
import numpy as np
import pytest

from contract.worlds import EARTH, PLANE, random_said
from nearcast.geo import Box, Circle
from nearcast.live.cells import search
from nearcast.live.cells.frame import (
    BITS,
    INSIDE,
    N_CLASSES,
    NO_CELL,
    OUTSIDE,
    UNSURE,
    fill_keys,
    frame_of,
    side_of_window,
    write_finest_cell,
    write_window,
)
from nearcast.live.cells.queries import write_words
from nearcast.live.cells.safe_search import search_safe
from nearcast.live.cells.search import search_rows
from nearcast.live.cells.segments import (
    CELL,
    CELL_LEVEL,
    CLASS_FIRST,
    N_IDS,
    N_POSITIONS,
    N_WORDS,
    POSITION,
    POSTING,
    START,
    WORD,
    count_words,
    fill_directories,
    fill_lists,
    list_of,
    place_directories,
    postings_of,
)
from nearcast.live.cells.store import CellLiveStore
from nearcast.model import Similar
from nearcast.query import parse
from support.live_model import LiveModel

pytestmark = pytest.mark.modes

LONG = 1000
RAMEN = parse("ramen")


def town(space, n, seed=3):
    """Return a store with n messages, evenly over 100 x 100 and all filed."""
    rng = random.Random(seed)
    model = LiveModel("cells", space)
    points = [(rng.uniform(0, 100), rng.uniform(0, 50)) for _ in range(n)]
    model.append([(("ramen", rng.choice("abc")), (x, y, x, y)) for x, y in points], [LONG] * n)
    return model


@pytest.mark.skipif(not numba.config.DISABLE_JIT, reason="looks into kernels")
@pytest.mark.parametrize(
    ("before", "after", "most"),
    [
        (Box(5, 5, 95, 45), Box(5.1, 5, 95.1, 45), 200),
        (Circle(50, 25, 20), Circle(50.1, 25, 20), 300),
        (None, None, 0),
        (Box(200, 200, 201, 201), Box(202, 200, 203, 201), 10),
        (Box(40, 20, 41, 21), Box(40.1, 20, 41.1, 21), 20),
    ],
    ids=["wide box", "circle", "anywhere", "far off", "small box"],
)
def test_move_looks_at_messages_near_the_borders_only(before, after, most, monkeypatch):
    """Of 2,000 messages with the word, those inside both regions, or far from both, are not tried."""
    model, tried = town(PLANE, 2000), []
    touched = search.touched
    monkeypatch.setattr(search, "touched", lambda *given: tried.append(given[1]) or touched(*given))
    model.moved([(RAMEN, before)], [after])
    assert len(tried) <= most
    assert len(tried) == len(set(tried))


WINDOWS = {
    "inside the frame": (2.0, 1.0, 7.0, 4.0),
    "its very border": (0.0, 0.0, 10.0, 5.0),
    "a point of it": (5.0, 2.5, 5.0, 2.5),
    "beyond it on every side": (-1e300, -3.0, 1e300, 9.0),
    "over one corner": (9.0, 4.5, 12.0, 5.5),
    "beside it": (11.0, 0.0, 12.0, 5.0),
    "a finest cell wide": (5.0, 2.5, 5.0 + 10 / 2**BITS, 2.5 + 5 / 2**BITS),
}


@pytest.mark.parametrize("region", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("seed", range(3))
def test_keys_tell_on_which_side_of_a_region_points_are(region, seed):
    """Of points on its border, a number away from it, and anywhere: what a key tells is so, and it tells nearly all."""
    rng = np.random.default_rng(seed)
    x, y = ([low, high, (low + high) / 2] for low, high in (region[::2], region[1::2]))
    x = [a for each in x for a in (each, np.nextafter(each, np.inf), np.nextafter(each, -np.inf))]
    y = [a for each in y for a in (each, np.nextafter(each, np.inf), np.nextafter(each, -np.inf))]
    at_border = [(a, b) for a in x for b in y if 0 <= a <= 10 and 0 <= b <= 5]
    points = np.array([(0, 0), (10, 5), *at_border, *rng.uniform((0, 0), (10, 5), (500, 2)).tolist()])
    box = np.hstack([points, points])
    frame, window = frame_of(box), np.empty((2, 8), np.int64)
    key, kind = np.empty(len(box), np.int64), np.empty(len(box), np.int64)
    fill_keys(box, frame, key, kind)
    write_window(frame[None], 0, np.array(region), True, window, 1)
    told = np.array([side_of_window(window, 1, each) for each in key])
    inside = (points >= region[:2]).all(axis=1) & (points <= region[2:]).all(axis=1)
    assert (kind == 0).all()
    assert set(told[inside]) <= {INSIDE, UNSURE}
    assert set(told[~inside]) <= {OUTSIDE, UNSURE}
    assert (told[-500:] != UNSURE).mean() > 0.99
    write_window(frame[None], 0, np.array(region), False, window, 1)
    assert INSIDE not in [side_of_window(window, 1, each) for each in key]


@pytest.mark.parametrize("seed", range(3))
def test_the_finest_cell_of_a_key_holds_its_point(seed):
    """Also that of points on the frame, and of frames far from 0."""
    rng = np.random.default_rng(seed)
    low, high = np.array([(0.0, 0.0), (-7.3e9, 1e-9), (1e12, -1e12)][seed]), rng.uniform(0.1, 1e6, 2)
    points = np.vstack([low, low + high, low + high * (0, 1), rng.uniform(low, low + high, (500, 2))])
    box, cell = np.hstack([points, points]), np.empty(4)
    frame = frame_of(box)
    key, kind = np.empty(len(box), np.int64), np.empty(len(box), np.int64)
    fill_keys(box, frame, key, kind)
    for point, each in zip(points, key, strict=True):
        write_finest_cell(frame[None], 0, each, cell)
        assert (cell[:2] <= point).all()
        assert (point <= cell[2:]).all()
        assert (cell[2:] - cell[:2] <= 4 * frame[2:]).all()


def check_segments(model):
    """Walk over all segments: every row that lives once, lists ascending, and cells where the directory says."""
    store = model.store
    segments, table = store._builder.segments, store._rows()
    filed = []
    for at, about in enumerate(segments.segment):
        first, n = about[POSITION], about[N_POSITIONS]
        rows, key = segments.row[first : first + n], segments.key[first : first + n]
        filed += rows.tolist()
        classes = about[CLASS_FIRST : CLASS_FIRST + N_CLASSES + 1]
        assert (0, n) == (classes[0], classes[-1])
        assert (np.diff(classes) >= 0).all()
        for low, high in pairwise(classes):
            assert (np.diff(key[low:high]) >= 0).all(), "keys of a class do not ascend"
        assert (key[classes[NO_CELL] :] == 0).all()
        _check_directory(segments, about, key[: classes[1]])
        _check_lists(segments, about, table, rows)
        _check_list_directories(segments, at, key[: classes[1]])
    live = np.flatnonzero(table.expires > store._state.now)
    assert set(live.tolist()) <= set(filed)
    assert len(filed) == len(set(filed))


def _check_directory(segments, about, key):
    level = about[CELL_LEVEL]
    starts = segments.cell[about[CELL] : about[CELL] + (1 << 2 * level) + 1]
    cell_of = key >> 2 * (BITS - level)
    assert np.searchsorted(cell_of, np.arange(len(starts))).tolist() == starts.tolist()


def _check_lists(segments, about, table, rows):
    n_words = about[N_WORDS] or about[N_IDS]
    words = segments.word[about[WORD] : about[WORD] + n_words] if about[N_WORDS] else np.arange(n_words)
    start = segments.start[about[START] : about[START] + n_words + 1] + about[POSTING]
    for k, word in enumerate(words.tolist()):
        has = [word in table.term[table.term_start[row] : table.term_start[row + 1]] for row in rows]
        assert np.flatnonzero(has).tolist() == segments.posting[start[k] : start[k + 1]].tolist()


def _check_list_directories(segments, at, key):
    about = segments.segment[at]
    for number in range(about[START], about[START] + (about[N_WORDS] or about[N_IDS])):
        postings = postings_of(segments, at, number)
        if postings.level:
            position = segments.posting[postings.first : postings.last]
            cell_of = key[position[position < len(key)]] >> 2 * (BITS - postings.level)
            n = (1 << 2 * postings.level) + 1
            starts = segments.cell[postings.cells : postings.cells + n] + postings.origin - postings.first
            assert np.searchsorted(cell_of, np.arange(n)).tolist() == starts.tolist()


@pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])
def test_long_lists_have_a_directory_of_their_own(space):
    """It says where the points of its cells begin; boxes stand behind them, and short lists have none."""
    model = town(space, 600)
    model.append([(("ramen", "d"), (x, x, x + 40.0, x)) for x in range(10)], [LONG] * 10)
    model.append([(("ramen",), (1.0, 1.0, 1.0, 1.0))] * 600, [LONG] * 600)
    model.relevant([(RAMEN, None)])
    check_segments(model)
    segments, words = model.store._builder.segments, model.store.word_table
    ((ramen, level), (rare, none)) = (
        (number, postings_of(segments, 0, number).level)
        for number in (list_of(segments, 0, words.id_of(word))[0] for word in ("ramen", "d"))
    )
    assert ramen != rare
    assert level > 0 == none


@pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])
def test_segments_keep_their_promises(space, monkeypatch):
    """Batches of all sizes, among them boxes of all extents; messages end, and segments take each other in."""
    monkeypatch.setattr(CellLiveStore, "unfiled_rows", 0)
    rng, model, sizes = random.Random(2), LiveModel("cells", space), []
    for now, n in enumerate([70, 1, 2, 40, 3, 30, 1, 1, 80]):
        model.append(
            [(tuple(t), p) for t, p in random_said(rng, space, n)], [now + rng.randint(1, 9) for _ in range(n)]
        )
        model.relevant([(parse("w0"), Box(-3, -3, 3, 3)), (parse("w1 OR w2"), None)])
        check_segments(model)
        sizes.append(len(model.store._builder.segments.segment))
        model.drop(now)
    assert max(sizes) > 1
    assert min(sizes[1:]) < max(sizes)


@pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])
def test_all_messages_at_one_place(space):
    """No cell tells them apart: the walk ends at the finest one."""
    model = LiveModel("cells", space)
    model.append([(("ramen",), (7.0, 8.0, 7.0, 8.0))] * 600, [LONG] * 600)
    assert [600, 0] == [len(row) for row in model.relevant([(RAMEN, Circle(7, 8, 0)), (RAMEN, Box(0, 0, 7, 7.99))])]
    assert [600] == [len(row) for row in model.moved([(RAMEN, Box(0, 0, 7, 8))], [Box(0, 0, 7, 7)])]


def test_few_points_have_no_directory_in_a_list_longer_than_is_looked_at_one_by_one(monkeypatch):
    """The only cell of such a list, everything, is found without one."""
    monkeypatch.setattr(CellLiveStore, "unfiled_rows", 0)
    model = LiveModel("cells", PLANE)
    model.append([(("ramen", "a"), (x, x, x, x)) for x in range(20)], [LONG] * 20)
    wide, low = Box(-50, -50, 50, 50), Box(-50, -50, 8.5, 8.5)
    found = model.relevant([(RAMEN, wide), (parse("a"), low), (RAMEN, Circle(5, 5, 100)), (RAMEN, None)])
    assert [20, 9, 20, 20] == [len(row) for row in found]
    assert [11] == [len(row) for row in model.moved([(RAMEN, wide)], [low])]


def test_places_as_far_apart_as_numbers_go():
    """A frame wider than all floats has no cells; regions far outside of a frame are found outside."""
    model = LiveModel("cells", PLANE)
    far = 1.7e308
    model.append([(("ramen",), (x, 0.0, x, 0.0)) for x in (-far, 0.0, far)] * 200, [LONG] * 600)
    assert [200, 400] == [
        len(row) for row in model.relevant([(RAMEN, Box(-1, -1, 1, 1)), (RAMEN, Box(0, -far, far, far))])
    ]
    model = town(PLANE, 600)
    assert [600, 0, 0] == [
        len(row)
        for row in model.relevant(
            [(RAMEN, Box(-far, -far, far, far)), (RAMEN, Box(1e300, 0, far, 50)), (RAMEN, Circle(-1e300, 0, 5))]
        )
    ]


def test_more_messages_are_found_than_there_was_room_for():
    model = town(PLANE, 1500)
    found = model.relevant([(RAMEN, None), (parse("a"), None), (RAMEN, Box(0, 0, 100, 100))])
    assert [1500, 1500] == [len(found[0]), len(found[2])]


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_every_kernel_is_compiled_once(tmp_path):
    """Arrays have one type wherever they come from: appended, tidied, opened, lent read-only; rows of either kind."""
    model = town(PLANE, 600)
    similar = Similar(0, place=(1, 1), terms=("ramen", "a"), threshold=0.5, max_distance=9.0)
    for number, wanted in enumerate([[(RAMEN, Circle(3, 3, 9))], [similar, (RAMEN, None)], [similar]]):
        model.relevant(wanted)
        model.safe_distance(wanted)
        model.reopen(tmp_path / str(number))
        model.append([(("ramen",), (0.0, 0.0, 1.0, 1.0))] * 3, [LONG] * 3)
        model.store.reweigh(model._weights())
    columns = model.columns([(RAMEN, Box(0, 0, 9, 9))])
    for lent in (columns.code, columns.code_start, columns.kind, columns.regions.part):
        lent.flags.writeable = False
    model.store.relevant(columns, model._weights().from_term(0), np.zeros(1, np.int64))
    kernels = (
        search_rows,
        search_safe,
        fill_keys,
        count_words,
        fill_lists,
        place_directories,
        fill_directories,
        write_words,
    )
    assert {} == {kernel.__name__: kernel.signatures for kernel in kernels if len(kernel.signatures) != 1}
