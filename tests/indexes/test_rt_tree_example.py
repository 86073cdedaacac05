"""The worked example of the Rt-tree paper (Li, Wang, Wang, Feng: KDD 2013, Figures 1 to 4 and Examples 1 to 8).

The figures themselves are lost to us: tokens are those the text names or lets infer, down to the counts of Example 6;
rectangles are our own, placed so that every statement of the text about overlap holds, and that packing three to a node
makes the tree of Figure 2.
"""

import numpy as np
import pytest

from contract.conftest import SPECS
from contract.naive import as_lists
from nearcast.geo import Box, Space
from nearcast.indexes import create
from nearcast.indexes.shared.node_tokens import COUNT, FIRST
from nearcast.query import And, Word
from nearcast.testing import IndexActor

pytestmark = [pytest.mark.modes, pytest.mark.papers]

SUBSCRIPTIONS = {
    # Leaf n4: apart from both rectangle messages.
    "s1": ("32GB AT&T iphone4s", Box(8, 0, 9, 2)),
    "s2": ("verizon iphone4s", Box(8, 1, 10, 3)),
    "s3": ("64GB ipad2", Box(9, 0, 10, 1)),
    # Leaf n5: touches them, and has no token of theirs but iphone4s.
    "s4": ("verizon iphone4s", Box(5, 4, 7, 6)),
    "s5": ("verizon iphone4s", Box(6, 3, 8, 5)),
    "s6": ("verizon iphone4s", Box(6, 5, 7, 7)),
    # Leaf n6: s7 is apart, s8 touches the rectangle and not the point.
    "s7": ("32GB AT&T ipad2", Box(0, 0, 1, 2)),
    "s8": ("AT&T ipad2 iphone4s", Box(2, 3, 4, 5)),
    "s9": ("verizon iphone4s", Box(1, 4, 3, 6)),
    # Leaf n7: all three hold the point.
    "s10": ("32GB AT&T iphone4s", Box(3, 6, 6, 9)),
    "s11": ("AT&T ipad2 iphone4s", Box(4, 5, 6, 8)),
    "s12": ("64GB ipad2", Box(2, 7, 5, 9)),
}
POINT, RANGE, EVERYWHERE = (4.5, 7.5, 4.5, 7.5), (2.0, 4.0, 6.0, 8.0), (0.0, 0.0, 10.0, 10.0)
SHOP = ["iphone4s", "ipad2", "AT&T", "64GB"]
#: The tree of Figure 2: who is below each node.
NODES = {
    "n2": "s1 s2 s3 s4 s5 s6",
    "n3": "s7 s8 s9 s10 s11 s12",
    "n4": "s1 s2 s3",
    "n5": "s4 s5 s6",
    "n6": "s7 s8 s9",
    "n7": "s10 s11 s12",
}


def filled(spec):
    """The twelve subscriptions in an index. Tokens are terms taken as they are: AT&T is one."""
    index = IndexActor(create(spec, Space.plane()))
    index.insert([(And(tuple(map(Word, tokens.split()))), region) for tokens, region in SUBSCRIPTIONS.values()])
    index.settle()
    return index


@pytest.fixture(params=SPECS)
def figure(request):
    """The twelve subscriptions in every index."""
    return filled(request.param)


@pytest.fixture
def figure_2():
    """The same in the tree of Figure 2, by the name of an index and its order."""

    def made(name, order=""):
        index = filled(f"{name}:min_entries=1,max_entries=3{order and f',order={order}'}")
        index.match([(SHOP, POINT)])
        return index

    return made


def answers(index, tokens, place):
    names = list(SUBSCRIPTIONS)
    return [names[slot] for slot in as_lists(index.match([(tokens, place)]))[0]]


def nodes_of(actor):
    """Return the name of each node, which must be those of Figure 2."""
    tree, names = actor.index._tree, {frozenset(below.split()): name for name, below in NODES.items()}
    levels = tree.nodes_by_level()
    assert [4, 2, 1] == [len(level) for level in levels]
    found = {}
    for node in np.concatenate(levels[:-1]).tolist():
        below, _ = tree.items_below(np.array([node], np.int32))
        found[node] = names[frozenset(list(SUBSCRIPTIONS)[atom] for atom in below.tolist())]
    return found


def tokens_of(actor, name):
    """Return the tokens of a node, by name."""
    node = next(node for node, each in nodes_of(actor).items() if each == name)
    tokens, _ = actor.index._tokens.tokens_of(np.array([node], np.int32))
    words = actor.words.words().to_pylist()
    return [words[token] for token in tokens.tolist()]


def lists_of(actor, name):
    """Return the inverted lists of a node of the Rt++-tree: who is under each token."""
    node = next(node for node, each in nodes_of(actor).items() if each == name)
    arrays, found = actor.index._tokens.arrays, {}
    first = int(arrays.first[node])
    for row, token in enumerate(tokens_of(actor, name), first):
        begin = int(arrays.list[row, FIRST])
        atoms = arrays.item[begin : begin + int(arrays.list[row, COUNT])] // 4
        found[token] = sorted((list(SUBSCRIPTIONS)[atom] for atom in atoms.tolist()), key=lambda s: int(s[1:]))
    return found


def candidates(actor, tokens, place):
    """Return the nodes that pass the filters, by name, and the subscriptions in the leaves among them."""
    nodes, slots = actor.index.candidates(actor.messages([(tokens, place)]), 0)
    names = nodes_of(actor)
    return sorted(names[node] for node in nodes.tolist()), [list(SUBSCRIPTIONS)[slot] for slot in slots.tolist()]


# What any index answers


def test_the_tokens_are_those_of_the_text():
    """iphone4s is in the nine subscriptions Example 6 lists, ipad2 is what the other three have."""
    with_iphone = [name for name, (tokens, _) in SUBSCRIPTIONS.items() if "iphone4s" in tokens.split()]
    assert ["s1", "s2", "s4", "s5", "s6", "s8", "s9", "s10", "s11"] == with_iphone
    assert all("ipad2" in SUBSCRIPTIONS[name][0].split() for name in ("s3", "s7", "s12"))


def test_example_1_the_point_message(figure):
    """s11 and s12: s10 has 32GB, which the message lacks; s8 does not hold the point."""
    assert ["s11", "s12"] == answers(figure, SHOP, POINT)


def test_examples_1_and_8_the_range_message(figure):
    """s8, s11 and s12, though s8's corners are not all inside the message and it does not hold the point."""
    assert ["s8", "s11", "s12"] == answers(figure, SHOP, RANGE)


def test_example_3(figure):
    """s12 alone: the others near by need iphone4s."""
    assert ["s12"] == answers(figure, ["ipad2", "AT&T", "32GB", "64GB"], RANGE)


def test_examples_4_and_5(figure):
    """Without iphone4s and ipad2 there is no answer: every subscription has one of them."""
    assert [] == answers(figure, ["AT&T", "32GB", "64GB"], EVERYWHERE)


def test_a_message_inside_and_one_around_a_subscription(figure):
    """Overlap is of intervals: the paper's vertex test misses a message inside a subscription, and a crossing one."""
    assert ["s8"] == answers(figure, SHOP, (2.5, 3.5, 3.5, 4.5))
    assert ["s8"] == answers(figure, SHOP, (0.0, 3.5, 10.0, 4.5))
    assert ["s3", "s8", "s11", "s12"] == answers(figure, SHOP, (-1.0, -1.0, 11.0, 11.0))


# Section 3: Rt


def test_example_2_the_tree(figure_2):
    """Two levels below the root, three subscriptions a leaf; a token set is the union of those below."""
    index = figure_2("rt-tree")
    assert {"32GB", "AT&T", "64GB", "ipad2", "iphone4s", "verizon"} == set(tokens_of(index, "n4"))
    assert {"iphone4s", "verizon"} == set(tokens_of(index, "n5"))
    assert set(tokens_of(index, "n4")) | set(tokens_of(index, "n5")) == set(tokens_of(index, "n2"))


def test_example_3_the_filters(figure_2):
    """n4 is passed over by its place, n5 by its tokens; the subscriptions of n6 and n7 are verified."""
    index = figure_2("rt-tree")
    expected = ["n2", "n3", "n6", "n7"], ["s7", "s8", "s9", "s10", "s11", "s12"]
    assert expected == candidates(index, ["ipad2", "AT&T", "32GB", "64GB"], RANGE)


# Section 4: Rt+


def test_example_4_representative_tokens(figure_2):
    """By df, n4 has iphone4s and ipad2, n5 iphone4s, n2 both; a message without them passes over n2, but not in Rt."""
    rt, rt_plus = figure_2("rt-tree"), figure_2("rt+-tree", "df")
    assert {"iphone4s", "ipad2"} == set(tokens_of(rt_plus, "n4")) == set(tokens_of(rt_plus, "n2"))
    assert ["iphone4s"] == tokens_of(rt_plus, "n5")
    said = ["AT&T", "32GB", "64GB"]
    assert "n2" in candidates(rt, said, EVERYWHERE)[0]
    assert ([], []) == candidates(rt_plus, said, EVERYWHERE)


def test_example_5_a_node_that_rt_cannot_pass_over(figure_2):
    """n3 has AT&T below it, and everybody there needs iphone4s or ipad2."""
    said = ["AT&T", "32GB", "64GB"]
    assert "n3" in candidates(figure_2("rt-tree"), said, RANGE)[0]
    assert "n3" not in candidates(figure_2("rt+-tree", "df"), said, RANGE)[0]


@pytest.mark.parametrize(("spec", "expected"), [("rt-tree", 59), ("rt+-tree", 23)])
def test_example_6_how_many_tokens_there_are(figure_2, spec, expected):
    """59 in Rt and 23 in Rt+ by df: those of all nodes, and those of the subscriptions in the leaves."""
    index = figure_2(spec, "df" if "+" in spec else "")
    of_nodes = sum(len(tokens_of(index, name)) for name in NODES)
    of_leaves = int(index.index._tokens.arrays.list[:, COUNT].sum()) // 2  # each is counted on two levels
    assert expected == of_nodes + of_leaves


def test_example_6_by_idf(figure_2):
    """32GB, verizon and 64GB stand for s1, s2 and s3; n5 has verizon only, and by df iphone4s."""
    index = figure_2("rt+-tree", "idf")
    assert {"32GB", "verizon", "64GB"} == set(tokens_of(index, "n4")) == set(tokens_of(index, "n2"))
    assert ["verizon"] == tokens_of(index, "n5")
    assert "n5" not in candidates(index, SHOP, RANGE)[0]
    assert "n5" in candidates(figure_2("rt+-tree", "df"), SHOP, RANGE)[0]


# Section 5: Rt++


def test_example_7_the_lists(figure_2):
    """The first token of everybody below n2 is in n2, the second in the leaves."""
    index = figure_2("rt++-tree", "idf")
    assert {"verizon": ["s2", "s4", "s5", "s6"], "32GB": ["s1"], "64GB": ["s3"]} == lists_of(index, "n2")
    assert {"iphone4s": ["s4", "s5", "s6"]} == lists_of(index, "n5")


def test_a_leaf_takes_all_tokens_that_are_left(figure_2):
    """Two levels: s8 has AT&T in n3, ipad2 and iphone4s in n6."""
    index = figure_2("rt++-tree", "idf")
    assert "s8" in lists_of(index, "n3")["AT&T"]
    assert {"ipad2": ["s7", "s8"], "iphone4s": ["s8", "s9"], "AT&T": ["s7"]} == lists_of(index, "n6")


def test_property_1_as_often_as_it_has_tokens(figure_2):
    """Everybody is in as many lists as it has tokens, and in one of the first level."""
    index = figure_2("rt++-tree", "idf")
    for name, (tokens, _) in SUBSCRIPTIONS.items():
        times = {node: sum(name in each for each in lists_of(index, node).values()) for node in NODES}
        assert len(tokens.split()) == sum(times.values())
        assert 1 == times["n2"] + times["n3"]


def test_example_8_nothing_below_n2_is_read(figure_2):
    """Of n2 the range message has one token of one subscription, s3, which is elsewhere: n4 and n5 are not read.

    Looked at are the 2 entries of the root, 1 of n2's lists, 3 of n3's, and 5 each of those of n6 and n7.
    """
    index = figure_2("rt++-tree", "idf")
    assert {"64GB"} == set(lists_of(index, "n2")) & set(SHOP)
    assert ["s3"] == lists_of(index, "n2")["64GB"]
    assert 2 + 1 + 3 + 5 + 5 == index.match([(SHOP, RANGE)]).candidates
