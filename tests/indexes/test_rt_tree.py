"""The R-tree that grows and shrinks, and what the Rt-tree paper promises of the indexes that stand on it."""

import random

import numba
import numpy as np
import pytest

from contract.naive import as_lists
from contract.worlds import EARTH, PLANE, random_said, random_wanted, world
from nearcast.errors import UnknownIndex
from nearcast.geo import Box
from nearcast.indexes import create
from nearcast.indexes.shared.dynamic_rtree import DynamicRTree
from nearcast.indexes.shared.node_tokens import COUNT, FIRST, NO_WORD, inwards, outwards, tokens
from nearcast.query import parse
from nearcast.testing import IndexActor

pytestmark = [pytest.mark.modes, pytest.mark.papers]

ORDERS = ("random", "df", "idf", "locality")
SEEDS = range(1 if numba.config.DISABLE_JIT else 6)
INDEXES = ("spatial-first", "ir-tree", "rt-tree", "rt+-tree", "rt++-tree")
BY_LEVEL = "rt++-tree"


# The tree


def box_of(rng, kind):
    """A rectangle: any, one of three, or any of which some have no end."""
    if kind == "alike":
        x = float(rng.randrange(3))
        return (x, x, x + 1.0, x + 1.0)
    if kind == "endless" and rng.random() < 0.3:
        return rng.choice([(-np.inf, -np.inf, np.inf, np.inf), (-1e300, 0.0, 1e300, 1.0), (1e300, 1e300, 1e300, 1e300)])
    x, y = rng.uniform(-10, 10), rng.uniform(-10, 10)
    return (x, y, x + rng.choice([0.0, rng.random()]), y + rng.random())


def checked_tree(tree, box, least, most):
    """Walk a tree: leaves at one depth, nodes neither too full nor too empty, tight rectangles; return its items."""
    arrays, items = tree.arrays, []

    def walk(node, level):
        n = int(arrays.n_entries[node])
        assert level == arrays.level[node]
        is_root = node == tree.root
        assert (2 if level else 0) <= n <= most if is_root else least <= n <= most
        for slot in range(n):
            entry, own = int(arrays.entry[node, slot]), arrays.box[node, slot]
            if level == 0:
                assert node == arrays.leaf_of[entry]
                assert np.array_equal(box[entry], own)
                items.append(entry)
            else:
                assert node == arrays.parent[entry]
                below = arrays.box[entry, : arrays.n_entries[entry]]
                assert np.array_equal(np.append(below[:, :2].min(axis=0), below[:, 2:].max(axis=0)), own)
                walk(entry, level - 1)

    walk(tree.root, tree.n_levels)
    in_use = sum(map(len, tree.nodes_by_level()))
    assert len(arrays.level) == in_use + arrays.state[2]
    return sorted(items)


@pytest.mark.parametrize("kind", ["any", "alike", "endless"])
@pytest.mark.parametrize(("least", "most"), [(1, 2), (1, 3), (2, 4), (3, 9)])
def test_a_tree_keeps_its_promises_whatever_happens(kind, least, most):
    """Packed, grown and shrunk, to nothing and up again."""
    rng = random.Random(f"{kind} {most}")
    box = np.array([box_of(rng, kind) for _ in range(160)])
    tree, held = DynamicRTree(least, most), set(range(0, 60, 2))
    first = np.array(sorted(held), np.int32)
    tree.pack(first, box[first], 60)
    assert sorted(held) == checked_tree(tree, box, least, most)
    for last in (90, 120, 160):
        new = np.arange(last - 30, last, dtype=np.int32)
        tree.insert(new, box[new], last)
        held |= set(new.tolist())
        assert sorted(held) == checked_tree(tree, box, least, most)
        for n in (1, 7, len(held) - 20 if last < 160 else len(held) - 8):
            gone = rng.sample(sorted(held), n)
            tree.reinsert(tree.remove(np.array(gone, np.int32)))
            held -= set(gone)
            assert sorted(held) == checked_tree(tree, box, least, most)


@pytest.mark.parametrize("n", [0, 1, 3, 4, 9, 10, 28, 100])
def test_packed_nodes_are_filled_evenly(n):
    """No node is less than half full, however many there are."""
    box = np.array([box_of(random.Random(i), "any") for i in range(n)]).reshape(-1, 4)
    tree = DynamicRTree(1, 3)
    tree.pack(np.arange(n, dtype=np.int32), box, n)
    assert list(range(n)) == checked_tree(tree, box, 1, 3)


def test_a_packed_root_is_not_left_with_two_entries():
    """34 leaves of up to 9 would be 4 nodes and a root; with six entries each it is 5: about as many on every level."""
    box = np.array([box_of(random.Random(i), "any") for i in range(300)])
    tree = DynamicRTree(2, 9)
    tree.pack(np.arange(300, dtype=np.int32), box, 300)
    assert [34, 5, 1] == [len(level) for level in tree.nodes_by_level()]
    assert list(range(300)) == checked_tree(tree, box, 2, 9)


def test_endless_rectangles_are_packed_away_from_the_others():
    """Who listens everywhere shares leaves with others that do: most leaves stay small."""
    rng = random.Random(3)
    box = np.array([box_of(rng, "any") if i % 10 else (-np.inf, -np.inf, np.inf, np.inf) for i in range(100)])
    tree = DynamicRTree(2, 5)
    tree.pack(np.arange(100, dtype=np.int32), box, 100)
    leaves = tree.nodes_by_level()[0]
    has_endless = [np.isinf(tree.arrays.box[leaf, : tree.arrays.n_entries[leaf]]).any() for leaf in leaves]
    assert 2 <= sum(has_endless) <= 3


@pytest.mark.parametrize("name", INDEXES)
@pytest.mark.parametrize("options", ["min_entries=0", "min_entries=26", "max_entries=1", "min_entries=2,max_entries=3"])
def test_numbers_of_entries_that_no_node_can_have(name, options):
    """A split must leave both parts with enough entries."""
    with pytest.raises(UnknownIndex, match="at most half of max_entries"):
        create(f"{name}:{options}", PLANE)


@pytest.mark.parametrize("name", ["rt+-tree", "rt++-tree"])
def test_an_order_that_does_not_exist(name):
    """The message names those that do."""
    with pytest.raises(UnknownIndex, match="random, df, idf, locality"):
        create(f"{name}:order=alphabet", PLANE)


# Tokens of nodes


def changed_index(spec, seed, space=PLANE):
    """Return an index after a life of inserting, removing and moving, one by one and many at once."""
    rng = random.Random(seed)
    actor = IndexActor(create(spec, space))
    slots = actor.insert(random_wanted(rng, space, 40))
    for n in (1, 1, 12, 25):
        actor.match(random_said(rng, space, 1))
        slots += actor.insert(random_wanted(rng, space, n))
        actor.match(random_said(rng, space, 1))
        gone = rng.sample(slots, n if n > 1 else 5)
        actor.remove(gone)
        slots = [slot for slot in slots if slot not in gone]
        actor.match(random_said(rng, space, 1))
        actor.replace(slots[:3], random_wanted(rng, space, 3))
    actor.match(random_said(rng, space, 1))
    return actor


def words_of(index, atom):
    """Return the words of an atom in the order of the index."""
    return index._order.words_of(index._atoms, np.array([atom], np.int32)).token.tolist()


def held_tokens(arrays, node):
    """Return the tokens of a node with how often each was added, and with its items where these are kept."""
    first, n = int(arrays.first[node]), int(arrays.length[node])
    found = {}
    for row in range(first, first + n):
        count = int(arrays.list[row, COUNT])
        begin = int(arrays.list[row, FIRST]) if arrays.list.shape[1] > 1 else 0
        items = arrays.item[begin : begin + count].tolist() if arrays.list.shape[1] > 1 else []
        found[int(arrays.token[row])] = (count, sorted(items))
    assert list(found) == sorted(found)
    return found


def expected_tokens(index, level, atoms):
    """Return the same as it follows from the atoms below a node."""
    found = {}
    n_levels = max(index._tree.n_levels, 1)
    for atom in atoms:
        words = words_of(index, atom)
        if index.info.name == "rt+-tree":
            words = words[:1]
        if index.info.name == BY_LEVEL:
            depth = n_levels - level
            words = words[depth - 1 :] if level == 0 else words[depth - 1 : depth]
        for word in words:
            found.setdefault(word, []).append(atom)
    is_listed = index.info.name == BY_LEVEL
    return {word: (len(who), sorted(who) if is_listed else []) for word, who in found.items()}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("entries", ["min_entries=1,max_entries=3", "min_entries=2,max_entries=4"])
@pytest.mark.parametrize("name", ["rt-tree", "rt+-tree", "rt++-tree"])
def test_nodes_have_the_tokens_of_what_is_below(name, entries, seed):
    """After any changes every node has just those tokens, as often and with the atoms that belong there."""
    index = changed_index(f"{name}:{entries}", seed).index
    levels = index._tree.nodes_by_level()
    for level, nodes in enumerate(levels[:-1] or levels):
        for node in nodes.tolist():
            atoms, _ = index._tree.items_below(np.array([node], np.int32))
            held = held_tokens(index._tokens.arrays, node)
            if name == BY_LEVEL:
                held = {word: (n, sorted(item // 4 for item in items)) for word, (n, items) in held.items()}
            assert expected_tokens(index, level, atoms.tolist()) == held


@pytest.mark.parametrize("seed", SEEDS)
def test_inverted_files_list_the_entries_that_have_a_word(seed):
    """The files of `ir-tree` after any changes: in leaves by atom, further up by child."""
    index = changed_index("ir-tree:min_entries=1,max_entries=3", seed).index
    tree, files, atoms = index._tree.arrays, index._files.arrays, index._atoms
    words = {}
    for level, nodes in enumerate(index._tree.nodes_by_level()):
        for node in nodes.tolist():
            expected = {}
            for slot in range(tree.n_entries[node]):
                entry = int(tree.entry[node, slot])
                if level == 0:
                    first = int(atoms.code_start[entry])
                    own = atoms.code[first : first + int(atoms.n_words[entry])].tolist() or [NO_WORD]
                else:
                    own = words[entry]
                for word in own:
                    expected.setdefault(word, []).append(slot)
            words[node] = list(expected)
            assert {word: (len(slots), slots) for word, slots in expected.items()} == held_tokens(files, node)


@pytest.mark.parametrize("seed", SEEDS)
def test_property_1_every_atom_is_listed_as_often_as_it_has_words(seed):
    """And in the first i levels i times, for i below the number of its words; without words once."""
    index = changed_index("rt++-tree:min_entries=1,max_entries=3,order=idf", seed).index
    levels = index._tree.nodes_by_level()[:-1]
    assert len(levels) >= 3
    times = np.zeros((len(levels), len(index._store)), int)
    for level, nodes in enumerate(levels):
        for node in nodes.tolist():
            for _, items in held_tokens(index._tokens.arrays, node).values():
                np.add.at(times[len(levels) - 1 - level], np.array(items) // 4, 1)
    live = np.flatnonzero(index._slot_of[index._atoms.row[: len(index._store)]] >= 0)
    n_words = np.maximum(index._atoms.n_words[live], 1)
    assert n_words.tolist() == times.sum(axis=0)[live].tolist()
    assert n_words.sum() == times.sum()
    for i in range(1, len(levels)):
        assert np.minimum(i, n_words).tolist() == times[:i].sum(axis=0)[live].tolist()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("seed", SEEDS)
def test_lemma_2_what_rt_plus_keeps_rt_keeps_too(seed, order):
    """On the same tree the candidates of Rt+ are among those of Rt, and the answers among both; some are saved."""
    entries, rng = "min_entries=1,max_entries=3", random.Random(f"said {seed}")
    one = changed_index(f"rt-tree:{entries}", seed)
    plus = changed_index(f"rt+-tree:{entries},order={order}", seed)
    assert np.array_equal(one.index._tree.arrays.entry, plus.index._tree.arrays.entry)
    said, n_saved = random_said(rng, PLANE, 40), 0
    for row, answers in enumerate(as_lists(plus.match(said))):
        nodes, slots = one.index.candidates(one.messages(said), row)
        fewer_nodes, fewer_slots = plus.index.candidates(plus.messages(said), row)
        assert set(fewer_nodes.tolist()) <= set(nodes.tolist())
        assert set(answers) <= set(fewer_slots.tolist()) <= set(slots.tolist())
        n_saved += len(slots) - len(fewer_slots)
    assert n_saved > 0


@pytest.mark.parametrize("name", INDEXES)
@pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])
def test_answers_after_many_changes(name, space):
    """As `scan` has them, also where lists are made anew for the room they waste."""
    said = random_said(random.Random(5), space, 60)
    for seed in SEEDS:
        expected = as_lists(changed_index("scan", seed, space).match(said))
        assert expected == as_lists(changed_index(f"{name}:min_entries=1,max_entries=3", seed, space).match(said))


@pytest.mark.parametrize("name", ["ir-tree", "rt-tree", "rt++-tree"])
def test_room_that_was_left_behind_is_taken_back(name, monkeypatch):
    """With no room to spare, arrays are made anew as soon as half of them is waste."""
    monkeypatch.setattr(tokens, "_SPARE", 0)
    actor = changed_index(f"{name}:min_entries=1,max_entries=3", 1)
    wanted = [(parse("a b"), Box(i, i, i + 1, i + 1)) for i in range(30)]
    for _ in range(12):
        slots = actor.insert(wanted)
        assert slots == as_lists(actor.match([(["a", "b"], (-100.0, -100.0, 100.0, 100.0))]))[0]
        actor.remove(slots)
        actor.match([])
    arrays = (actor.index._files if name == "ir-tree" else actor.index._tokens).arrays
    n_pairs, n_items, n_live = arrays.used.tolist()
    assert n_pairs <= 2 * arrays.length.sum()
    assert n_items <= 2 * n_live


def test_messages_with_more_words_than_a_node_has_tokens():
    """Whichever side is looked up in the other, the answers are the same."""
    wanted, _ = world(4, PLANE, 80, 1)
    words = [f"w{i}" for i in range(30)]
    said = [(words[:n], (-12.0, -12.0, 12.0, 12.0)) for n in (1, 2, 5, 30)]
    said.append(([f"x{i}" for i in range(500)] + words[3:9], (0.0, 0.0, 5.0, 5.0)))
    expected = None
    for name in ("scan", *INDEXES):
        actor = IndexActor(create(name, PLANE), add_words=True)
        actor.insert(wanted)
        found = as_lists(actor.match(said))
        expected = expected or found
        assert expected == found


# Orders of words


def order_of(order, rows):
    """Return the words of rows of (query, region), in order, after learning from all of them."""
    actor = IndexActor(create(f"rt++-tree:order={order}", PLANE))
    actor.insert([(parse(query), region) for query, region in rows])
    actor.match([([], (0.0, 0.0, 0.0, 0.0))])
    words = actor.words.words().to_pylist()
    return [[words[term] for term in words_of(actor.index, atom)] for atom in range(len(rows))]


def test_df_covers_what_is_left():
    """b is in three rows but, without those that a covers, in none: c, left with one, comes before it."""
    rows = [(query, Box(0, 0, 1, 1)) for query in ("a b", "a b", "a b c", "a", "b", "d c", "d")]
    found = order_of("df", rows)
    assert [["a", "b"], ["a", "b"], ["a", "b"]] == [words[:2] for words in found[:3]]
    rows = [(query, Box(0, 0, 1, 1)) for query in ("a b", "a b", "a b", "a", "b c", "c")]
    assert [["a", "b"], ["c", "b"]] == [order_of("df", rows)[row] for row in (0, 4)]


def test_idf_begins_with_the_rarest():
    """Of words in as many rows the first that was known."""
    rows = [(query, Box(0, 0, 1, 1)) for query in ("a b c", "a b", "a", "d e")]
    assert [["c", "b", "a"], ["d", "e"]] == [order_of("idf", rows)[row] for row in (0, 3)]


def test_locality_counts_in_the_cell():
    """Rare on the whole and common at home: away from home it still comes first, at home last."""
    home, away = Box(0, 0, 1, 1), Box(90, 90, 91, 91)
    rows = [("a b", home), ("a", home), ("a", home), ("a b", away), *[("b", away)] * 9]
    assert [["b", "a"], ["a", "b"]] == [order_of("locality", rows)[row] for row in (0, 3)]
    assert [["a", "b"], ["a", "b"]] == [order_of("idf", rows)[row] for row in (0, 3)]


def test_random_is_the_same_for_the_same_atom_and_differs_between_atoms():
    """Of thirty rows of the same words some begin with either."""
    found = order_of("random", [("a b", Box(0, 0, 1, 1))] * 30)
    assert found == order_of("random", [("a b", Box(0, 0, 1, 1))] * 30)
    assert {"a", "b"} == {words[0] for words in found}


@pytest.mark.parametrize("order", ORDERS)
def test_words_that_came_after_building(order):
    """They are in the order too, and are found."""
    actor = IndexActor(create(f"rt++-tree:order={order}", PLANE))
    actor.insert([(parse("a b"), Box(0, 0, 1, 1))] * 9)
    assert 9 == len(actor.match([(["a", "b"], (0.0, 0.0, 0.0, 0.0))]).slots)
    (slot,) = actor.insert([(parse("a new"), Box(0, 0, 1, 1))])
    assert [slot] == as_lists(actor.match([(["new", "a"], (1.0, 1.0, 1.0, 1.0))]))[0]
    actor.remove([slot])
    assert [] == as_lists(actor.match([(["new", "a"], (1.0, 1.0, 1.0, 1.0))]))[0]


# Rectangles in half the room


def test_rounded_rectangles_hold_the_given_ones():
    """Outwards and inwards by one float at most, from the smallest numbers to those that have no single precision."""
    rng = np.random.default_rng(1)
    x = np.sort(rng.choice([1e300, 1.0, 1e-300, 3e38, 1e-40], (200, 4, 1)) * rng.normal(size=(200, 4, 1)), axis=1)[
        ..., 0
    ]
    box = np.vstack([x[:, [0, 1, 2, 3]], [[-np.inf, -np.inf, np.inf, np.inf], [1.5, 2.5, 1.5, 2.5]]])
    out, into = outwards(box).astype(float), inwards(box).astype(float)
    assert (out[:, :2] <= box[:, :2]).all()
    assert (out[:, 2:] >= box[:, 2:]).all()
    assert (into[:, :2] >= box[:, :2]).all()
    assert (into[:, 2:] <= box[:, 2:]).all()
    assert np.array_equal(out[-2:], box[-2:])
    assert np.array_equal(into[-2:], box[-2:])


@pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])
def test_borders_that_single_precision_cannot_tell_apart(space):
    """A message a double's breadth beside a border is outside, on the border inside."""
    third = 1.0 / 3.0
    actor = IndexActor(create("rt++-tree", space))
    actor.insert([(parse("a"), Box(third, 0.0, 2.0, 2.0)), (parse("a"), Box(-2.0, 0.0, third, 2.0))])
    actor.insert([(parse("b"), Box(0.0, third, 2.0, 2.0)), (parse("b"), Box(0.0, -2.0, 2.0, third))])
    edge = np.nextafter(third, -1.0), third, np.nextafter(third, 1.0)
    assert [[1], [0, 1], [0]] == as_lists(actor.match([(["a"], (x, 1.0, x, 1.0)) for x in edge]))
    assert [[3], [2, 3], [2]] == as_lists(actor.match([(["b"], (1.0, y, 1.0, y)) for y in edge]))
