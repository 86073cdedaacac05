"""The quadtree indexes: what is kept in which cell, how that is chosen, and how trees grow and shrink."""

import itertools
import math
import random

import numpy as np
import pytest

from contract.worlds import EARTH, PLANE, random_said, random_wanted
from nearcast.columns import Messages
from nearcast.errors import UnknownIndex
from nearcast.geo import Box
from nearcast.indexes import create
from nearcast.indexes.papers.quad.cells import MOST_CELLS
from nearcast.indexes.papers.quad.entries import ATOM
from nearcast.indexes.papers.quad.traffic import DEEPEST, steps_of, traffic_of
from nearcast.indexes.papers.quad.tree import WHOLE_FRAME, QuadItems, QuadTrees
from nearcast.indexes.shared.filters import outwards
from nearcast.query import parse
from nearcast.testing import IndexActor

pytestmark = [pytest.mark.modes, pytest.mark.papers]

NAMES = ["iq-tree", "rq-tree", "trie-quad"]
SMALL = "leaf=2,depth=5,update=0.0001"
#: The frame of tests that make their own.
SQUARE = np.array([[0.0, 0.0, 64.0, 64.0]])


def small(name, space=PLANE):
    return IndexActor(create(f"{name}:{SMALL}", space))


def held(index):
    """Return (atom, key, cell) of every entry, cells as level, x, y."""
    nodes = index._trees.nodes
    todo, found = list(np.unique(index._roots(index._keys(live_atoms(index))))), []
    while todo:
        node = int(todo.pop())
        key, entry = index._held_in([node])
        cell = tuple(map(int, index._trees.cell(node)))
        found += [(int(a), int(k), cell) for a, k in zip(entry[:, ATOM], key, strict=True)]
        if nodes[node, 0] >= 0:
            todo += range(nodes[node, 0], nodes[node, 0] + 4)
    return found


def live_atoms(index):
    rows = index._atoms.row[: len(index._store)]
    return np.flatnonzero(index._slot_of[rows] >= 0).astype(np.int32)


def span(cell):
    """Return the steps of a cell: x and y of its first, and its size."""
    level, x, y = cell
    size = 1 << (DEEPEST - level)
    return x * size, y * size, size


def covered_area(cell, steps):
    x, y, size = span(cell)
    width = min(steps[2], x + size - 1) - max(steps[0], x) + 1
    height = min(steps[3], y + size - 1) - max(steps[1], y) + 1
    return max(0, int(width)) * max(0, int(height))


def area_of(steps):
    return int(steps[2] - steps[0] + 1) * int(steps[3] - steps[1] + 1)


def check_cells(index):
    """Assert that every live atom is in cells that touch and cover its rectangle without overlap, once in each."""
    atoms, cells = live_atoms(index), {}
    for atom, key, cell in held(index):
        cells.setdefault(atom, []).append(cell)
        assert key == index._keys(np.array([atom], np.int32))[0]
    assert set(map(int, atoms)) == set(cells)
    for atom, steps in zip(map(int, atoms), index._steps(atoms), strict=True):
        areas = [covered_area(cell, steps) for cell in cells[atom]]
        assert all(area > 0 for area in areas)
        assert area_of(steps) == sum(areas)
        assert len(set(cells[atom])) == len(cells[atom])


@pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])
@pytest.mark.parametrize("name", NAMES)
def test_the_cells_of_an_atom_cover_its_rectangle(name, space):
    """Built at once, grown, built for messages that were heard, and shrunk: cells cover an atom without overlap."""
    rng = random.Random(3)
    index = small(name, space)
    said = random_said(rng, space, 30)
    slots = index.insert(random_wanted(rng, space, 70))
    index.match(said)
    check_cells(index.index)
    slots += index.insert(random_wanted(rng, space, 50))
    before = index.match(said)
    check_cells(index.index)
    index.index.learn(index.messages(said))
    assert before == index.match(said)
    check_cells(index.index)
    index.remove(rng.sample(slots, 40))
    index.match(said)
    check_cells(index.index)


@pytest.mark.parametrize("name", ["iq-tree", "rq-tree"])
def test_an_atom_is_under_its_rarest_word(name):
    """A ranked key: cat is in one subscription, dog in two, bird in all."""
    index = small(name)
    index.insert([(parse(text), Box(0, 0, 1, 1)) for text in ("bird dog", "bird cat dog", "bird")])
    index.match([([], (0, 0, 0, 0))])
    keys = {atom: key - 1 for atom, key, _ in held(index.index)}
    code, start = index.index._atoms.code, index.index._atoms.code_start
    dog = set(code[start[0] : start[1]]) - {code[start[2]]}
    cat = set(code[start[1] : start[2]]) - dog - {code[start[2]]}
    assert ({keys[0]}, {keys[1]}, keys[2]) == (dog, cat, code[start[2]])


def test_the_trie_has_the_words_of_each_atom_in_their_order():
    """From the root to an atom's node the trie spells its words, the most frequent first."""
    rng = random.Random(5)
    index = small("trie-quad")
    index.insert(random_wanted(rng, PLANE, 60))
    index.match([([], (0, 0, 0, 0))])
    index.insert([(parse("w3 brandnew w0"), Box(0, 0, 1, 1))])
    index.match([([], (0, 0, 0, 0))])
    inside = index.index
    trie, atoms = inside._trie, inside._atoms
    above = {int(child): (int(parent), int(word)) for parent, word, child in trie.slots if parent >= 0}
    assert len(trie) == len(above) + 1
    chosen = live_atoms(inside)
    for atom, node in zip(chosen, inside._keys(chosen), strict=True):
        spelled, at = [], int(node)
        while at:
            at, word = above[at]
            spelled.append(word)
        first = atoms.code_start[atom]
        words = atoms.code[first : first + atoms.n_words[atom]]
        rank = {int(word): (-inside._count[word] if word < len(inside._count) else 1, int(word)) for word in words}
        assert sorted(rank, key=rank.__getitem__) == spelled[::-1]


# --- the cost of cells --------------------------------------------------------------------------------------------


def full_tree(depth, update):
    """Return a quadtree divided to this level everywhere."""
    trees = QuadTrees(1, depth, update)
    leaves = list(trees.new_roots(1))
    for _ in range(depth):
        parents, leaves = leaves, []
        for node in parents:
            trees.divide(int(node))
            leaves += range(trees.nodes[node, 0], trees.nodes[node, 0] + 4)
    return trees


def share(traffic, cell):
    level, x, y = cell
    return float(traffic.share[(4**level - 1) // 3 + (y << level) + x])


def quarters(cell, steps):
    level, x, y = cell
    below = [(level + 1, 2 * x + q % 2, 2 * y + q // 2) for q in range(4)]
    return [quarter for quarter in below if covered_area(quarter, steps)]


def least_cost(cell, depth, steps, chance, traffic, update):
    """Return the cost of the cheapest of all sets of cells that cover what a cell has of a rectangle."""

    def covers(cell):
        yield (cell,)
        if cell[0] < depth:
            for chosen in itertools.product(*(list(covers(quarter)) for quarter in quarters(cell, steps))):
                yield tuple(itertools.chain(*chosen))

    return min(sum(chance * share(traffic, c) + update * (1 + c[0]) for c in cells) for cells in covers(cell))


@pytest.mark.parametrize("update", [1e-6, 0.003, 0.05])
@pytest.mark.parametrize("seed", range(3))
def test_the_cells_chosen_cost_least(seed, update):
    """The assignment is as cheap as the cheapest of all covers, wherever messages are."""
    rng = np.random.default_rng(seed)
    said = rng.uniform(0, 64, (40, 2)) ** rng.choice([1, 2]) % 64
    none = np.zeros(41, np.int64), np.empty(0, np.int32)
    traffic = traffic_of(np.repeat(SQUARE, 64, 0), np.zeros(1), Messages.of(*none, np.hstack([said, said])))
    depth = 2
    assert traffic.top >= depth
    trees = full_tree(depth, update)
    box = rng.uniform(0, 64, (12, 4))
    box[:, 2:] = np.minimum(box[:, :2] + box[:, 2:] / 2, 64)
    steps, chance = np.empty((12, 4), np.int32), rng.uniform(0, 1, 12)
    steps_of(traffic, box, steps)
    items = QuadItems(steps, np.zeros(12, np.int32), chance)
    node, item = trees.assigned(np.zeros(12, np.int32), WHOLE_FRAME, items, traffic)
    for i in range(12):
        cells = [tuple(map(int, trees.cell(int(n)))) for n in node[item == i]]
        cost = sum(chance[i] * share(traffic, cell) + update * (1 + cell[0]) for cell in cells)
        assert math.isclose(cost, least_cost((0, 0, 0), depth, steps[i], chance[i], traffic, update), rel_tol=1e-6)
        assert area_of(steps[i]) == sum(covered_area(cell, steps[i]) for cell in cells)


def wholly_covered(cell, depth, steps):
    """Return the cells of the finest cover: each inside the rectangle, or at the lowest level."""
    if cell[0] == depth or covered_area(cell, steps) == span(cell)[2] ** 2:
        return [cell]
    return [each for quarter in quarters(cell, steps) for each in wholly_covered(quarter, depth, steps)]


def test_no_atom_is_in_more_cells_than_there_is_room_for():
    """Of a rectangle whose best cover has too many cells some part stays higher up, and all of it is covered."""
    corner = np.random.default_rng(1).uniform(0, 64, (5000, 2))
    traffic = traffic_of(np.hstack([corner, corner]), np.zeros(1), None)
    trees, steps = full_tree(6, 1e-12), np.empty((1, 4), np.int32)
    steps_of(traffic, np.array([[1.5, 1.5, 62.5, 62.5]]), steps)
    items = QuadItems(steps, np.zeros(1, np.int32), np.ones(1))
    node, _ = trees.assigned(np.zeros(1, np.int32), WHOLE_FRAME, items, traffic)
    cells = [tuple(map(int, trees.cell(int(n)))) for n in node]
    assert len(wholly_covered((0, 0, 0), 6, steps[0])) > MOST_CELLS >= len(cells) > MOST_CELLS // 4
    assert area_of(steps[0]) == sum(covered_area(cell, steps[0]) for cell in cells)


def crowd(n=40):
    """Return subscriptions for one word, half of them at the left, half at the right."""
    rng = random.Random(1)
    left = [(rng.uniform(0, 30), rng.uniform(0, 90)) for _ in range(n)]
    right = [(rng.uniform(60, 90), rng.uniform(0, 90)) for _ in range(n)]
    return [(parse("news"), Box(x, y, x + 8, y + 8)) for x, y in left + right]


def levels_by_side(index):
    """Return the mean level of entries of atoms at the left and at the right."""
    levels = {True: [], False: []}
    for atom, _, (level, _, _) in held(index):
        levels[bool(index._atoms.box[atom, 0] < 45)].append(level)
    return np.mean(levels[True]), np.mean(levels[False])


@pytest.mark.parametrize("name", NAMES)
def test_learned_messages_change_where_atoms_are(name):
    """Where the messages are, atoms go down to small cells; where none come, they stay above."""
    index = IndexActor(create(f"{name}:leaf=2,depth=6,update=0.001", PLANE))
    index.insert(crowd())
    said = [(["news"], (x, y, x, y)) for x in (3.0, 7.0, 20.0) for y in range(0, 100, 7)]
    mirrored = [(words, (96 - x, y, 96 - x, y)) for words, (x, y, _, _) in said]
    before = index.match(said + mirrored)
    even = levels_by_side(index.index)
    index.index.learn(index.messages(said))
    assert before == index.match(said + mirrored)
    at_left = levels_by_side(index.index)
    index.index.learn(index.messages(mirrored))
    assert before == index.match(said + mirrored)
    at_right = levels_by_side(index.index)
    assert at_left[0] > at_left[1]
    assert at_right[0] < at_right[1]
    assert at_left[1] < even[1]
    check_cells(index.index)


# --- growth -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_cell_divides_when_a_list_overflows_and_joins_when_it_is_empty(name):
    """A few at a time: a cell becomes four, and in the end all are one, with what was in several of them."""
    index = small(name)
    wanted = [(parse("news"), Box(43, 43, 47, 47)), *crowd(20)]
    slots = index.insert(wanted[:25])
    index.match([])
    trees = index.index._trees
    n_built = len(trees)
    for first in range(25, 41, 3):
        slots += index.insert(wanted[first : first + 3])
        index.match([])
    assert trees is index.index._trees
    assert len(trees) > n_built
    assert 1 < [atom for atom, _, _ in held(index.index)].count(0)
    for slot in slots[1:]:
        index.remove([slot])
        index.match([])
        check_cells(index.index)
    assert trees is index.index._trees
    assert [(0, (0, 0, 0))] == [(atom, cell) for atom, _, cell in held(index.index)]
    assert len(trees) == 1


@pytest.mark.parametrize("name", NAMES)
def test_more_of_the_same_region_than_a_leaf_holds_end(name):
    """Points at one place and rectangles of one region: no cell tells them apart, and dividing comes to an end."""
    index, scan = small(name), IndexActor(create("scan", PLANE))
    for wanted in ([(parse("a"), Box(3, 3, 3, 3))] * 9, [(parse("a"), Box(0, 0, 5, 5))] * 9):
        for actor in (index, scan):
            actor.insert(wanted)
            actor.insert(wanted[:4])
        said = [(["a"], (x, x, x, x)) for x in (3.0, 5.0, 6.0)]
        assert scan.match(said) == index.match(said)
        check_cells(index.index)


# --- beyond the frame ---------------------------------------------------------------------------------------------

FAR = [0.0, 1.0, -1e300, 1e300, 1.7e308, -1.7e308, 5e-324, 100.0]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_beyond_the_frame_is_found(name):
    """Huge coordinates, and subscriptions and messages far outside of where the others are."""
    index, scan = small(name), IndexActor(create("scan", PLANE))
    near = [(parse("a"), Box(x % 9, x // 9, x % 9 + 1, x // 9 + 1)) for x in range(60)]
    far = [(parse("a"), Box(min(x, y), 0, max(x, y), 2)) for x, y in itertools.product(FAR, FAR)]
    said = [(["a"], (x, 1.0, x, 1.0)) for x in FAR] + [(["a"], (-1e300, 0.5, 1e300, 0.6)), (["a"], (9, 9, 1e9, 1e9))]
    for wanted in (near, far, [(parse("a"), None)]):
        for actor in (index, scan):
            actor.insert(wanted)
        assert scan.match(said) == index.match(said)
        check_cells(index.index)


def test_steps_never_decrease():
    """Monotone in the coordinate, over all magnitudes, whatever the frame is."""
    values = np.sort(
        [*FAR, *(-np.array(FAR)), np.inf, -np.inf, *np.linspace(-3, 70, 40), *np.geomspace(1e-9, 1e300, 40)]
    )
    for frame in (SQUARE, SQUARE * 0, SQUARE * 1e300, SQUARE * 5e-324, np.array([[-1.7e308, 0, 1.7e308, 1e-310]])):
        traffic = traffic_of(frame, np.zeros(1), None)
        steps = np.empty((len(values), 4), np.int32)
        steps_of(traffic, np.repeat(values[:, None], 4, 1), steps)
        assert (np.diff(steps, axis=0) >= 0).all()
        assert steps.min() >= 0
        assert steps.max() < 1 << DEEPEST


def test_single_precision_is_never_smaller():
    """The rectangle of an entry holds that of its atom, also where single precision ends."""
    value = np.array([0.1, -0.1, 1e300, -1e300, 1e-300, -1e-300, 16777217.0, np.inf, -np.inf, 0.0])
    box = np.array([(a, b, a, b) for a in value for b in value])
    near = outwards(box).astype(np.float64)
    assert (near[:, :2] <= box[:, :2]).all()
    assert (near[:, 2:] >= box[:, 2:]).all()


@pytest.mark.parametrize(
    "option", ["leaf=0", "depth=-1", f"depth={DEEPEST + 1}", "update=0", "update=nan", "update=inf"]
)
@pytest.mark.parametrize("name", NAMES)
def test_options_out_of_range_are_refused(name, option):
    """The message names the option and the index."""
    with pytest.raises(UnknownIndex, match=f"option {option.partition('=')[0]} of the index '{name}'"):
        create(f"{name}:{option}", PLANE)
