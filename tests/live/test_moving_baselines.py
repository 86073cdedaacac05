"""The stores of the baselines for moving subscriptions: whatever their cells and lists leave out, nothing is missed."""

import math
import random
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_live_scripts import Play
from test_torn_stores import arrive, ask, look

from contract.worlds import PLANE, random_region, random_said, random_wanted
from nearcast.errors import UnknownIndex
from nearcast.geo import Area, Box, Circle, Regions, Space
from nearcast.indexes import create
from nearcast.indexes.papers.quad.entries import EntryLists
from nearcast.indexes.shared import stored_index
from nearcast.live import stored
from nearcast.live.cells.queries import nowhere, places_of, queries_of
from nearcast.live.papers import grid
from nearcast.live.papers.quad import mark_changed
from nearcast.live.registry import live_store, store_name
from nearcast.query import parse
from nearcast.testing import IndexActor, scripts
from nearcast.text.words import WordTable
from support.live_model import LiveModel
from support.torn import Tracer

pytestmark = [pytest.mark.modes, pytest.mark.papers]

#: Options with which few subscriptions and messages are in many cells.
_LEAVES = "leaf=1,depth=6,update=0.0001"
SMALL = {"iq+-tree": _LEAVES, "kk-index": "cells=4", "rq+-tree": _LEAVES, "ss-index": "cells=4"}
GRIDS, QUADS = ["kk-index", "ss-index"], ["iq+-tree", "rq+-tree"]
LONG = 1000
RAMEN = parse("ramen")
#: Messages at the corners of the frame, so that a grid of four by four has cells of 4 by 4.
CORNERS = [(("other",), (0.0, 0.0, 0.0, 0.0)), (("other",), (16.0, 16.0, 16.0, 16.0))]


class IndexedModel(LiveModel):
    """A store with the index that it is part of, which holds what was asked for."""

    def __init__(self, name, space):
        super().__init__(name, space)
        self.new_index()

    def new_index(self):
        """Take an index with a few subscriptions all over space, whose trees have small cells for these."""
        self.index = create(f"{self.name}:{SMALL[self.name]}", self.space)
        self.store.use_index(self.index)
        side, step = (160, 40) if self.space.is_earth else (16, 2)
        sites = [(x, y) for x in range(-side if self.space.is_earth else 0, side + 1, step) for y in range(0, 17, 4)]
        self.columns([(RAMEN, Box(x, y, x + 0.1, y + 0.1)) for x, y in sites])

    def columns(self, wanted):
        """Return subscriptions as the index does, which gets those of its kind."""
        columns = super().columns(wanted)
        within = columns.take(np.flatnonzero(columns.kind == 0))
        self.index.insert(within)
        return columns

    def other_terms(self):
        """Give words other numbers, in the index as well."""
        super().other_terms()
        self.new_index()

    def reopen(self, folder, name=None):
        """Save the store and go on with what is read back."""
        super().reopen(folder, name)
        self.store.use_index(self.index)


def steps(found):
    """Return what a move of one subscription tells: + or -, and the arrival."""
    (row,) = found
    return [("-+"[enters], arrival) for enters, arrival, _ in row]


def at(x, y):
    return (x, y, x, y)


def ramen_at(*places):
    return [(("ramen",), place) for place in places]


@pytest.fixture(params=SMALL)
def name(request):
    """Name an index and its store."""
    return request.param


@pytest.fixture
def plane(name):
    """Return an empty store on a plane."""
    return IndexedModel(name, Space.plane())


@pytest.fixture
def earth(name):
    """Return an empty store on the earth."""
    return IndexedModel(name, Space.earth())


@pytest.mark.parametrize("name", SMALL)
@given(script=scripts(kinds=("within", "similar", "topk"), max_steps=12), spare=st.sampled_from([0, 1000]))
def test_store_follows_a_script(name, script, spare):
    """Whatever happens to a store, it answers as `scan` does, in the presence of kinds that its paper does not have."""
    folder = Path(tempfile.mkdtemp())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored, "_SPARE_ROWS", spare)
        patch.setattr(stored, "_SPARE_WORDS", spare)
        patch.setattr(grid, "_FEW_ROWS", spare)
        play = Play("scan", script, folder)
        play.model = IndexedModel(name, script.space)
        try:
            play.run()
        finally:
            shutil.rmtree(folder)


def test_a_store_without_its_index_answers_all_the_same(name):
    """A store that was told of no index tries every message, or has cells of its own."""
    model = LiveModel(name, Space.plane())
    model.append([*CORNERS, *ramen_at(at(3.0, 3.0))], [LONG] * 3)
    assert [("+", 6)] == steps(model.moved([(RAMEN, Box(8, 8, 9, 9))], [Box(2, 2, 5, 5)]))


def test_own_store_goes_with_its_own_index_alone(name):
    """A lifetime takes the store of the index's own name; another index is refused it."""
    assert name == store_name("", create(name, Space.plane()))
    assert "cells" == store_name("", create(f"{name}:live=cells", Space.plane()))
    with pytest.raises(UnknownIndex):
        store_name(name, create("iq-tree", Space.plane()))


@pytest.mark.parametrize("call", [arrive, ask], ids=["append", "ask"])
def test_torn_call_is_done_or_not_begun(name, call):
    """A call that is cut short, here at every seventh line, leaves the store as before it or as after it."""

    def new_model():
        model = LiveModel(name, Space.plane())
        said = [(("ramen", "soup", f"w{x}"), at(float(x), 0.0)) for x in range(3)]
        model.append(said, [5, LONG, LONG])
        ask(model)()
        return model

    model = new_model()
    before, whole = look(model), call(model)
    whole()
    at_line, after = 1, look(model)
    while True:
        model, tracer = new_model(), Tracer(at_line)
        ended, _ = tracer.run(call(model))
        assert look(model) in (before, after), tracer.places
        if ended:
            break
        at_line += 7
    assert at_line > 7


def test_append_that_cannot_file_has_stored_nothing(plane, monkeypatch):
    """A call that raises has changed nothing; the next one files all there is."""
    plane.append([*CORNERS, *ramen_at(at(5.0, 5.0))], [LONG] * 3)

    def no_memory(*_):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(EntryLists, "add", no_memory)
        with pytest.raises(MemoryError):
            plane.store.append(plane._encoded(ramen_at(at(5.0, 5.0))), np.array([99]), np.array([LONG]))
    assert 3 == len(plane.store)
    assert [[(6, 1.0)]] == plane.relevant([(RAMEN, Box(4, 4, 6, 6))])
    plane.append(ramen_at(at(5.5, 5.5)), [LONG])
    assert [[(6, 1.0), (9, 1.0)]] == plane.relevant([(RAMEN, Box(4, 4, 6, 6))])


# --- the increments of Algorithm 6 -------------------------------------------------------------------------------


def test_mover_comes_to_cover_a_cell_and_leaves_it(plane):
    """Slip of Algorithm 6, which leaves out what covers a cell: it is told like any other, and so is what is inside."""
    places = [at(x, y) for x in (5.0, 6.0, 7.0) for y in (5.0, 7.0)]
    plane.append([*CORNERS, *ramen_at(*places)], [LONG] * 8)
    inside, around = Box(5.5, 5.5, 6.5, 6.5), Box(3.0, 3.0, 13.0, 13.0)
    every = [6, 9, 12, 15, 18, 21]
    assert [("+", each) for each in every] == steps(plane.moved([(RAMEN, inside)], [around]))
    assert [("-", each) for each in every] == steps(plane.moved([(RAMEN, around)], [inside]))


def test_what_both_regions_hold_says_nothing(plane):
    """Case 1: cells in both regions change nothing, those cut in the same way neither; the others tell - and +."""
    places = [at(x, 6.0) for x in (1.0, 5.0, 9.0, 13.0)]
    plane.append([*CORNERS, *ramen_at(*places)], [LONG] * 6)
    assert [("-", 6), ("+", 15)] == steps(plane.moved([(RAMEN, Box(0, 5, 10, 7))], [Box(4, 5, 14, 7)]))
    assert [] == steps(plane.moved([(RAMEN, Box(0, 5, 10, 7))], [Box(0, 5, 10, 8)]))


def test_the_difference_of_two_regions_is_no_rectangle(plane):
    """Slip: r minus the new r is an L; messages in either arm of it, and on the borders, are told once."""
    places = [at(2.0, 2.0), at(2.0, 9.0), at(9.0, 2.0), at(6.0, 6.0), at(10.0, 6.0), at(6.0, 10.0)]
    plane.append([*CORNERS, *ramen_at(*places)], [LONG] * 8)
    told = steps(plane.moved([(RAMEN, Box(2, 2, 9, 9))], [Box(6, 6, 10, 10)]))
    assert [("-", 6), ("-", 9), ("-", 12), ("+", 18), ("+", 21)] == told


def test_borders_are_inside_of_cells_too(plane):
    """Messages on the sides of regions that are sides of cells as well, and a hair beyond them."""
    beyond = math.nextafter(8.0, 9.0)
    plane.append([*CORNERS, *ramen_at(at(8.0, 8.0), at(beyond, 8.0), at(4.0, 8.0))], [LONG] * 5)
    assert [("+", 6), ("+", 12)] == steps(plane.moved([(RAMEN, Box(0, 8, 3, 8))], [Box(4, 8, 8, 8)]))
    assert [("+", 9)] == steps(plane.moved([(RAMEN, Box(4, 8, 8, 8))], [Box(4, 8, beyond, 8)]))


def test_a_message_over_several_cells_is_told_once(plane):
    """A box that reaches into many cells enters when one of them does, and stays while another is touched."""
    plane.append([*CORNERS, (("ramen",), (1.0, 1.0, 11.0, 11.0))], [LONG] * 3)
    assert [("+", 6)] == steps(plane.moved([(RAMEN, Box(12, 12, 15, 15))], [Box(2, 2, 9, 9)]))
    assert [] == steps(plane.moved([(RAMEN, Box(2, 2, 3, 3))], [Box(10, 10, 13, 13)]))
    assert [("-", 6)] == steps(plane.moved([(RAMEN, Box(10, 10, 13, 13))], [Box(12, 0, 13, 13)]))


def test_dateline(earth):
    """Regions and messages across the dateline, and cells at either end of the frame."""
    places = [at(179.5, 0.0), at(-179.5, 0.0), (179.8, -1.0, -179.8, 1.0), at(0.0, 80.0), at(0.0, -80.0)]
    earth.append(ramen_at(*places), [LONG] * 5)
    assert [("+", 3), ("+", 6)] == steps(earth.moved([(RAMEN, Box(-179, -1, -178, 1))], [Box(179.9, -1, -179, 1)]))
    assert [("-", 3), ("+", 0)] == steps(earth.moved([(RAMEN, Box(179.9, -1, -179, 1))], [Box(179, -1, -179.9, 1)]))
    assert [("+", 0), ("+", 3), ("+", 6)] == steps(earth.moved([(RAMEN, Circle(0, 0, 9))], [Circle(180, 0, 60_000)]))


def test_wide_region_across_the_dateline(earth):
    """A side that stays within one cell cuts it otherwise, also where the region has two rectangles."""
    corners = [(("other",), at(x, y)) for x in (-180.0, 180.0) for y in (-90.0, 90.0)]
    earth.append([*corners, *ramen_at(at(1.0, 1.0))], [LONG] * 5)
    before, after = Box(0.5, -80, -170, 80), Box(1.5, -80, -170, 80)
    assert [("-", 12)] == steps(earth.moved([(RAMEN, before)], [after]))
    assert [("+", 12)] == steps(earth.moved([(RAMEN, after)], [before]))


def test_zero_area(plane):
    """A region of one point finds the messages at it."""
    plane.append([*CORNERS, *ramen_at(at(8.0, 8.0), at(8.0, 12.0))], [LONG] * 4)
    assert [("-", 6), ("+", 9)] == steps(plane.moved([(RAMEN, Box(8, 8, 8, 8))], [Box(8, 12, 8, 12)]))
    assert [("-", 9), ("+", 6)] == steps(plane.moved([(RAMEN, Circle(8, 12, 0))], [Circle(8, 8, 0)]))


def test_all_messages_at_one_place(plane):
    """A frame without extent has one cell for everything."""
    plane.append(ramen_at(*[at(3.0, 3.0)] * 3), [LONG] * 3)
    assert [("+", 0), ("+", 3), ("+", 6)] == steps(plane.moved([(RAMEN, Box(4, 4, 5, 5))], [Box(3, 3, 4, 4)]))


def test_polygons_anywhere_and_clauses(plane):
    """What cells and words cannot decide: edges, no region at all, OR, NOT, phrases, words that no message has."""
    said = [(("ramen", "soup"), at(2.0, 2.0)), (("soup", "ramen"), at(9.0, 9.0)), (("tea",), at(2.0, 1.0))]
    plane.append([*said, (("ramen",), at(9.0, 2.0))], [LONG] * 4)
    corner = Area({"type": "Polygon", "coordinates": [[(0, 0), (10, 0), (0, 10), (0, 0)]]})
    assert [("-", 3), ("-", 9)] == steps(plane.moved([(RAMEN, Box(0, 0, 10, 10))], [corner]))
    assert [("+", 3), ("+", 9)] == steps(plane.moved([(RAMEN, corner)], [None]))
    either = parse('"ramen soup" OR tea OR unheard')
    assert [("+", 0), ("+", 6)] == steps(plane.moved([(either, Box(20, 20, 21, 21))], [Box(0, 0, 10, 10)]))
    assert [("+", 6)] == steps(plane.moved([(parse("NOT ramen"), Box(20, 20, 21, 21))], [Box(0, 0, 10, 10)]))


def test_word_first_used_after_the_message_came(plane):
    """A message is in the lists of all its words, also of those that no subscription has."""
    plane.append([*CORNERS, (("odd", "ramen"), at(5.0, 5.0))], [LONG] * 3)
    plane.relevant([(RAMEN, Box(4, 4, 6, 6))])
    assert [[(6, 1.0)]] == plane.relevant([(parse("odd"), Box(4, 4, 6, 6))])


def test_nobody_asks(plane):
    """No subscriptions get no answers, with messages and without."""
    assert [] == plane.relevant([])
    plane.append([*CORNERS, *ramen_at(at(5.0, 5.0))], [LONG] * 3)
    assert [] == plane.relevant([])
    assert [] == plane.moved([], [])


def test_messages_that_come_and_go(plane):
    """Rows behind those that are filed are new; those that are over do not count, and go when most of them are."""
    region, wanted = Box(4, 4, 6, 6), [(RAMEN, Box(4, 4, 6, 6))]
    for number in range(40):
        plane.append([*CORNERS, *ramen_at(at(5.0, 5.0), at(5.5, 5.0))], [number + 3] * 4)
        plane.relevant(wanted)
        plane.moved([(RAMEN, Box(8, 8, 9, 9))], [region])
        plane.drop(number)
        plane.store.tidy()


# --- grids --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GRIDS)
def test_grid_passes_over_what_does_not_change(name):
    """Of the 16 cells a mover has 12 in common with its old place, cut alike: it reads the others, each once."""
    model = IndexedModel(name, Space.plane())
    said = ramen_at(*(at(x, y) for x in (0.0, 6.0, 10.0, 16.0) for y in (0.0, 6.0, 10.0, 16.0)))
    model.append(said, [LONG] * 16)
    model.relevant([(RAMEN, None)])
    visits = visits_of(model, Box(-1, -1, 17, 17), Box(-1, -1, 11, 17))
    assert 8 + 1 == len(visits)  # two columns of four, and the cell of what is everywhere
    assert 16 + 1 == len(visits_of(model, None, Box(-1, -1, 17, 17)))
    assert 1 == len(visits_of(model, Box(-1, -1, 17, 17), Box(-1, -1, 17, 17)))


def visits_of(model, before, after, query=RAMEN):
    """Return the lists that a mover reads."""
    columns = LiveModel.columns(model, [(query, after)])  # without a change of the index
    queries = queries_of(columns, model.store._state.words, np.ones(9), np.zeros(1, np.int64))
    old = nowhere(1) if before is None else places_of(Regions.from_shapes([before], model.space))
    model.store._file_rows_behind()
    (visits,) = model.store._visits(queries, old, places_of(columns.regions))
    found = list(zip(visits.owner.tolist(), visits.key.tolist(), strict=True))
    assert len(set(found)) == len(found)
    return found


@pytest.mark.parametrize("name", GRIDS)
def test_what_is_in_most_cells_is_kept_once(name):
    """A message over more than 256 cells is in one cell that everybody looks at; so is a wide subscription."""
    model = LiveModel(name, Space.plane())
    model.append([*ramen_at((0.0, 0.0, 100.0, 100.0), at(0.0, 0.0), at(100.0, 100.0))], [LONG] * 3)
    assert [("-", 3), ("+", 6)] == steps(model.moved([(RAMEN, Box(0, 0, 1, 1))], [Box(99, 99, 100, 100)]))
    assert [("+", 0)] == steps(model.moved([(RAMEN, Box(101, 0, 102, 1))], [Box(50, 50, 51, 51)]))
    assert len(model.store._lists().number) <= 2 * 3 + 2


@pytest.mark.parametrize("name", GRIDS)
def test_cells_of_a_side_are_checked(name):
    """An option that is no number of cells is refused."""
    for cells in (0, 4097):
        with pytest.raises(UnknownIndex, match="from 1 to 4096"):
            create(f"{name}:cells={cells}", Space.plane())
    store = live_store(name, Space.plane(), WordTable())
    store.use_index(create(f"{name}:cells=7", Space.plane()))
    assert 7 == store._cells


# --- quadtrees ----------------------------------------------------------------------------------------------------


#: A region without a message.
FAR = Box(30, 30, 31, 31)


def crowd(x, y, n):
    """Return n subscriptions of little extent around a place, no two at the same."""
    return [(RAMEN, Box(x + i / 50, y + i / 50, x + i / 50 + 0.01, y + i / 50 + 0.01)) for i in range(n)]


def with_messages(name):
    """Return a store with 100 messages, two of them wide, whose index holds subscriptions all over space."""
    model = IndexedModel(name, Space.plane())
    places = [at(16.0 * (i % 10) / 9, 16.0 * (i // 10) / 9) for i in range(98)]
    wide = [(1.0, 1.0, 12.0, 3.0), (0.0, 5.0, 16.0, 6.0)]
    said = [(("ramen",) if i % 3 else ("ramen", "odd"), place) for i, place in enumerate([*places, *wide])]
    model.append(said, [LONG] * 100)
    model.relevant([(RAMEN, None)])
    return model


def check_trees(model):
    """Assert that every cell of the message trees has each message that reaches it, once, in the lists of its words."""
    filed, words = model.store._filed, model.store.word_table
    steps = filed._steps(np.array([each.place for each in model.held]))
    trees = {
        "": None,
        "ramen": 1 + words.ids_of(["ramen"], add=False)[0],
        "odd": 1 + words.ids_of(["odd"], add=False)[0],
    }
    for word, key in trees.items():
        start = filed._starts(np.array([key or 0], np.int32))
        todo = start.tolist()
        while todo:
            node = todo.pop()
            level, x, y = filed.trees.cell(node).tolist()
            cell = steps >> (16 - level)
            reached = (cell[:, :2] <= (x, y)).all(axis=1) & (cell[:, 2:] >= (x, y)).all(axis=1)
            expected = [i for i in np.flatnonzero(reached) if not word or word in model.held[i].tokens]
            keys, found = filed._held(node)
            if model.name == "iq+-tree":
                found = found[keys == (key or 0)]
            assert expected == sorted(found.tolist())
            child = int(filed.trees.nodes[node, 0])
            todo += range(child, child + 4) if child >= 0 else []


def cells_below(trees, node):
    """Return the cells of a tree from a node down."""
    child = int(trees.nodes[node, 0])
    below = [cells_below(trees, each) for each in range(child, child + 4)] if child >= 0 else []
    return {tuple(trees.cell(node).tolist())}.union(*below)


@pytest.mark.parametrize("name", QUADS)
def test_messages_are_in_the_cells_of_the_index(name):
    """A message is filed in every cell there is, also where no subscription has asked yet; once if it has two parts."""
    model = with_messages(name)
    index, filed = model.index, model.store._filed
    root = index._known_roots(1 + model.terms.ids_of(["ramen"], add=False))[0]
    start = filed._starts(1 + model.store.word_table.ids_of(["ramen"], add=False))[0]
    expected = cells_below(index._trees, int(root))
    assert 50 < len(expected)
    assert expected == cells_below(filed.trees, int(start))
    check_trees(model)
    earth = IndexedModel(name, Space.earth())
    earth.append(ramen_at((179.0, 0.0, -179.0, 1.0), (-46.0, 0.0, -48.0, 1.0)), [LONG] * 2)
    earth.moved([(RAMEN, Box(10, 0, 11, 1))], [Box(170, 0, -170, 1)])
    earth.columns([(RAMEN, Box(x, 0, x + 0.1, 0.1)) for x in np.linspace(-52.0, -45.0, 30)])
    earth.moved([(RAMEN, Box(10, 0, 11, 1))], [Box(-46, 0, -45.9, 0.1)])
    filed = earth.store._filed
    assert 4 < filed.trees._n
    for node in range(filed.trees._n):
        listed = list(zip(*(each.tolist() for each in filed._held(node)), strict=True))
        assert len(set(listed)) == len(listed)


@pytest.mark.parametrize("name", QUADS)
def test_message_is_not_lost_to_a_cell_made_later(name):
    """Slip: messages are handed on to the cells that the index makes by dividing others, and found there."""
    model = with_messages(name)
    filed, n_nodes = model.store._filed, len(model.store._filed.trees)
    model.columns(crowd(8.8, 8.8, 15))
    near = Box(8.85, 8.85, 8.95, 8.95)
    assert [("+", 165)] == steps(model.moved([(RAMEN, FAR)], [near]))
    assert model.store._filed is filed
    assert len(filed.trees) > n_nodes
    check_trees(model)
    assert [("-", 165)] == steps(model.moved([(RAMEN, near)], [FAR]))
    model.append(ramen_at(at(8.9, 8.9), (8.0, 8.0, 9.0, 9.0)), [LONG] * 2)
    assert [("+", each) for each in (165, 300, 303)] == steps(model.moved([(RAMEN, FAR)], [near]))
    check_trees(model)


@pytest.mark.parametrize("name", QUADS)
def test_messages_follow_trees_that_are_built_anew(name):
    """Slip: another frame has other cells, and all messages are filed in them."""
    model = with_messages(name)
    filed = model.store._filed
    check_trees(model)
    model.columns(crowd(100.0, 100.0, 60))
    assert [("+", 0), ("+", 294)] == steps(model.moved([(RAMEN, FAR)], [Box(0, 0, 1, 1)]))
    assert model.store._filed is not filed
    check_trees(model)


@pytest.mark.parametrize("name", QUADS)
def test_cells_that_the_index_has_joined_keep_their_messages(name):
    """A subscription that goes up to a joined cell finds all messages of its quarters."""
    model = with_messages(name)
    n_nodes = len(model.index._trees)
    model.index.remove(np.arange(1, model.index.n_slots, dtype=np.int32))
    told = steps(model.moved([(RAMEN, FAR)], [Box(0, 0, 2, 2)]))
    assert len(model.index._trees) < n_nodes
    assert [("+", each) for each in (0, 3, 30, 33, 294)] == told
    check_trees(model)


def test_mover_reads_the_list_of_its_rarest_word(name):
    """Ranked keys: of two words the one in fewer messages, and in fewer subscriptions; none if nobody says one."""
    model = with_messages(name)
    words = model.store.word_table
    model.relevant([(parse("odd"), Box(1, 1, 2, 2))])
    found = visits_of(model, None, Box(1, 1, 2, 2), parse("ramen odd"))
    odd, ramen = (visits_of(model, None, Box(1, 1, 2, 2), parse(word)) for word in ("odd", "ramen"))
    assert ["odd", "ramen"] == sorted(words.words().to_pylist())
    assert odd == found != ramen
    assert [] == visits_of(model, None, Box(1, 1, 2, 2), parse("ramen unheard"))


@pytest.mark.parametrize("name", QUADS)
def test_quad_passes_over_what_does_not_change(name):
    """Of the cells of its two places a mover reads those that they cut in different ways, and none if it stays."""
    model = with_messages(name)
    before, after = Box(-1, -1, 9, 9), Box(-1, -1, 10, 9)
    model.columns([(RAMEN, before), (RAMEN, after)])
    every = {*visits_of(model, None, before), *visits_of(model, None, after)}
    assert set() < set(visits_of(model, before, after)) < every
    assert [] == visits_of(model, before, before)


def test_a_side_that_ends_in_a_cell_binds_it():
    """Sides in one step, the last of a cell, are still told apart; in the cell before they bind nothing."""
    before, after = (places_of(Regions.from_shapes([Box(0, 0, x, 9)], Space.plane())) for x in (5.5, 5.7))
    steps, changed = np.array([[0, 0, 5, 9]], np.int32), np.empty(4, np.bool_)
    cells = np.array([[16, 5, 3], [16, 4, 3], [15, 2, 2], [15, 1, 2]])
    mark_changed(np.zeros(4, np.int32), cells, before, after, steps, steps, np.empty(4, np.int64), changed)
    assert [True, False, True, False] == changed.tolist()


@pytest.mark.parametrize("name", QUADS)
def test_moves_build_no_trees_anew(name, monkeypatch):
    """Moves find the best cells anew in the trees there are, also when rows that they left behind are dropped.

    If trees were built anew, all messages would have to be filed again.
    """
    monkeypatch.setattr(stored_index, "_SPARE_ROWS", 10)
    rng = random.Random(5)
    moving, scan = (IndexActor(create(spec, PLANE)) for spec in (f"{name}:{SMALL[name]}", "scan"))
    wanted, said = random_wanted(rng, PLANE, 40), random_said(rng, PLANE, 20)
    for actor in (moving, scan):
        actor.insert(wanted)
    assert scan.match(said) == moving.match(said)
    traffic, trees = moving.index.traffic, moving.index._trees
    for number in range(9):
        slots, regions = rng.sample(range(40), 30), [random_region(rng, PLANE) for _ in range(30)]
        for actor in (moving, scan):
            actor.move(slots, regions)
        assert number % 3 or scan.match(said) == moving.match(said)
    assert len(moving.index._slot_of) < 40 + 9 * 30
    assert moving.index.traffic is traffic
    assert moving.index._trees is trees
    moving.insert(random_wanted(rng, PLANE, 50))
    assert moving.index.traffic is not traffic
