"""The worked example of the Rt-tree paper (Li, Wang, Wang, Feng: KDD 2013, Figure 1 and Examples 1 to 8).

The figure itself is lost to us: tokens are those its text names or lets infer, rectangles are our own, placed so that
every statement of the text about overlap holds.
"""

import pytest

from contract.conftest import SPECS
from contract.naive import as_lists
from nearcast.geo import Box, Space
from nearcast.indexes import create
from nearcast.query import And, Word
from nearcast.testing import IndexActor

pytestmark = pytest.mark.modes

SUBSCRIPTIONS = {
    # Leaf n4: apart from both rectangle messages.
    "s1": ("32GB iphone4s", Box(0, 8, 2, 9)),
    "s2": ("verizon iphone4s", Box(1, 8, 3, 10)),
    "s3": ("64GB ipad2", Box(0, 9, 1, 10)),
    # Leaf n5: touches them, and has no token of theirs but iphone4s.
    "s4": ("verizon iphone4s", Box(4, 5, 6, 7)),
    "s5": ("verizon iphone4s", Box(3, 6, 5, 8)),
    "s6": ("verizon iphone4s", Box(5, 6, 7, 7)),
    # Leaf n6: s7 is apart, s8 touches the rectangle and not the point.
    "s7": ("AT&T ipad2", Box(0, 0, 2, 1)),
    "s8": ("AT&T ipad2 iphone4s", Box(3, 2, 5, 4)),
    "s9": ("verizon iphone4s", Box(4, 1, 6, 3)),
    # Leaf n7: all three hold the point.
    "s10": ("32GB AT&T iphone4s", Box(6, 3, 9, 6)),
    "s11": ("AT&T iphone4s", Box(5, 4, 8, 6)),
    "s12": ("64GB ipad2", Box(7, 2, 9, 5)),
}
POINT, RANGE = (7.5, 4.5, 7.5, 4.5), (4.0, 2.0, 8.0, 6.0)
SHOP = ["iphone4s", "ipad2", "AT&T", "64GB"]


@pytest.fixture(params=SPECS)
def figure(request):
    """The twelve subscriptions in an index. Tokens are terms taken as they are: AT&T is one."""
    index = IndexActor(create(request.param, Space.plane()))
    index.insert([(And(tuple(map(Word, tokens.split()))), region) for tokens, region in SUBSCRIPTIONS.values()])
    index.settle()
    return index


def answers(index, tokens, place):
    names = list(SUBSCRIPTIONS)
    return [names[slot] for slot in as_lists(index.match([(tokens, place)]))[0]]


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
    everywhere = (0.0, 0.0, 10.0, 10.0)
    assert [] == answers(figure, ["AT&T", "32GB", "64GB"], everywhere)


def test_a_message_inside_and_one_around_a_subscription(figure):
    """Overlap is of intervals: the paper's vertex test misses a message inside a subscription, and a crossing one."""
    assert ["s8"] == answers(figure, SHOP, (3.5, 2.5, 4.5, 3.5))
    assert ["s8"] == answers(figure, SHOP, (3.5, 0.0, 4.5, 10.0))
    assert ["s3", "s7", "s8", "s11", "s12"] == answers(figure, SHOP, (-1.0, -1.0, 11.0, 11.0))
