"""Named cases that every index must get right: ties, borders, odd words, odd places, odd calls."""

import functools

import numpy as np
import pytest

from contract.conftest import EVERY, kinds_of
from contract.naive import Naive, as_lists, as_pairs
from contract.worlds import EARTH, PLANE, area, point, world
from nearcast.columns import KIND_NAMES, Messages, Subscriptions
from nearcast.errors import NotSupported, UnknownIndex, UnknownSubscription
from nearcast.geo import Box, Circle, Regions, shape_from
from nearcast.indexes import available, create
from nearcast.model import Similar, TopK
from nearcast.query import parse
from nearcast.testing import IndexActor, check_index

pytestmark = [pytest.mark.modes, pytest.mark.small]

UNIT = Box(0, 0, 1, 1)
BEST = TopK(0, place=(0.0, 0.0), terms=("a",), max_distance=1.0)
NEARBY = Similar(0, place=(0.0, 0.0), terms=("a",), threshold=0.9, max_distance=1.0)
#: Enough rows for several cells and segments in the small variants.
FILLER = [(parse(f"filler{i % 7}"), Box(i % 10, i // 10, i % 10 + 1, i // 10 + 1)) for i in range(40)]


def found(index, wanted, said):
    """Return the slots by message of subscriptions put among others, before and after merging; slots count from 0."""
    first = len(index.insert(FILLER))
    slots = index.insert([(parse(query) if isinstance(query, str) else query, region) for query, region in wanted])
    index.insert(FILLER)
    before = as_lists(index.match(said))
    index.settle()
    assert before == as_lists(index.match(said))
    return [[slot - first for slot in each if slot in slots] for each in before]


# Words


#: A query, a text, and whether it holds.
TEXTS = [
    ("coffee", "coffee", True),
    ("coffee", "", False),
    ("coffee", "tea unknown", False),
    ("coffee tea", "tea x coffee", True),
    ("coffee tea", "coffee coffee", False),
    ("coffee coffee", "coffee", True),
    ("coffee", "coffee coffee coffee", True),
    ("coffee OR tea", "tea", True),
    ("coffee OR tea", "coffee tea", True),
    ("coffee OR tea", "milk", False),
    ("coffee NOT tea", "coffee", True),
    ("coffee NOT tea", "tea coffee", False),
    ("NOT tea", "", True),
    ("NOT tea", "coffee", True),
    ("NOT tea", "coffee tea", False),
    ("", "", True),
    ("", "anything", True),
    ("coffee NOT coffee", "coffee", False),
    ('"flat white"', "a flat white please", True),
    ('"flat white"', "white flat", False),
    ('"flat white"', "flat and white", False),
    ('"flat white"', "flat flat white", True),
    ('"flat flat"', "flat", False),
    ('"flat flat"', "flat flat", True),
    ('"flat unknown2 white"', "flat unknown white", False),
    ('coffee NOT "flat white"', "coffee white flat", True),
    ('coffee NOT "flat white"', "coffee flat white", False),
    ('NOT "flat white"', "flat", True),
    ("(coffee OR tea) (milk OR sugar)", "tea sugar", True),
    ("(coffee OR tea) (milk OR sugar)", "tea coffee", False),
    ("coffee NOT (tea OR milk)", "coffee milk", False),
    ("coffee NOT (tea milk)", "coffee milk", True),
]


def test_words(new_index):
    """A message is found by its words exactly as the query says, in text order for phrases."""
    queries, texts = ([*dict.fromkeys(each)] for each in list(zip(*TEXTS, strict=True))[:2])
    holds = [[slot for slot, query in enumerate(queries) if parse(query).holds(text.split())] for text in texts]
    for query, text, expected in TEXTS:
        assert (query, text, expected) == (query, text, queries.index(query) in holds[texts.index(text)])
    said = [(text.split(), point(0.5, 0.5)) for text in texts]
    assert holds == found(new_index(EARTH), [(query, UNIT) for query in queries], said)


def test_unknown_words_do_not_join_a_phrase(new_index):
    """Words no subscription has are alike to an index, but no phrase is made of them."""
    said = [(["x", "y"], point(0, 0)), (["hot", "y", "dog"], point(0, 0)), (["hot", "dog"], point(0, 0))]
    assert [[], [], [0]] == found(new_index(PLANE), [('"hot dog"', UNIT)], said)


def test_phrases_of_words_that_repeat(new_index):
    """Short and long phrases are found where they stand, and only there, in messages full of their beginnings."""
    phrases = [" ".join(["a"] * (size - 1) + ["b"]) for size in (2, 8, 9, 30)]
    wanted = [(query, UNIT) for phrase in phrases for query in (f'"{phrase}"', f'a NOT "{phrase}"')]
    texts = [["a"] * 50 + ["b"], ["a"] * 7 + ["b"] + ["a"] * 50, (["a"] * 8 + ["b"]) * 3, ["b", "a"] * 20]
    expected = [[slot for slot, (query, _) in enumerate(wanted) if parse(query).holds(text)] for text in texts]
    assert expected == found(new_index(PLANE), wanted, [(text, point(0, 0)) for text in texts])


def test_words_that_came_after_the_subscriptions(new_index):
    """Terms beyond those of any subscription are unknown words."""
    index = new_index(PLANE, add_words=True)
    many = [f"later{i}" for i in range(2000)]
    assert [[0, 1]] == found(index, [("a", UNIT), ("NOT b", UNIT)], [([*many, "a"], point(0, 0))])


def test_a_message_of_a_thousand_words(new_index):
    """Long messages find the same, also right after short ones."""
    wanted = [(f"word{i} word{999 - i}", UNIT) for i in range(20)] + [
        ("word1 absent", UNIT),
        ('"word998 word999"', None),
    ]
    long = [f"word{i}" for i in range(1000)]
    said = [(["word0"], point(0, 0)), (long, point(0, 0)), (long, point(9, 9)), (["word0", "word999"], point(0, 0))]
    assert [[], [*range(20), 21], [21], [0]] == found(new_index(PLANE), wanted, said)


def test_the_rarest_term_shared_by_many(new_index):
    """A thousand subscriptions may wait for one term: all are found, in order."""
    index = new_index(PLANE)
    slots = index.insert([(parse("same"), Box(i % 40, i // 40, i % 40 + 1, i // 40 + 1)) for i in range(1000)])
    index.settle()
    said = [(["same"], point(5.5, 5.5)), (["same"], point(5, 5)), (["same"], (-1, -1, 99, 99))]
    assert [[205], [164, 165, 204, 205], slots] == as_lists(index.match(said))


# Order


def test_equal_subscriptions_are_found_in_order_of_registration(new_index):
    """Ties go by slot, ascending, each once, whatever was replaced or moved in between."""
    index = new_index(PLANE)
    slots = index.insert([(parse("a"), UNIT)] * 40)
    index.replace(slots[5:7], [(parse("a OR b"), UNIT)] * 2)
    index.move(slots[:3], [UNIT] * 3)
    index.settle()
    index.replace([slots[30], slots[2]], [(parse("b OR a"), Box(0, 0, 9, 9))] * 2)
    matches = index.match([(["b", "a", "a"], point(1, 1)), (["a"], (0, 0, 5, 5))])
    assert [slots, slots] == as_lists(matches)
    assert [1.0] * 80 == matches.score.tolist()
    assert [0] * 40 + [1] * 40 == matches.rows().tolist()


def test_slots_ascend_and_are_never_used_again(new_index):
    """A removed slot stays free for ever, so slots are the order of registration."""
    index = new_index(PLANE)
    assert [0, 1] == index.insert([(parse("a"), UNIT)] * 2)
    index.remove([1])
    assert [2] == index.insert([(parse("a"), UNIT)])
    index.remove([0, 2])
    assert [] == index.insert([])
    assert [3, 4] == index.insert([(parse("a"), UNIT)] * 2)
    assert [[3, 4]] == as_lists(index.match([(["a"], point(0, 0))]))


# Places

NORTH_EAST = float(EARTH.distance(10, 10, 11, 10))
HOLED = area([(0, 0), (9, 0), (9, 9), (0, 9), (0, 0)], [(3, 3), (6, 3), (6, 6), (3, 6), (3, 3)])
FIJI = shape_from({"type": "Polygon", "coordinates": [[[170, -20], [-170, -20], [-170, -10], [170, -10], [170, -20]]]})
TWO_SIDES = shape_from(
    {
        "type": "MultiPolygon",
        "coordinates": [[[[170, 0], [-170, 0], [-170, 9], [170, 9], [170, 0]]], [[[0, 0], [1, 0], [1, 1], [0, 0]]]],
    }
)


#: A region, points of it, and points beside it.
BORDERS = [
    (
        PLANE,
        Box(0, 0, 2, 1),
        [(0, 0), (2, 1), (0, 1), (1, 0), (2, 0.5)],
        [(-1e-9, 0), (2.000001, 1), (1, 1.000001)],
    ),
    (PLANE, Box(1, 1, 1, 1), [(1, 1)], [(1, 1.0000001), (0.9999999, 1)]),
    (PLANE, Box(1, 0, 1, 5), [(1, 0), (1, 5), (1, 3)], [(1.0000001, 3), (1, 5.0000001)]),
    (PLANE, Circle(0, 0, 5), [(5, 0), (3, 4), (-4, -3), (0, 0)], [(5.0000001, 0), (3.0000001, 4), (4, 4)]),
    (PLANE, Circle(2, 2, 0), [(2, 2)], [(2, 2.0000001)]),
    (PLANE, HOLED, [(0, 0), (9, 4), (3, 3), (3, 4), (6, 6), (1, 1)], [(4, 4), (5.999, 5.999), (9.0001, 4)]),
    (EARTH, Box(0, 0, 2, 1), [(0, 0), (2, 1)], [(2.0000001, 1), (180, 0)]),
    (EARTH, Circle(10, 10, NORTH_EAST), [(11, 10), (9, 10), (10, 10)], [(11.00001, 10), (11, 11)]),
    (EARTH, Circle(10, 10, 0), [(10, 10)], [(10, 10.0000001)]),
    (EARTH, HOLED, [(0, 0), (9, 4), (3, 3), (3, 4), (6, 6), (1, 1)], [(4, 4), (5.999, 5.999), (9.0001, 4)]),
    (
        EARTH,
        Box(170, -20, -170, -10),
        [(170, -20), (180, -15), (-180, -15), (-170, -10)],
        [(169, -15), (-169, -15)],
    ),
    (EARTH, Box(170, -20, 180, -10), [(170, -20), (180, -15)], [(-180, -15)]),
    (EARTH, Circle(179.5, 0, 111_195), [(180, 0), (-180, 0), (-179.6, 0), (178.6, 0)], [(-179.4, 0), (178.4, 0)]),
    (EARTH, FIJI, [(170, -20), (175, -15), (-175, -15), (180, -15), (-180, -15)], [(0, -15), (169.9, -15)]),
    (EARTH, TWO_SIDES, [(175, 5), (-175, 5), (1, 1), (0.5, 0.25)], [(0, 1), (169, 5), (-169, 5)]),
    (EARTH, Circle(0, 89, 300_000), [(0, 90), (77, 90), (180, 89), (-180, 89), (90, 88.9)], [(180, 88), (0, 86)]),
    (EARTH, Circle(30, -90, 111_196), [(0, -90), (180, -89), (-180, -89), (45, -89)], [(45, -88.9)]),
    (EARTH, Box(-180, 90, 180, 90), [(0, 90), (-180, 90), (180, 90)], [(0, 89.9999)]),
    (EARTH, Box(-180, -90, 180, 90), [(0, 0), (180, 90), (-180, -90)], []),
    (EARTH, None, [(0, 0), (180, 90), (-180, -90)], []),
    (PLANE, None, [(0, 0), (1e300, -1e300)], []),
]


@pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])
def test_borders_are_inside(new_index, space):
    """A point on an edge, a corner, a radius, a hole's edge or a pole is inside; the next one outside is not."""
    cases = [(region, inside, outside) for where, region, inside, outside in BORDERS if where == space]
    assert_touched(new_index(space), [(region, *map(points, some)) for region, *some in cases])


def points(places):
    return [point(*at) for at in places]


def assert_touched(index, cases):
    """Each case is a region, places that it touches, and others: by a word of its own, by one of all, and by none."""
    wanted, said = [], []
    for number, (region, touching, apart) in enumerate(cases):
        queries = (f"only{number}", "a", "a OR b" if region is None else "NOT b")
        wanted += [(query, region) for query in queries]
        said += [(["a", f"only{number}"], place) for place in (*touching, *apart)]
    slots = iter(found(index, wanted, said))
    for number, (region, touching, apart) in enumerate(cases):
        own = range(3 * number, 3 * number + 3)
        for place, is_touched in [*((each, True) for each in touching), *((each, False) for each in apart)]:
            expected = [*own] if is_touched else []
            assert (region, place, expected) == (region, place, [slot for slot in next(slots) if slot in own])


#: A region, rectangles that touch it, and rectangles beside it.
RECTANGLES = [
    (PLANE, Box(0, 0, 2, 2), [(2, 2, 3, 3), (1, -5, 1, 5), (-5, 1, 5, 1), (-9, -9, 9, 9)], [(2.1, 0, 3, 2)]),
    (PLANE, Circle(0, 0, 5), [(3, 4, 9, 9), (-9, -9, 9, 9), (5, -1, 6, 1)], [(3.1, 4, 9, 9), (4, 4, 5, 5)]),
    (PLANE, HOLED, [(3, 3, 3, 3), (4, 4, 6, 5), (-1, -1, 20, 20)], [(4, 4, 5, 5), (9.1, 0, 10, 9)]),
    (EARTH, Box(170, -20, -170, -10), [(175, -15, -175, -12), (-170, -10, 0, 0)], [(-169, -20, 169, -10)]),
    (EARTH, Box(170, -20, -170, -10), [(160, -15, 170, -15), (-180, -90, 180, 90)], [(-169, -90, 169, 90)]),
    (EARTH, Box(-180, -1, -179.9, 1), [(179, 0, -179.95, 0), (179, 0, -180, 0)], [(-179.8, 0, 180, 0)]),
    (EARTH, Box(179.9, -1, 180, 1), [(179.95, 0, -179, 0), (180, 0, -179, 0)], [(-180, 0, 179.8, 0)]),
    (EARTH, Box(-10, -10, 10, 10), [(-180, -90, 180, 90), (10, 0, -10, 0), (179, -9, -9, 9)], [(11, -9, -11, 9)]),
    (EARTH, Circle(180, 0, 2e5), [(179, 0, -179, 1), (-180, 0, -170, 5), (-180, -90, 180, 90)], [(-178, 0, 9, 5)]),
    (EARTH, Circle(0, 90, 111_196), [(10, 89, 20, 90), (-180, 80, 180, 89), (179, 89, -179, 89)], [(0, 80, 9, 88)]),
    (EARTH, FIJI, [(179, -15, -179, -12), (-180, -90, 180, 90), (-171, -11, 0, 0)], [(-169, -20, 169, -10)]),
    (EARTH, FIJI, [(160, -15, 170, -15), (-170, -15, -160, -15)], [(170, 0, -170, 5), (-169, -90, 169, 90)]),
    (EARTH, None, [(-180, -90, 180, 90), (179, 0, -179, 0)], []),
]  # fmt: skip


@pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])
def test_rectangle_messages(new_index, space):
    """A rectangle that shares one point with the region is found: corners, crossings, containment, the dateline."""
    assert_touched(new_index(space), [case for where, *case in RECTANGLES if where == space])


def test_a_subscription_met_in_many_cells_is_found_once(new_index):
    """A rectangle message over several cells, clauses and sides of the dateline gives each slot once."""
    wanted = [("a OR b OR c", Box(170, -9, -170, 9)), ("a OR b", Circle(180, 0, 900_000)), ('"a b" OR c', FIJI)]
    said = [(["c", "a", "b", "a"], (-180, -90, 180, 90)), (["c", "a", "b"], (169, -30, -169, 30))]
    assert [[0, 1, 2], [0, 1, 2]] == found(new_index(EARTH), wanted, said)


def test_coordinates_as_large_and_as_small_as_floats_go(new_index):
    """Nothing overflows on a plane, not even in the warnings of NumPy."""
    tiny, huge = 5e-324, 1.7e308
    wanted = [
        ("a", Box(-huge, -huge, huge, huge)),
        ("a", Box(0, 0, tiny, tiny)),
        ("a", Box(huge, huge, huge, huge)),
    ] * 6
    index = new_index(PLANE)
    index.insert([(parse(query), region) for query, region in wanted])
    index.settle()
    said = [(["a"], point(0, 0)), (["a"], point(tiny, tiny)), (["a"], point(huge, huge)), (["a"], point(1, 1))]
    kinds = [[slot % 3 for slot in each[:3]] for each in as_lists(index.match(said))]
    assert [[0, 1, 0], [0, 1, 0], [0, 2, 0], [0, 0, 0]] == kinds


# Calls


def test_an_empty_index_matches_nothing(new_index):
    """No subscriptions, no matches, one list for every message."""
    index = new_index(EARTH)
    assert [[], []] == as_lists(index.match([(["a"], point(0, 0)), ([], (-180, -90, 180, 90))]))
    assert 0 == len(index.index) == index.index.stats()["subscriptions"]
    check_index(index.index)


def test_an_emptied_index_matches_nothing(new_index):
    """Removing everything leaves nothing behind, before and after merging."""
    index = new_index(EARTH)
    index.remove(index.insert(FILLER))
    said = [(["filler0"], (-180, -90, 180, 90))]
    assert [[]] == as_lists(index.match(said))
    index.settle()
    assert [[]] == as_lists(index.match(said))
    assert 0 == len(index.index)
    check_index(index.index)


def test_an_empty_batch(new_index):
    """No messages give no lists."""
    index = new_index(EARTH)
    index.insert(FILLER)
    matches = index.match([])
    assert 0 == len(matches) == len(matches.slots)
    assert [0] == matches.start.tolist()


def test_calls_with_no_slots_change_nothing(new_index):
    """Inserting, removing, replacing, moving and asking for nothing is allowed, also in an empty index."""
    index = new_index(EARTH)
    for _ in range(2):
        assert [] == index.insert([])
        index.remove([])
        index.replace([], [])
        index.move([], [])
        assert 0 == len(index.index.subscriptions(np.empty(0, np.int32)))
        index.insert(FILLER)
    assert 2 * len(FILLER) == len(index.index)


@pytest.mark.parametrize("verb", ["remove", "replace", "move", "subscriptions"])
def test_a_slot_that_is_not_alive(new_index, verb):
    """Naming one raises UnknownSubscription and changes nothing, not even the slots named before it."""
    index = new_index(PLANE)
    index.insert([(parse("a"), UNIT)] * 4)
    index.remove([2])
    for slots in ([2], [0, 2], [99], [-1], [1, 40]):
        others = [(parse("b"), Box(5, 5, 6, 6))] * len(slots)
        calls = {
            "remove": lambda s=slots: index.remove(s),
            "replace": lambda s=slots, o=others: index.replace(s, o),
            "move": lambda s=slots, o=others: index.move(s, [region for _, region in o]),
            "subscriptions": lambda s=slots: index.index.subscriptions(np.array(s, np.int32)),
        }
        with pytest.raises(UnknownSubscription, match=f"slot {slots[-1]} "):
            calls[verb]()
        assert 3 == len(index.index)
        assert [[0, 1, 3]] == as_lists(index.match([(["a", "b"], (0, 0, 9, 9))]))
        check_index(index.index)


@pytest.mark.parametrize("verb", ["remove", "replace", "move"])
def test_a_slot_named_twice(new_index, verb):
    """Naming a slot twice in a call raises ValueError and changes nothing."""
    index = new_index(PLANE)
    index.insert([(parse("a"), UNIT)] * 3)
    calls = {
        "remove": lambda: index.remove([1, 0, 1]),
        "replace": lambda: index.replace([1, 0, 1], [(parse("b"), UNIT)] * 3),
        "move": lambda: index.move([1, 0, 1], [None] * 3),
    }
    with pytest.raises(ValueError, match="twice"):
        calls[verb]()
    assert [[0, 1, 2], []] == as_lists(index.match([(["a"], point(0, 0)), (["a"], point(9, 9))]))


def test_a_slot_number_beyond_32_bits(new_index):
    """A number that would wrap around to a live slot is unknown."""
    index = new_index(PLANE)
    index.insert([(parse("a"), UNIT)])
    with pytest.raises((UnknownSubscription, ValueError, OverflowError)):
        index.index.remove(np.array([1 << 32]))
    assert 1 == len(index.index)


def test_fewer_subscriptions_than_slots(new_index):
    """Slots and subscriptions that do not pair raise ValueError and change nothing."""
    index = new_index(PLANE)
    index.insert([(parse("a"), UNIT)] * 3)
    with pytest.raises(ValueError, match="3 slots"):
        index.replace([0, 1, 2], [(parse("b"), UNIT)] * 2)
    with pytest.raises(ValueError, match="1 slots"):
        index.replace([0], [(parse("b"), UNIT)] * 2)
    with pytest.raises(ValueError, match=r"slots|regions"):
        index.move([0, 1], [UNIT])
    assert [[0, 1, 2]] == as_lists(index.match([(["a"], point(0, 0))]))


REFUSED = [(spec, kind) for spec in EVERY for kind in KIND_NAMES if kind not in create(spec, PLANE).info.kinds]


@pytest.mark.parametrize(("spec", "kind"), REFUSED)
def test_kinds_it_cannot_hold_are_refused(spec, kind):
    """An index says so of a kind that it does not match, in whatever call, and changes nothing."""
    index = IndexActor(create(spec, PLANE))
    kept = {"within": (parse("a"), UNIT), "similar": NEARBY, "topk": BEST}[kinds_of(spec)[0]]
    index.insert([kept])
    columns = index.subscriptions([NEARBY, (parse("b"), UNIT) if kind == "within" else NEARBY])
    columns.kind[:] = KIND_NAMES.index(index.index.info.kinds[0]), KIND_NAMES.index(kind)
    with pytest.raises(NotSupported, match=f"row 1 is of kind '{kind}'"):
        index.index.insert(columns)
    with pytest.raises(NotSupported, match=f"row 0 is of kind '{kind}'"):
        index.index.replace(np.array([0]), columns.take(np.array([1])))
    assert 1 == len(index.index) == index.index.n_slots
    assert [[0], []] == as_lists(index.match([(["a"], point(0, 0)), (["b"], point(5, 5))]))
    assert [1] == index.insert([kept])
    check_index(index.index)


def test_explain_tells_in_lines(new_index):
    """Every index explains its answer for a live slot, matched or not, in plain lines."""
    index = new_index(PLANE)
    index.insert([(parse("a b"), UNIT), (parse("a OR b NOT c"), Circle(5, 5, 1)), *FILLER])
    index.settle()
    messages = index.messages([(["a", "b"], point(0, 0)), (["b"], point(9, 9))])
    for slot in (0, 1):
        for row in (0, 1):
            lines = index.index.explain(messages, row, slot)
            assert lines
            assert all(isinstance(line, str) and "\n" not in line for line in lines)


# Batches


@functools.cache
def batch_of(space):
    """Return subscriptions, messages, and what the first of them find by the definition."""
    wanted, said = world(7, space, 90, 150)
    naive = Naive(space)
    naive.insert(wanted)
    return wanted, said, naive.match(said[:20])


@pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])
def test_a_batch_is_its_messages_one_by_one(new_index, space):
    """A batch large enough to be searched place by place answers each message as alone, in message order."""
    wanted, said, expected = batch_of(space)
    index = new_index(space)
    index.insert(wanted)
    index.settle()
    together = as_pairs(index.match(said))
    assert [as_pairs(index.match([each]))[0] for each in said] == together
    assert expected == together[: len(expected)]


def test_threads_give_the_same_answer(new_index, interpreted):
    """`threads=2` and `threads=1` agree on a batch of more than 4,096 messages with polygons and circles."""
    wanted, said = world(11, EARTH, 80, 300)
    index = new_index(EARTH)
    index.insert(wanted)
    index.settle()
    index.insert(wanted[:5])
    messages = index.messages(said * (2 if interpreted else 14))
    found = index.index.match(messages, threads=2)
    assert index.index.match(messages, threads=1) == found
    assert as_lists(index.match(said)) == as_lists(found)[-len(said) :]


def test_more_matches_than_the_first_room_holds(new_index, interpreted):
    """Tens of thousands of matches in one call come out whole, for boxes, circles and polygons, in any component."""
    n = 100 if interpreted else 700
    index = new_index(PLANE)
    slots = index.insert([(parse("a"), Box(0, 0, i + 1, 5)) for i in range(n)])
    slots += index.insert([(parse("a"), Circle(0, 0, i + 5)) for i in range(n)])
    slots += index.insert([(parse("a"), HOLED), (parse("NOT b"), HOLED)] * (n // 4))
    index.settle()
    slots += index.insert([(parse("a"), HOLED), (parse("a"), UNIT)] * 2)
    said = [(["a"], point(1, 1))] * 40
    assert [slots] * 40 == as_lists(index.match(said))


def test_matches_compare_by_what_was_found():
    """Counts of work take no part in equality; slots, order and messages do."""
    index = IndexActor(create("trigger", PLANE))
    index.insert(FILLER)
    scan = IndexActor(create("scan", PLANE))
    scan.insert(FILLER)
    one, other = index.match([(["filler0"], point(0, 0))]), scan.match([(["filler0"], point(0, 0))])
    assert one == other
    assert one.candidates != other.candidates
    assert one != index.match([(["filler0"], point(9, 9))])
    assert one != [0]


# The registry


def test_every_index_is_registered_with_its_options():
    """Names are unique and sorted, options make an index, JSON rows have the documented keys."""
    names = [info.name for info in available()]
    assert sorted(set(names)) == names
    assert {"scan", "trigger"} <= set(names)
    for info in available():
        spec = info.name + ":" + ",".join(f"{key}={value}" for key, value in info.options.items())
        assert info.name == create(spec, PLANE).info.name
        assert ["name", "kinds", "paper", "options"] == list(info.as_json())


@pytest.mark.parametrize(
    "spec", ["trgger", "", "trigger:leafs=3", "trigger:few", "trigger:few=many", "scan:few=1", "trigger:few=1.5"]
)
def test_an_index_that_cannot_be_made(spec):
    """An unknown name, option or value is told in one line that says what there is."""
    with pytest.raises(UnknownIndex) as error:
        create(spec, PLANE)
    assert "\n" not in str(error.value)
    assert any(word in str(error.value) for word in ("trigger", "option"))


@pytest.mark.parametrize(
    "spec", ["trigger:delta_rows=0", "trigger:delta_rows=-1", "trigger:leaf_rows=0", "trigger:few=-1"]
)
def test_options_out_of_range(spec):
    """A senseless value is refused, or works."""
    try:
        index = IndexActor(create(spec, PLANE))
    except UnknownIndex:
        return
    for _ in range(3):
        index.insert(FILLER)
    index.settle()
    assert 3 == len(as_lists(index.match([(["filler0"], point(0.5, 0.5))]))[0])


def test_columns_made_by_hand():
    """Lists and arrays of any integer type make columns."""
    regions = Regions.from_shapes([UNIT, None], PLANE)
    columns = Subscriptions.of(np.array([0, 1, 2]), np.array([0, 1, 2]), np.array([0, 0]), regions)
    index = create("trigger", PLANE)
    assert [0, 1] == index.insert(columns).tolist()
    messages = Messages.of([0, 1, 1], [0], [[0, 0, 0, 0], [0, 0, 0, 0]])
    assert [[0, 1], []] == as_lists(index.match(messages))
