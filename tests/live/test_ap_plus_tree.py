"""The store `ap+-tree`: messages filed in the tree of subscriptions, whatever becomes of tree, words and messages."""

import random

import numpy as np
import pytest

from contract.worlds import EARTH, PLANE, point, random_query, random_region, random_said, random_wanted
from engine.test_life import life
from nearcast.geo import Box, Circle, Regions
from nearcast.indexes import create
from nearcast.indexes.papers.ap_plus_tree import layout, message_lists
from nearcast.indexes.papers.ap_plus_tree.layout import COUNT_HELD, FILED, FIRST_HELD, MEMBERS
from nearcast.indexes.papers.ap_plus_tree.walk import CUT_ALIKE, CUT_OTHERWISE, ONLY_NEW, ONLY_OLD, READ
from nearcast.indexes.papers.ap_tree import index as ap_tree
from nearcast.indexes.papers.ap_tree.layout import (
    AUX,
    COUNT,
    FIRST,
    KEYWORD,
    KIND,
    LEAF,
    NO_CHILD,
    ROOM,
    ROOT,
    SPACE,
)
from nearcast.indexes.shared import stored_index
from nearcast.live.registry import LIVE_STORES
from nearcast.query import parse
from support.live_model import LiveModel

pytestmark = [pytest.mark.modes, pytest.mark.papers]

SMALL = "ap+-tree:fan_out=4,leaf=2"
NEVER = 1000


class EncodingModel(LiveModel):
    """Keeps the messages that it has encoded last."""

    def _encoded(self, said):
        self.encoded = super()._encoded(said)
        return self.encoded


class TreeLife:
    """An index and its store of live messages; whatever the store answers is compared with `indexes.scan`."""

    def __init__(self, spec, space=PLANE):
        self.space, self.index = space, create(spec, space)
        self.model = EncodingModel(self.index.info.name, space)
        self.model.store.use_index(self.index)

    def insert(self, wanted):
        """Register subscriptions as (query, region); return their slots."""
        return self.index.insert(self.model.columns(wanted)).tolist()

    def publish(self, said, expires=NEVER):
        """Store messages (tokens, place), and match them."""
        ends = [expires] * len(said) if isinstance(expires, int) else expires
        self.model.append(said, ends)
        self.index.match(self.model.encoded)

    def move(self, slots, shapes, now=None):
        """Move subscriptions; return by row the (enters, arrival) that this changes, checked."""
        slots = np.array(slots, np.int32)
        before = self.index.subscriptions(slots)
        after = before.with_regions(Regions.from_shapes(list(shapes), self.space))
        self.index.replace(slots, after)
        return [[each[:2] for each in row] for row in self.model._compared(before, after, now)]

    def current(self, slots):
        """Return by row the arrivals that are relevant, checked."""
        columns = self.index.subscriptions(np.array(slots, np.int32))
        now = [self.model.now] * len(slots)
        found = self.model.store.relevant(columns, self.model._weights().from_term(0), np.array(now))
        got = np.split(found.arrival, found.start[1:-1])
        assert [[each for each, _ in row] for row in self.model.expected(columns, now)] == [row.tolist() for row in got]
        return [row.tolist() for row in got]

    @property
    def tree(self):
        return self.index._tree

    @property
    def lists(self):
        return self.index._lists.arrays

    def held(self, at):
        """Return the rows of one list."""
        first, count = self.lists.held[at, FIRST_HELD], self.lists.held[at, COUNT_HELD]
        return self.lists.member[first : first + count].tolist() if at < len(self.lists.held) else []


def slots_of(tree, node):
    row = tree.node[node]
    n = row[COUNT] if row[KIND] == KEYWORD else row[COUNT] * row[ROOM]
    return range(int(row[FIRST]), int(row[FIRST] + n + 1))


def all_lists(held):
    """Return the numbers of all lists that the tree has."""
    found, todo = [], [0]
    while todo:
        at = todo.pop()
        found.append(at)
        node = ROOT if at == 0 else held.tree.child[at - 1]
        if node != NO_CHILD and held.tree.node[node, KIND] != LEAF:
            todo += [slot + 1 for slot in slots_of(held.tree, node)]
    return found


def check_lists(held):
    """Every filed message is in all lists that its words and places lead to, or in one above; none twice in one."""
    if held.index.info.name != "ap+-tree":
        return
    lists, state = held.lists, held.model.store._state
    copies = np.zeros(state.n, np.int64)
    for at in all_lists(held):
        rows = held.held(at)
        assert len(set(rows)) == len(rows)
        np.add.at(copies, rows, 1)
    assert copies.tolist() == lists.copies[: state.n].tolist()
    assert copies.max(initial=0) <= 2 * held.index._lists.limit  # the limit is for each rectangle of a message
    state.words.follow()
    ranks = held.index._lists._ranks(state.words, held.index._rank)
    for row in np.flatnonzero(state.table.expires[: int(lists.used[FILED])] > state.now).tolist():
        terms = state.table.term[state.table.term_start[row] : state.table.term_start[row + 1]]
        known = sorted({int(ranks[term]) for term in terms if term >= 0 and ranks[term] < 2**31 - 1})
        box = state.table.box[row]
        parts = [box] if box[0] <= box[2] else [[box[0], box[1], 180, box[3]], [-180, box[1], box[2], box[3]]]
        for part in parts:
            _check_path(held, row, known, part)


def _check_path(held, row, ranks, place):
    tree, todo = held.tree, [(0, 0)]
    while todo:
        at, used = todo.pop()
        if row in held.held(at):
            continue
        node = ROOT if at == 0 else tree.child[at - 1]
        assert node != NO_CHILD, "a message is not where a leaf may be made"
        assert tree.node[node, KIND] != LEAF, "a message is not in a leaf it goes to"
        row_of = tree.node[node]
        first = int(row_of[FIRST]) + 1
        if row_of[KIND] == KEYWORD:
            todo.append((first + int(row_of[COUNT]), used))
            for k, (low, high) in enumerate(tree.cut[row_of[AUX] : row_of[AUX] + row_of[COUNT]].tolist()):
                hits = [i for i, rank in enumerate(ranks) if i >= used and low <= rank <= high]
                todo += [(first + k, hits[0] + 1)] if hits else []
            continue
        columns, rows = int(row_of[COUNT]), int(row_of[ROOM])
        lines = tree.line[row_of[AUX] : row_of[AUX] + columns + rows - 2]
        left, right = np.searchsorted(lines[: columns - 1], [place[0], place[2]], side="right")
        top, bottom = np.searchsorted(lines[columns - 1 :], [place[1], place[3]], side="right")
        todo += [(first + i * rows + j, used) for i in range(left, right + 1) for j in range(top, bottom + 1)]


# --- whatever happens ---------------------------------------------------------------------------------------------

VARIANTS = ["ap+k-tree:fan_out=4,leaf=2", "ap+s-tree:fan_out=4,leaf=2"]
SPECS = [SMALL, *VARIANTS, "ap+-tree:fan_out=9,leaf=3,priority=space,share=0", "ap+-tree:fan_out=3,leaf=1,duplicates=4"]


@pytest.mark.parametrize(
    ("spec", "space"), list(zip(SPECS, [EARTH, PLANE, EARTH, EARTH, PLANE], strict=True)), ids=SPECS
)
def test_a_long_life(spec, space, monkeypatch):
    """Subscriptions come, go and move, words are new, messages arrive and end: moves tell what `scan` tells."""
    monkeypatch.setattr(ap_tree, "_LITTLE_WASTE", 50)
    monkeypatch.setattr(ap_tree, "_FEWEST_MESSAGES", 60)
    rng = random.Random(3)
    held, alive = TreeLife(spec, space), []
    changes = set()
    for turn in range(6):
        alive += held.insert([(random_query(rng), random_region(rng, space)) for _ in range(12)])
        alive += held.insert([(parse(f"late{turn} OR w1 late{turn - 1}"), random_region(rng, space)) for _ in range(2)])
        said = random_said(rng, space, 20)
        said = [((*tokens, f"late{turn + rng.randint(-1, 1)}"), place) for tokens, place in said]
        held.publish(said, [turn + rng.choice([1, 2, 5]) for _ in said])
        check_lists(held)
        movers = rng.sample(alive, min(10, len(alive)))
        for some in (movers[:5], movers[5:]):
            found = held.move(some, [random_region(rng, space) for _ in some])
            changes |= {enters for row in found for enters, _ in row}
        check_lists(held)
        gone = rng.sample(alive, 4)
        held.index.remove(np.array(sorted(gone), np.int32))
        alive = [slot for slot in alive if slot not in gone]
        held.model.drop(turn)
        held.current(alive)
    assert {0, 1} == changes


@pytest.mark.parametrize("is_earth", [False, True], ids=["plane", "earth"])
@pytest.mark.parametrize(
    ("spec", "length"),
    [(SMALL, None), ("ap+-tree:fan_out=3,leaf=1,duplicates=2", 4), (VARIANTS[0], None), (VARIANTS[1], 4)],
)
def test_a_hub_tells_the_difference(spec, length, is_earth):
    """Each step delivers what recomputation says: queries of all forms, borders, poles, saves, other vocabularies."""
    life(
        6,
        25,
        store=spec.partition(":")[0],
        index=spec,
        is_earth=is_earth,
        kinds=("within",),
        length=length,
        tell_expiry=True,
    )


@pytest.mark.parametrize("spec", [SMALL, "ap+-tree:fan_out=4,leaf=2,duplicates=1", *VARIANTS])
def test_scored_subscriptions_are_tried_one_by_one(spec):
    """The index has none, but the store answers for all kinds."""
    rng, held = random.Random(4), TreeLife(spec)
    said = [(tuple(tokens), place) for tokens, place in random_said(rng, PLANE, 40)]
    held.publish(said)
    assert any(held.model.relevant(random_wanted(rng, PLANE, 30, ("within", "similar", "topk"), said)))


@pytest.mark.parametrize("name", LIVE_STORES)
def test_any_store_opens_what_this_one_saved(name, tmp_path):
    rng, held = random.Random(5), TreeLife(SMALL)
    held.insert(random_wanted(rng, PLANE, 20))
    held.publish([(tuple(tokens), place) for tokens, place in random_said(rng, PLANE, 30)])
    held.model.reopen(tmp_path / "saved", name)
    assert any(held.model.relevant(random_wanted(rng, PLANE, 30)))


# --- where messages are ---------------------------------------------------------------------------------------------


def town(spec, word="tea", n=9):
    """Return a tree of boxes of one unit along a diagonal, all for one word, so that it is parted by space."""
    held = TreeLife(spec)
    slots = held.insert([(parse(word), Box(10 * i, 10 * i, 10 * i + 1, 10 * i + 1)) for i in range(n)])
    held.publish([])
    return held, slots


BY_SPACE = "ap+-tree:fan_out=9,leaf=2,priority=space,rebuild=never"


def test_a_leaf_made_later_has_the_messages_of_its_cell():
    """A message in a cell without subscriptions waits there for the first that comes, by a move or anew."""
    held, slots = town(BY_SPACE)
    assert SPACE == held.tree.node[ROOT, KIND]
    held.publish([(("tea",), point(80.5, 0.5))])
    check_lists(held)
    (at,) = [at for at in all_lists(held) if held.held(at)]
    assert NO_CHILD == held.tree.child[at - 1], "the cell is not empty"
    assert [[(1, 0)]] == held.move(slots[:1], [Box(80, 0, 81, 1)])
    held.publish([])
    assert NO_CHILD != held.tree.child[at - 1], "no leaf was made"
    (new,) = held.insert([(parse("tea"), Box(80, 0, 82, 2))])
    assert [[0], [0]] == held.current([slots[0], new])


def test_a_cell_beyond_the_first_subscriptions_has_no_end():
    """Places outside of what the tree was built for are in its outer cells, whatever two rectangles cut of these."""
    held, slots = town(BY_SPACE)
    held.publish([(("tea",), point(500.0, 500.0)), (("tea",), point(-500.0, 0.5))])
    assert [[(1, 0)]] == held.move(slots[-1:], [Box(80, 80, 500, 500)])
    assert [[(0, 0)]] == held.move(slots[-1:], [Box(80, 80, 499, 500)])
    assert [[(1, 3)]] == held.move(slots[:1], [Box(-500, 0, 1, 1)])


def test_a_word_between_cuts_is_found():
    """Below `a` there are cuts for `x` and `z` alone: who asks for `a y` reads all that came there, then the dummy."""
    held = TreeLife("ap+-tree:fan_out=8,leaf=1,priority=keyword,rebuild=never")
    often = {"a x": 3, "x": 3, "a z": 3, "z": 1, "y": 5, "a": 3}  # so a, x, y, z rank in this order
    held.insert([(parse(words), None) for words, n in often.items() for _ in range(n)])
    held.publish([(("a", "y"), point(0, 0)), (("a", "y", "z"), point(0, 0)), (("a", "x"), point(0, 0))])
    ranks = [held.index._rank[held.model.terms.ids_of([word], add=False)[0]] for word in "axyz"]
    assert sorted(ranks) == ranks
    (between,) = held.insert([(parse("a y"), None)])
    assert [[0, 3]] == held.current([between])
    held.publish([(("y", "a"), point(0, 0))])
    check_lists(held)
    assert [[0, 3, 9]] == held.current([between])


def test_a_word_behind_all_cuts_is_found():
    """No subscription had it when the cuts were made."""
    held = TreeLife("ap+-tree:fan_out=2,leaf=1,priority=keyword,rebuild=never")
    held.insert([(parse(word), None) for word in "aceg" for _ in range(3)])
    held.publish([(("b",), point(0, 0)), (("b", "e"), point(0, 0)), (("e", "never said"), point(0, 0))])
    assert KEYWORD == held.tree.node[ROOT, KIND]
    behind, later = held.insert([(parse("b"), None), (parse('"never said"'), None)])
    assert [[0, 3], []] == held.current([behind, later])
    held.publish([(("d", "b", "never", "said"), point(0, 0))])
    check_lists(held)
    assert [[0, 3, 9], [9]] == held.current([behind, later])


def test_a_word_first_used_after_the_message_came():
    """It had no rank when the message was filed, and has one in the tree that is built next."""
    held, slots = town("ap+-tree:fan_out=4,leaf=1,priority=keyword")
    held.publish([(("tea", "matcha"), point(0.5, 0.5))])
    new = held.insert([(parse(f"matcha w{i}" if i else "matcha tea"), Box(0, 0, 1, 1)) for i in range(30)])
    assert [[0], [0], []] == held.current([new[0], slots[0], new[1]])
    held.publish([])
    check_lists(held)
    assert [[0]] == held.current(new[:1])


def test_a_leaf_that_is_parted_hands_its_messages_on():
    """Messages filed in a leaf go on to its cuts and cells; what was in one list is in those below it."""
    held, slots = town("ap+-tree:fan_out=4,leaf=4,rebuild=never", n=4)
    assert LEAF == held.tree.node[ROOT, KIND]
    said = [((word,), point(x, x)) for word in ("tea", "w1", "w2") for x in (0.5, 10.5, 20.5)]
    held.publish(said)
    assert list(range(9)) == held.held(0)
    held.index._n_when_built = 1000  # so many that more do not build the whole tree anew
    new = held.insert([(parse(f"w{i % 3}"), Box(5 * i, 5 * i, 5 * i + 1, 5 * i + 1)) for i in range(9)])
    held.publish([])
    assert LEAF != held.tree.node[ROOT, KIND]
    assert [] == held.held(0), "the root still has what it handed on"
    check_lists(held)
    held.current([*slots, *new])


def test_a_message_of_many_words_is_handed_on():
    """It was filed by a search, and is longer than any that was filed otherwise."""
    held = TreeLife("ap+-tree:fan_out=4,leaf=4,rebuild=never")
    words = [f"w{i}" for i in range(150)]
    first = held.insert([(parse(" ".join(words)), None), (parse(" OR ".join(words[:5])), None)])
    held.publish([])
    held.publish([(tuple(words), point(0.5, 0.5))])
    held.index._n_when_built = 1000
    new = held.insert([(parse(words[i]), Box(i, 0, i + 1, 1)) for i in range(20)])
    held.publish([])
    assert LEAF != held.tree.node[ROOT, KIND]
    check_lists(held)
    assert [[0], [0], [0], []] == held.current([*first, *new[:1], *new[2:3]])


def test_a_rebuilt_node_hands_its_messages_on(monkeypatch):
    """Subscriptions drift, a part is built anew, waste is collected: messages of before are where they belong."""
    monkeypatch.setattr(ap_tree, "_LITTLE_WASTE", 5)
    held = TreeLife("ap+-tree:fan_out=4,leaf=2,share=0")
    first = held.insert([(parse(f"w{i % 3}"), Box(i, 0, i + 1, 1)) for i in range(30)])
    held.publish([((f"w{i % 3}", f"v{i % 2}"), point(i + 0.5, 0.5)) for i in range(0, 100, 3)])
    done = {"_rebuild": 0, "_compact": 0}
    for name in done:
        monkeypatch.setattr(held.index, name, counted(held.index, name, done))
    for turn in range(1, 6):
        held.index._n_when_built = 1000
        held.move(first, [Box((i + 9 * turn) % 100, 0, (i + 9 * turn) % 100 + 1, 1) for i in range(30)])
        held.publish([])
        check_lists(held)
        held.current(first)
    assert done["_rebuild"], "no part was built anew"
    assert done["_compact"], "no waste was collected"


def test_moves_do_not_build_the_tree_anew(monkeypatch):
    """However many rows they leave behind: when these are dropped the tree stays, with its messages."""
    monkeypatch.setattr(stored_index, "_SPARE_ROWS", 0)
    held = TreeLife("ap+-tree:fan_out=4,leaf=2,rebuild=never")
    slots = held.insert([(parse(f"w{i % 3} OR v"), Box(i, 0, i + 1, 1)) for i in range(30)])
    held.publish([((f"w{i % 3}",), point(i + 0.5, 0.5)) for i in range(40)])
    done = {"_build": 0, "_rows_renumbered": 0}
    for name in done:
        monkeypatch.setattr(held.index, name, counted(held.index, name, done))
    for turn in range(1, 6):
        held.move(slots[:20], [Box((i + turn) % 40, 0, (i + turn) % 40 + 1, 1) for i in range(20)])
        held.index.remove(np.array(held.insert([(parse("w1 x"), None)]), np.int32))
        held.publish([(("w1",), point(turn + 0.5, 0.5))])
        check_lists(held)
        held.current(slots)
    assert 0 == done["_build"]
    assert 2 <= done["_rows_renumbered"], "no rows were dropped"
    said = held.model._encoded([((f"w{i % 3}", "v"), point(i + 0.5, 0.5)) for i in range(40)])
    scan = create("scan", PLANE)
    scan.insert(held.index.subscriptions(np.array(slots, np.int32)))
    assert scan.match(said) == held.index.match(said)


def counted(owner, name, done):
    """Return a method that counts its calls."""
    method = getattr(owner, name)

    def call(*given):
        done[name] += 1
        return method(*given)

    return call


def test_copies_of_a_message_are_limited():
    """One that would go to more lists stays with an inner node, whose list is read on the way down."""
    place = (0.0, 0.0, 90.0, 90.0)
    for limit, most in ((1, 1), (4, 4), (100, 100)):
        held, slots = town(f"{BY_SPACE},duplicates={limit}")
        held.publish([(("tea",), place)])
        check_lists(held)
        assert held.lists.copies[0] <= most
        assert (held.held(0) == [0]) == (limit < 9)
        assert [[0]] == held.current(slots[:1])
        assert [[(0, 0)]] == held.move(slots[:1], [Box(100, 100, 101, 101)])


# --- moves ----------------------------------------------------------------------------------------------------------


def tally_of(held, slot, before, after):
    """Return what a move between two places met: cells by case, and candidates, repeats counted."""
    held.move([slot], [before])
    held.move([slot], [after])
    return held.index._lists.tally.tolist()


def test_ancestors_lists_are_read_once():
    """A message that stays with the root is a candidate once for a move, though the move meets many leaves."""
    held, slots = town(f"{BY_SPACE},duplicates=1")
    held.publish([(("tea",), point(0.5, 0.5)), (("tea",), point(80.5, 80.5))])
    tally = tally_of(held, slots[0], Box(0, 0, 90, 90), Box(1, 1, 91, 91))
    assert 2 == tally[READ]
    assert tally[CUT_OTHERWISE] + tally[ONLY_OLD] + tally[ONLY_NEW] > 2


def grid_town():
    """Return a tree of one grid of 5 x 5 cells, a message in the middle of each, and one subscription more."""
    held = TreeLife("ap+-tree:fan_out=25,leaf=1,priority=space,rebuild=never")
    held.insert([(parse("tea"), Box(x, y, x + 0.9, y + 0.9)) for x in range(5) for y in range(5)])
    (slot,) = held.insert([(parse("tea"), Box(-9, -9, -8, -8))])
    held.publish([(("tea",), point(x + 0.5, y + 0.5)) for x in range(5) for y in range(5)])
    return held, slot


def test_the_four_cases():
    """A cell that old and new region cut alike is left out; of the others only those are read that one of them cuts."""
    held, slot = grid_town()
    tally = tally_of(held, slot, Box(0.2, 0.2, 2.8, 2.8), Box(0.2, 0.2, 3.8, 2.8))
    assert tally[CUT_ALIKE] >= 4, tally
    assert tally[ONLY_OLD] == 0 < tally[ONLY_NEW]
    assert tally[READ] <= 25 - tally[CUT_ALIKE]
    assert [[(0, 3 * 15), (0, 3 * 16), (0, 3 * 17)]] == held.move([slot], [Box(0.2, 0.2, 2.8, 2.8)])
    back = held.index._lists.tally.tolist()
    assert tally[CUT_ALIKE] == back[CUT_ALIKE]
    assert (tally[ONLY_NEW], tally[ONLY_OLD]) == (back[ONLY_OLD], back[ONLY_NEW])
    away = tally_of(held, slot, Box(0.2, 0.2, 1.8, 1.8), Box(3.2, 3.2, 4.8, 4.8))
    assert 0 == away[CUT_ALIKE] == away[CUT_OTHERWISE]
    assert min(away[ONLY_OLD], away[ONLY_NEW]) >= 4
    aside = tally_of(held, slot, Box(0.2, 0.2, 0.4, 0.4), Box(0.3, 0.3, 0.6, 0.6))
    assert 1 <= aside[CUT_OTHERWISE] == sum(aside[:READ])


def test_a_mover_that_comes_to_cover_a_node_and_stops():
    """It changes from cells to the dummy cell and back: what is in the cells is told, and only what changes is read."""
    held, slot = grid_town()
    everything = sorted(3 * i for i in range(25))
    assert [[(1, each) for each in everything]] == held.move([slot], [Box(-9, -9, 9, 9)])
    held.publish([])
    assert [everything] == held.current([slot])
    tally = tally_of(held, slot, Box(-9, -9, 9, 9), Box(-8, -9, 9, 9))
    assert tally[READ] < 25, "cells that both regions hold are read"
    assert [[(0, each) for each in everything if each < 15]] == held.move([slot], [Box(1.0, -9, 9, 9)])
    held.publish([])
    assert [[each for each in everything if each >= 15]] == held.current([slot])


def test_old_less_new_is_no_rectangle():
    """An L remains of either: what is in both is told by neither, what is on a border is inside."""
    held = TreeLife(SMALL)
    (slot,) = held.insert([(parse("tea"), Box(0, 0, 4, 4))])
    corners = [(0, 0), (4, 4), (2, 2), (4, 2), (2, 4), (6, 6), (6, 2), (1, 4), (4, 1), (6, 4.5)]
    held.publish([(("tea",), point(*each)) for each in corners])
    gone = [(0, 3 * i) for i in (0, 7, 8)]
    new = [(1, 3 * i) for i in (5, 6, 9)]
    assert [gone + new] == held.move([slot], [Box(2, 2, 6, 6)])


def test_circles_are_not_the_rectangles_around_them():
    """Two circles whose rectangles cut a cell alike hold other points of it."""
    held, slot = grid_town()
    held.publish([(("tea",), point(0.05, 0.05))])
    held.move([slot], [Circle(2.5, 2.5, 3.4)])
    assert [[(1, 75)]] == held.move([slot], [Circle(2.5, 2.5, 3.5)])


def test_a_region_over_the_dateline_moves():
    """It has two rectangles, before or after; a message on either side is found once."""
    held = TreeLife(SMALL, EARTH)
    held.insert([(parse("tea"), Box(x, 0, x + 1, 1)) for x in range(-180, 180, 20)])
    (slot,) = held.insert([(parse("tea"), Box(100, -5, 120, 5))])
    held.publish([(("tea",), point(x, 0.0)) for x in (179.0, 180.0, -180.0, -179.0, 110.0)])
    held.publish([(("tea",), (178.0, -1.0, -178.0, 1.0))])
    assert [[(0, 12), (1, 0), (1, 3), (1, 6), (1, 9), (1, 15)]] == held.move([slot], [Box(170, -5, -170, 5)])
    assert [[(0, 0), (0, 3)]] == held.move([slot], [Box(-180, -5, -170, 5)])
    check_lists(held)


def test_expired_messages_leave_the_lists_that_are_read():
    """Lazy deletion: a list that is read loses what is over; what is over is told by nobody."""
    held, slots = town(BY_SPACE)
    held.publish([(("tea",), point(0.5, 0.5)), (("tea",), point(0.6, 0.6))], [5, NEVER])
    held.model.drop(5)
    assert 2 == sum(len(held.held(at)) for at in all_lists(held))
    assert [[(0, 3)]] == held.move(slots[:1], [Box(50, 50, 51, 51)])
    assert 1 == sum(len(held.held(at)) for at in all_lists(held))
    check_lists(held)


# --- the store ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [*SPECS[:1], *SPECS[3:]])
def test_messages_are_filed_as_they_are_matched(spec, monkeypatch):
    """The descent that finds who wants a message files it; nothing is left to do after it, or for the next move."""
    rng, held = random.Random(6), TreeLife(spec)
    held.insert(random_wanted(rng, PLANE, 40))
    held.publish([])
    said = [(tuple(tokens), place) for tokens, place in random_said(rng, PLANE, 70)]
    scan = create("scan", PLANE)
    scan.insert(held.index.subscriptions(np.arange(40, dtype=np.int32)))
    held.model.append(said, [NEVER] * len(said))
    with monkeypatch.context() as patch:
        patch.setattr(held.index._lists, "file", lambda *_: None)
        found = held.index.match(held.model.encoded)
    assert scan.match(held.model.encoded) == found
    assert held.lists.copies[: len(said)].all()
    held.lists.used[FILED] = len(said)
    check_lists(held)


def test_messages_that_are_not_all_to_live_are_filed_after_the_match():
    """The batch that is matched is another one than that which is stored."""
    held, _ = town(BY_SPACE)
    said = [(("tea",), point(0.5, 0.5))]
    held.model.append(said, [NEVER])
    assert 0 == held.lists.used[FILED]
    held.index.match(held.model._encoded([*said, *said]))
    assert 1 == held.lists.used[FILED]
    check_lists(held)


def test_a_store_that_is_put_back_makes_the_tree_forget():
    """What was filed since the mark is not there any more, and its rows may be those of others."""
    held, slots = town(BY_SPACE)
    held.publish([(("tea",), point(0.5, 0.5))])
    mark, known = held.model.store.mark(), list(held.model.held)
    held.publish([(("tea",), point(0.6, 0.6))])
    held.model.store.rewind(mark)
    held.model.held, held.model.next_arrival = known, 3
    held.publish([(("tea",), point(80.5, 80.5))])
    assert [[0], [3]] == held.current([slots[0], slots[8]])


def test_another_index_takes_over():
    """Its tree has the messages, the old one has none; words may have other numbers by then."""
    held, slots = town(BY_SPACE)
    held.publish([(("tea",), point(0.5, 0.5))])
    columns, old = held.index.subscriptions(np.array(slots, np.int32)), held.index
    held.index = create(SMALL, PLANE)
    held.index.insert(columns)
    held.model.store.use_index(held.index)
    assert 0 == old._lists.arrays.used[FILED]
    assert [[0]] == held.current(slots[:1])
    assert 1 == held.lists.used[FILED]


def test_waste_of_lists_is_collected(monkeypatch):
    """Lists that grow leave their old place behind; it is not kept for ever, and nothing is lost by that."""
    for module in (layout, message_lists):
        monkeypatch.setattr(module, "LITTLE_WASTE", 8)
    held, slots = town(BY_SPACE)
    for _ in range(40):
        held.publish([(("tea",), point(10.0 * i + 0.5, 10.0 * i + 0.5)) for i in range(9)])
    check_lists(held)
    total = int(held.lists.held[:, COUNT_HELD].sum())
    assert 360 == total
    assert held.lists.used[MEMBERS] <= 4 * total + 8
    assert [40] == [len(row) for row in held.current(slots[:1])]


def test_size_counts_the_lists():
    held, _ = town(BY_SPACE)
    before = held.index.stats()["bytes"]
    held.publish([(("tea",), point(0.5, 0.5)) for _ in range(500)])
    assert before + 4 * 500 <= held.index.stats()["bytes"]
