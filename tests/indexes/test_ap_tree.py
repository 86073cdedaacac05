"""The AP-Tree: the paper's example, its cost model, its partitions, and how the tree follows what comes and goes."""

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.naive import as_lists
from contract.worlds import EARTH, PLANE, point, random_said, random_wanted
from nearcast.errors import UnknownIndex
from nearcast.geo import Box
from nearcast.indexes import create
from nearcast.indexes.papers.ap_tree import index as ap_tree
from nearcast.indexes.papers.ap_tree.divergence import beyond_chance
from nearcast.indexes.papers.ap_tree.keyword_dp import optimal_cuts
from nearcast.indexes.papers.ap_tree.keyword_heuristic import even_cuts, heuristic_cuts
from nearcast.indexes.papers.ap_tree.keywords import keyword_partition
from nearcast.indexes.papers.ap_tree.layout import (
    AUX,
    BY_SPACE,
    BY_WORDS,
    COUNT,
    DEAD,
    FIRST,
    KEYWORD,
    KIND,
    LEAF,
    NO_CHILD,
    NODES,
    OFFSET_SHIFT,
    PLACE,
    ROOM,
    ROOT,
    SIZE,
    SPACE,
    STATE,
)
from nearcast.indexes.papers.ap_tree.model import partition_cost
from nearcast.indexes.papers.ap_tree.order import ranked_words
from nearcast.indexes.papers.ap_tree.space import space_partition
from nearcast.query import parse
from nearcast.testing import IndexActor

pytestmark = [pytest.mark.modes, pytest.mark.papers]

#: Words are those the text names or lets infer; rectangles are ours, for the figure is lost.
FIGURE_3 = {
    "s1": ("w1 w2", Box(0, 0, 10, 10)),
    "s2": ("w1 w3", Box(0, 0, 6, 6)),
    "s3": ("w2 w3", Box(7, 7, 9, 9)),
    "s4": ("w1 w2 w3", Box(2, 2, 10, 10)),
    "s5": ("w1 w5", Box(0, 8, 2, 10)),
    "s6": ("w4 w5", Box(8, 0, 10, 2)),
    "s7": ("w3 w4", Box(4, 4, 6, 6)),
    "s8": ("w2 w4", Box(0, 0, 1, 1)),
    "s9": ("w5 w6", Box(6, 0, 7, 1)),
}
M1, M2 = (["w2", "w3", "w4"], point(5.0, 5.0)), (["w1", "w2", "w3"], point(9.5, 9.5))


def actor(spec, space=PLANE):
    """Return an empty index whose words are numbered as messages first say them."""
    return IndexActor(create(spec, space), add_words=True)


def wants(words, region):
    return parse(words), region


def figure_3(options):
    """The nine subscriptions of Figure 3; w1 to w6 rank in this order, being ever rarer."""
    held = actor(f"ap-tree:{options}")
    held.messages([([f"w{i}" for i in range(1, 7)], point(0, 0))])
    held.insert([wants(*each) for each in FIGURE_3.values()])
    held.match([])
    return held


def names_of(matches):
    return [[list(FIGURE_3)[slot] for slot in found] for found in as_lists(matches)]


# --- looking into a tree ------------------------------------------------------------------------------------------


def tree_of(held):
    """Return the tree as it is after all changes."""
    held.match([])
    return held.index._tree


def children(tree, node):
    """Return the children of a node by slot, the dummy last."""
    row = tree.node[node]
    n = row[COUNT] if row[KIND] == KEYWORD else row[COUNT] * row[ROOM]
    return tree.child[row[FIRST] : row[FIRST] + n + 1].tolist()


def cuts(tree, node):
    return tree.cut[tree.node[node, AUX] : tree.node[node, AUX] + tree.node[node, COUNT]].tolist()


def atoms_below(tree, node):
    """Return the atoms at or below a node; a leaf has none twice."""
    row = tree.node[node]
    if row[KIND] == LEAF:
        found = tree.atom[row[FIRST] : row[FIRST] + row[COUNT]].tolist()
        assert len(set(found)) == len(found)
        return set(found)
    return set().union(*(atoms_below(tree, child) for child in children(tree, node) if child != NO_CHILD))


def words_by_rank(index, atom):
    atoms = index._atoms
    first = int(atoms.code_start[atom])
    return sorted(index._rank[atoms.code[first : first + int(atoms.n_words[atom])]].tolist())


def check_tree(held):
    """Walk through a tree: every atom is in the slots that words and rectangle lead to, and in no others."""
    tree, index = tree_of(held), held.index
    live = np.flatnonzero(index._slot_of[index._atoms.row[: len(index._store)]] >= 0)
    assert set(live.tolist()) == atoms_below(tree, ROOT)
    todo, n_nodes = [ROOT], 0
    while todo:
        node = todo.pop()
        n_nodes += 1
        row = tree.node[node]
        assert len(atoms_below(tree, node)) == row[SIZE], "a node counts other atoms than are below it"
        if row[KIND] == LEAF:
            assert row[COUNT] <= row[ROOM]
            continue
        assert row[SIZE] >= index._settings.leaf, "a node with fewer than θp atoms is parted"
        check = _check_cuts if row[KIND] == KEYWORD else _check_cells
        check(index, tree, node, row)
        below = [child for child in children(tree, node) if child != NO_CHILD]
        assert all(child > node for child in below), "a child is numbered below its parent"
        todo += below
    assert n_nodes == int((tree.node[: tree.used[NODES], KIND] != DEAD).sum()), "a live node is out of reach"


def _check_cuts(index, tree, node, row):
    assert row[STATE] & BY_WORDS
    offset, ranges = int(row[STATE]) >> OFFSET_SHIFT, cuts(tree, node)
    assert all(first <= last for first, last in ranges)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(ranges)), "cuts are not apart"
    for k, child in enumerate(children(tree, node)):
        for atom in atoms_below(tree, child) if child != NO_CHILD else ():
            words = words_by_rank(index, atom)
            if k == len(ranges):
                assert len(words) <= offset, "the dummy cut has an atom with words left"
            else:
                assert ranges[k][0] <= words[offset] <= ranges[k][1]


def _check_cells(index, tree, node, row):
    assert row[STATE] & BY_SPACE
    columns, rows = int(row[COUNT]), int(row[ROOM])
    lines = tree.line[row[AUX] : row[AUX] + columns + rows - 2]
    x_line, y_line = lines[: columns - 1], lines[columns - 1 :]
    assert (np.diff(x_line) > 0).all()
    assert (np.diff(y_line) > 0).all()
    region, dummy, slots = tree.region[row[PLACE]], columns * rows, children(tree, node)
    for atom in atoms_below(tree, node):
        box = index._atoms.box[atom]
        covers = (box[:2] <= region[:2]).all() and (box[2:] >= region[2:4]).all()
        left, right = np.searchsorted(x_line, box[[0, 2]], side="right")
        top, bottom = np.searchsorted(y_line, box[[1, 3]], side="right")
        cells = {i * rows + j for i in range(left, right + 1) for j in range(top, bottom + 1)}
        held_by = {k for k, child in enumerate(slots) if child != NO_CHILD and atom in atoms_below(tree, child)}
        assert ({dummy} if covers else cells) == held_by


# --- the paper's example ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", ["fan_out=3,leaf=1", "fan_out=4,leaf=1,priority=space", "fan_out=9,leaf=2"])
def test_example_2(options):
    """m1 is for s7, though s1, s2 and s4 hold its place as well; m2 is for s1 and s4."""
    held = figure_3(options)
    check_tree(held)
    assert [["s7"], ["s1", "s4"]] == names_of(held.match([M1, M2]))


def test_example_3_the_cuts_of_the_keyword_partition():
    """With three cuts the first words part into w1, w2 to w3, w4 to w5; below w1 the second words are w2, w3, w5."""
    tree = tree_of(figure_3("fan_out=3,leaf=1,priority=keyword"))
    assert [[0, 0], [1, 2], [3, 4]] == cuts(tree, ROOT)
    first = children(tree, ROOT)[0]
    assert {0, 1, 3, 4} == atoms_below(tree, first)
    assert [[1, 1], [2, 2], [4, 4]] == cuts(tree, first)
    assert 1 == tree.node[first, STATE] >> OFFSET_SHIFT


def test_a_dummy_cut_holds_what_has_no_word_left():
    """w1 alone is not lost among those that need a second word."""
    held = actor("ap-tree:fan_out=3,leaf=1,priority=keyword")
    held.insert([wants(words, None) for words in ("a", "a b", "a c", "a d", "b c", "c d")])
    tree = tree_of(held)
    below_a = children(tree, ROOT)[0]
    assert KEYWORD == tree.node[below_a, KIND]
    assert {0} == atoms_below(tree, children(tree, below_a)[-1])
    assert [[0], [0, 1]] == as_lists(held.match([(["a"], point(0, 0)), (["a", "b"], point(0, 0))]))


def test_a_dummy_cell_holds_what_covers_its_region():
    """As s4 in Figure 5b: a rectangle that holds all of a cell is not parted by space below it."""
    wide = [("all", Box(-1, -1, 101, 101))]
    small = [
        (f"w{i}", Box(x, y, x + 1, y + 1)) for i, (x, y) in enumerate(itertools.product(range(0, 100, 10), repeat=2))
    ]
    held = actor("ap-tree:fan_out=16,leaf=8,priority=space")
    held.insert([wants(*each) for each in wide + small])
    check_tree(held)
    tree = tree_of(held)
    dummies = [children(tree, node)[-1] for node in range(int(tree.used[NODES])) if tree.node[node, KIND] == SPACE]
    assert any(dummy != NO_CHILD and 0 in atoms_below(tree, dummy) for dummy in dummies)
    assert [[0, 1]] == as_lists(held.match([(["all", "w0"], point(0.5, 0.5))]))


def test_a_later_keyword_does_not_open_a_cut_again():
    """b and c hit one cut: it is looked at once, with the words behind b, so that `b c` is found and counted once."""
    held = actor("ap-tree:fan_out=2,leaf=1,priority=keyword")
    held.messages([(["a", "b", "c", "d"], point(0, 0))])
    held.insert([wants(words, None) for words in ("a", "a", "a", "a", "b c", "b d", "c d")])
    tree = tree_of(held)
    assert [[0, 0], [1, 2]] == cuts(tree, ROOT)
    found = held.match([(["c", "b"], point(0, 0))])
    assert [[4]] == as_lists(found)
    second = children(tree, ROOT)[1]
    assert KEYWORD == tree.node[second, KIND]
    assert [[2, 2], [3, 3]] == cuts(tree, second)
    assert 1 == found.candidates


@pytest.mark.parametrize("box", [Box(1, 1, 1, 1), Box(1, 1, 2, 2), None], ids=["a point", "a box", "anywhere"])
@pytest.mark.parametrize("priority", ["adaptive", "keyword", "space"])
def test_identical_subscriptions_end_in_a_leaf(box, priority):
    """Neither words nor space tell them apart: building comes to an end, and so does inserting more."""
    held = actor(f"ap-tree:leaf=3,priority={priority}")
    held.insert([wants("a b", box)] * 30 + [wants("c", Box(5, 5, 9, 9))] * 8)
    check_tree(held)
    held.insert([wants("a b", box)] * 7)
    check_tree(held)
    where = point(1.0, 1.0)
    assert [[*range(30), *range(38, 45)], []] == as_lists(held.match([(["a", "b"], where), (["c"], where)]))


# --- the cost model and the keyword partition ---------------------------------------------------------------------


def sums(values):
    return np.concatenate([[0.0], np.cumsum(values)])


def costs(weights, probabilities, n_cuts):
    """Return what even, heuristic and optimal cuts cost."""
    weight, met = sums(weights), sums(probabilities)
    borders = (even_cuts(weight, n_cuts), heuristic_cuts(weight, met, n_cuts), optimal_cuts(weight, met, n_cuts))
    for border in borders:
        assert n_cuts + 1 == len(border)
        assert (0, len(weights)) == (border[0], border[-1])
        assert (np.diff(border) > 0).all()
    return [float(partition_cost(weight, weight, met, border)) for border in borders]


def least_cost(weights, probabilities, n_cuts):
    """Try every partition into so many cuts, or fewer."""
    n, best = len(weights), np.inf
    for k in range(1, n_cuts + 1):
        for inner in itertools.combinations(range(1, n), k - 1):
            parts = itertools.pairwise((0, *inner, n))
            best = min(best, sum(sum(weights[a:b]) * sum(probabilities[a:b]) for a, b in parts))
    return best


numbers = st.lists(st.tuples(st.integers(1, 50), st.integers(0, 50)), min_size=1, max_size=9)


@given(numbers, st.integers(1, 5))
def test_the_optimal_partition_is_the_best_of_all(words, n_cuts):
    """Brute force finds nothing better, and the heuristic is between it and even cuts."""
    weights, probabilities = [w for w, _ in words], [p / 64 for _, p in words]
    n_cuts = min(n_cuts, len(words))
    even, heuristic, optimal = costs(weights, probabilities, n_cuts)
    assert least_cost(weights, probabilities, n_cuts) == pytest.approx(optimal, abs=1e-9)
    assert optimal <= heuristic + 1e-9
    assert heuristic <= even + 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_costs_are_ordered_on_larger_vocabularies(seed):
    """Optimal, heuristic, even: each costs no more than the next, as close to the model as floats are."""
    rng = np.random.default_rng(seed)
    weights, probabilities = rng.zipf(1.5, 120).clip(max=500), rng.random(120) ** 4
    even, heuristic, optimal = costs(weights.tolist(), probabilities.tolist(), 17)
    assert optimal <= heuristic * (1 + 1e-12)
    assert heuristic <= even * (1 + 1e-12)


def test_costs_differ_when_messages_are_not_like_subscriptions():
    """Words that subscriptions need alike, while messages have the last ones nearly always: all three are different."""
    weights = [10] * 12
    probabilities = [0.01] * 8 + [0.9, 0.02, 0.9, 0.9]
    even, heuristic, optimal = costs(weights, probabilities, 4)
    assert optimal < heuristic < even


def test_an_index_with_a_sample_cuts_otherwise_and_cheaper():
    """Learnt messages change the cuts, and by their own measure the new ones cost less than those for subscriptions."""
    words = [f"w{i:02}" for i in range(12)]
    wanted = [wants(f"{word}", Box(i % 7, 0, i % 7 + 1, 1)) for word in words for i in range(10)]
    said = [([words[9], words[i % 2 + 10]], point(0, 0)) for i in range(200)]
    held = {}
    for name in ("plain", "learnt"):
        held[name] = actor("ap-tree:fan_out=4,leaf=5,priority=keyword,keyword_partition=dp")
        held[name].messages([(words, point(0, 0))])
        held[name].insert(wanted)
    held["learnt"].index.learn(held["learnt"].messages(said))
    found = {name: cuts(tree_of(each), ROOT) for name, each in held.items()}
    hit = {9: 1.0, 10: 0.5, 11: 0.5}
    cost = {
        name: sum(
            10 * (last - first + 1) * sum(hit.get(r, 0.0) for r in range(first, last + 1)) for first, last in each
        )
        for name, each in found.items()
    }
    assert [[0, 8], [9, 9], [10, 10], [11, 11]] == found["learnt"]
    assert 20.0 == cost["learnt"] < cost["plain"]
    assert as_lists(held["plain"].match(said[:9])) == as_lists(held["learnt"].match(said[:9]))


def test_the_cost_of_cuts_is_that_of_the_model():
    """Section 3.3.1 without messages: w(B) atoms times the share of its words among those of the node's atoms."""
    held = actor("ap-tree")
    held.messages([(["a", "b", "c", "d"], point(0, 0))])
    held.insert([wants(words, None) for words in ("a b", "a b", "a c", "b c", "c d", "a")])
    index = held.index
    held.match([])
    members = np.arange(6, dtype=np.int32)
    ranks = ranked_words(index._atoms, members, index._rank)
    # First words: a 4, b 1, c 1. All words: a 4, b 3, c 3, of 10.
    cut, met, cost = keyword_partition(members, 0, index._atoms, ranks, index._model, 2, True)
    assert [[0, 0], [1, 2]] == cut.tolist()
    assert [0.4, 0.6] == pytest.approx(met.tolist())
    assert 4 * 0.4 + 2 * 0.6 == pytest.approx(cost)
    # Second words: b 2, c 2, d 1 of 3, 3 and 1; `a` has none and costs 1 in the dummy cut.
    cut, _, cost = keyword_partition(members, 1, index._atoms, ranks, index._model, 3, False)
    assert [[1, 1], [2, 2], [3, 3]] == cut.tolist()
    assert (2 * 3 + 2 * 3 + 1) / 7 + 1 == pytest.approx(cost)


def test_the_cost_of_cells_is_that_of_the_model():
    """Atoms in a cell times its share of the area; with messages the share of those, beside sixteen spread evenly."""
    held = actor("ap-tree")
    held.insert([wants("a", Box(*corners)) for corners in ((0, 0, 2, 4), (0, 0, 2, 4), (6, 0, 8, 4), (0, 0, 8, 4))])
    index, members = held.index, np.arange(4, dtype=np.int32)
    held.match([])
    nobody, regions = np.empty(0, np.int32), index._tree.region
    x_line, y_line, met, cost = space_partition(members, nobody, 0, regions, index._atoms, index._model, 4)
    assert ([math.nextafter(2.0, 3.0)], []) == (x_line.tolist(), y_line.tolist())
    assert [0.25, 0.75] == pytest.approx(met.tolist())
    assert 2 * 0.25 + 1 * 0.75 + 1 == pytest.approx(cost)
    model = index._model._replace(point=np.array([[7.0, 1.0]] * 48))
    *_, met, cost = space_partition(members, np.arange(48, dtype=np.int32), 0, regions, index._atoms, model, 4)
    assert [16 * 0.25 / 64, (48 + 16 * 0.75) / 64] == pytest.approx(met.tolist())
    assert 2 * met[0] + met[1] + 1 == pytest.approx(cost)


def test_words_or_space_as_the_model_says():
    """Figure 2: equal rectangles are told apart by words, equal words by rectangles."""
    same_place = actor("ap-tree:leaf=4")
    same_place.insert([wants(f"w{i}", Box(0, 0, 9 + i, 9)) for i in range(30)])
    assert KEYWORD == tree_of(same_place).node[ROOT, KIND]
    same_words = actor("ap-tree:leaf=4")
    same_words.insert([wants("a b", Box(i, i, i + 1, i + 1)) for i in range(30)])
    assert SPACE == tree_of(same_words).node[ROOT, KIND]


# --- coming and going ---------------------------------------------------------------------------------------------


def test_a_leaf_over_its_limit_is_parted():
    """With θp = 4 the fifth atom of a leaf parts it."""
    held = actor("ap-tree:leaf=4,rebuild=never")
    held.insert([wants(f"w{i}", Box(i, 0, i + 1, 1)) for i in range(4)])
    assert LEAF == tree_of(held).node[ROOT, KIND]
    held.insert([wants("w9", Box(9, 9, 10, 10))])
    assert LEAF != tree_of(held).node[ROOT, KIND]
    check_tree(held)


def test_a_node_with_too_few_atoms_becomes_a_leaf():
    """With θp = 4 a node that has three atoms left is a leaf again, and what is below it is gone."""
    held = actor("ap-tree:leaf=4,rebuild=never")
    held.insert([wants(f"w{i}", Box(i, 0, i + 1, 1)) for i in range(8)])
    assert LEAF != tree_of(held).node[ROOT, KIND]
    held.remove([0, 1, 2, 3])
    assert LEAF != tree_of(held).node[ROOT, KIND]
    held.remove([4])
    assert LEAF == tree_of(held).node[ROOT, KIND]
    assert {5, 6, 7} == atoms_below(tree_of(held), ROOT)
    check_tree(held)


def test_a_word_between_two_cuts_widens_one():
    """An atom whose first word no cut has is found all the same, as is one whose word is new."""
    held = actor("ap-tree:fan_out=2,leaf=2,priority=keyword,rebuild=never")
    held.messages([(list("abcde"), point(0, 0))])
    held.insert([wants(words, None) for words in ("a", "a", "a", "b", "e", "c d", "c d")])
    before = cuts(tree_of(held), ROOT)
    held.insert([wants("d", None), wants("new", None)])
    check_tree(held)
    assert before != cuts(tree_of(held), ROOT)
    assert [[7], [8]] == as_lists(held.match([(["d"], point(0, 0)), (["new"], point(0, 0))]))


@pytest.mark.parametrize(
    ("space", "options"),
    [(EARTH, "fan_out=4,leaf=3"), (PLANE, "fan_out=9,leaf=2,keyword_partition=dp,divergence=0.0,share=0.0")],
    ids=["heuristic", "dp"],
)
def test_a_long_life(space, options, monkeypatch):
    """After every change the tree is what its arrays promise, and answers as `scan` does."""
    monkeypatch.setattr(ap_tree, "_LITTLE_WASTE", 50)
    monkeypatch.setattr(ap_tree, "_FEWEST_MESSAGES", 40)
    rng = random.Random(5)
    both = [IndexActor(create(f"ap-tree:{options}", space)), IndexActor(create("scan", space))]
    alive = []
    for turn in range(5):
        wanted, said = random_wanted(rng, space, 40 if turn else 60), random_said(rng, space, 25)
        gone = rng.sample(alive, len(alive) // 3)
        for each in both:
            slots = each.insert(wanted)
            each.remove(gone)
        alive = [slot for slot in alive if slot not in gone] + slots
        assert as_lists(both[1].match(said)) == as_lists(both[0].match(said))
        check_tree(both[0])


def test_waste_is_collected(monkeypatch):
    """Parts that are built again and again do not let the arrays grow without end."""
    monkeypatch.setattr(ap_tree, "_LITTLE_WASTE", 10)
    held = actor("ap-tree:fan_out=4,leaf=2,rebuild=never")
    held.insert([wants(f"w{i % 5} v{i % 7}", Box(i, 0, i + 2, 1)) for i in range(30)])
    held.match([])
    for turn in range(12):
        slots = held.insert([wants(f"w{i % 5}", Box(turn, i, turn + 1, i + 1)) for i in range(25)])
        held.match([])
        held.remove(slots)
        check_tree(held)
    assert int(held.index._tree.used[NODES]) < 400


# --- divergence ---------------------------------------------------------------------------------------------------


def test_divergence_is_that_of_kullback_and_leibler():
    """Half a unit more for every count, less what chance explains; two counts of one thing do not diverge."""
    before, now = np.array([900.0, 100.0]), np.array([500.0, 500.0])
    p, q = 900.5 / 1001, 500.5 / 1001
    plain = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    by_chance = (1 + 3 * np.sqrt(2)) / 1001
    assert plain - by_chance == pytest.approx(beyond_chance(before, now))
    assert beyond_chance(before, before) < 0.0
    rng = np.random.default_rng(1)
    chances = [beyond_chance(*rng.multinomial(3000, [0.01] * 100, 2).astype(np.float64)) for _ in range(50)]
    assert 0 == sum(each > 0.001 for each in chances)


def spread_out(n, left):
    """Return subscriptions of one word each in two far halves of space; `left` of ten are in the left one."""
    where = [(i * 7 % 100) + (0 if i % 10 < left else 1000) for i in range(n)]
    return [wants(f"w{i % 3}", Box(x, i % 50, x + 1, i % 50 + 1)) for i, x in enumerate(where)]


@pytest.mark.parametrize(("rebuild", "is_followed"), [("adaptive", True), ("never", False)])
def test_subscriptions_that_drift_have_their_part_built_anew(rebuild, is_followed):
    """The weights of a node's cells are not those it was built with: it is parted anew, unless told never to."""
    held, scan = actor(f"ap-tree:fan_out=16,leaf=8,rebuild={rebuild}"), actor("scan")
    said = [([f"w{i % 3}"], point(float(x), float(i % 50))) for i, x in enumerate(range(0, 1100, 11))]
    for each in (held, scan):
        each.insert(spread_out(160, 9))
        each.match([])
    lines = tree_of(held).line[:4].tolist()
    for each in (held, scan):
        each.insert(spread_out(150, 0))
    tree = tree_of(held)
    first_line = int(tree.node[ROOT, AUX])
    assert SPACE == tree.node[ROOT, KIND]
    assert is_followed == (lines != tree.line[first_line : first_line + 4].tolist())
    check_tree(held)
    assert as_lists(scan.match(said)) == as_lists(held.match(said))


@pytest.mark.parametrize(("rebuild", "is_followed"), [("adaptive", True), ("never", False)])
def test_messages_that_drift_have_the_right_part_built_anew(rebuild, is_followed, monkeypatch):
    """Messages in the left half say other words than they did: the left half is parted anew, the right one stays."""
    monkeypatch.setattr(ap_tree, "_FEWEST_MESSAGES", 240)
    words = [f"w{i:02}" for i in range(30)]
    held, scan = actor(f"ap-tree:fan_out=9,leaf=8,rebuild={rebuild},priority=space"), actor("scan")

    def said(first):
        """Half of the messages left, with words from `first` on, half of them right."""
        left = [([words[first + i % 5]], point(0.5, 0.5)) for i in range(120)]
        return left + [([words[i % 30]], point(1000.5, 0.5)) for i in range(120)]

    for each in (held, scan):
        each.messages([(words, point(0, 0))])
        each.insert([wants(words[i % 30], Box(x, 0, x + 1, 1)) for i in range(120) for x in (0, 1000)])
        each.index.learn(each.messages(said(0))) if each is held else None
        each.match([])
    tree = tree_of(held)
    assert SPACE == tree.node[ROOT, KIND]
    left, right = (next(c for c in children(tree, ROOT) if c != NO_CHILD and a in atoms_below(tree, c)) for a in (0, 1))
    before = {node: tree.node[node].tolist() for node in (ROOT, left, right)}
    for _ in range(2):
        held.match(said(0))
    assert before == {node: held.index._tree.node[node].tolist() for node in before}, "nothing had changed"
    for _ in range(3):
        held.match(said(25))
    tree = held.index._tree
    after = {node: tree.node[node].tolist() for node in before}
    assert before[ROOT] == after[ROOT]
    assert before[right] == after[right]
    assert is_followed == (before[left] != after[left])
    check_tree(held)
    assert as_lists(scan.match(said(3))) == as_lists(held.match(said(3)))


# --- options ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("keyword_partition=best", "one of heuristic, dp"),
        ("priority=none", "one of adaptive, keyword, space"),
        ("rebuild=always", "one of adaptive, never"),
        ("fan_out=1", "at least 2"),
        ("leaf=0", "at least 1"),
        ("divergence=-0.1", "at least 0"),
        ("divergence=nan", "at least 0"),
        ("share=-1", "at least 0"),
    ],
)
def test_options_that_make_no_tree(given, said):
    """A wrong value is named with what is possible."""
    with pytest.raises(UnknownIndex, match=said):
        create(f"ap-tree:{given}", PLANE)
