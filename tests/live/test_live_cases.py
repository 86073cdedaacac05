"""Live stores case by case: borders, the dateline, poles, the moment of expiry, words that come late, and bad calls."""

import math

import numpy as np
import pytest

from nearcast.errors import InvalidColumns, UnknownIndex
from nearcast.geo import Box, Circle
from nearcast.live.registry import live_store
from nearcast.model import Similar, TopK
from nearcast.query import parse

pytestmark = pytest.mark.modes

LONG = 1000
RAMEN = parse("ramen")


def at(x, y):
    return (x, y, x, y)


def arrivals(found):
    return [[arrival for arrival, _ in row] for row in found]


def steps(found):
    """Return what a move of one subscription tells: + or -, and the arrival."""
    (row,) = found
    return [("-+"[enters], arrival) for enters, arrival, _ in row]


def test_border_is_inside_before_and_after(plane):
    """A message on the border is relevant: coming to touch it is +, to keep touching it nothing, to part from it -."""
    plane.append([(("ramen",), at(10.0, 5.0))], [LONG])
    left, on, beyond = Box(0, 0, 9, 9), Box(1, 0, 10, 9), Box(10, 0, 19, 9)
    assert [("+", 0)] == steps(plane.moved([(RAMEN, left)], [on]))
    assert [] == steps(plane.moved([(RAMEN, on)], [beyond]))
    assert [("-", 0)] == steps(plane.moved([(RAMEN, beyond)], [Box(math.nextafter(10, 11), 0, 20, 9)]))
    assert [("+", 0)] == steps(plane.moved([(RAMEN, Circle(0, 5, 9.5))], [Circle(0, 5, 10.0)]))
    assert [("-", 0)] == steps(plane.moved([(RAMEN, Circle(0, 5, 10.0))], [Circle(-1e-9, 5, 10.0)]))


def test_message_in_the_hull_of_both_regions_and_in_neither(plane):
    """What was only crossed between two places is not told."""
    plane.append([(("ramen",), at(5.0, 0.0))], [LONG])
    assert [] == steps(plane.moved([(RAMEN, Circle(0, 0, 1))], [Circle(10, 0, 1)]))


def test_dateline(earth):
    """A region that crosses the dateline holds both its sides; one that ends at 180 does not hold -180."""
    earth.append([(("ramen",), at(lon, 0.0)) for lon in (179.5, 180.0, -180.0, -179.5)], [LONG] * 4)
    assert [[3, 6, 9]] == arrivals(earth.relevant([(RAMEN, Box(179.9, -1, -179, 1))]))
    before, after = Box(170, -1, 180, 1), Box(171, -1, -179, 1)
    assert [[0, 3]] == arrivals(earth.relevant([(RAMEN, before)]))
    assert [("+", 6), ("+", 9)] == steps(earth.moved([(RAMEN, before)], [after]))
    assert [("-", 0)] == steps(earth.moved([(RAMEN, Circle(180, 0, 56_000))], [Circle(-179.9, 0, 56_000)]))


def test_message_across_the_dateline(earth):
    earth.append([(("ramen",), (179.0, -1.0, -179.0, 1.0))], [LONG])
    assert [[0], [0], []] == arrivals(
        earth.relevant([(RAMEN, Box(170, 0, 179, 0)), (RAMEN, Circle(-178.9, 0, 12_000)), (RAMEN, Box(0, 0, 178, 0))])
    )


def test_pole(earth):
    """A circle that holds a pole holds messages on every meridian."""
    earth.append([(("ramen",), at(lon, 89.5)) for lon in (-180.0, -90.0, 0.0, 135.0)], [LONG] * 4)
    over, beside = Circle(40, 89.9, 70_000), Circle(40, 89.0, 80_000)
    assert [[0, 3, 6, 9], [6]] == arrivals(earth.relevant([(RAMEN, over), (RAMEN, beside)]))
    assert [("-", 0), ("-", 3), ("-", 9)] == steps(earth.moved([(RAMEN, over)], [beside]))
    earth.append([(("ramen",), at(77.0, 90.0))], [LONG])
    assert [[12]] == arrivals(earth.relevant([(RAMEN, Circle(-3, 90, 0.0))]))


def test_zero_radius(plane, earth):
    """A circle without extent holds the point that it is, and a box without extent as well."""
    for model in (plane, earth):
        model.append([(("ramen",), at(3.0, 4.0))], [LONG])
        assert [[0], []] == arrivals(model.relevant([(RAMEN, Circle(3, 4, 0)), (RAMEN, Circle(3.001, 4, 0))]))
        assert [("-", 0)] == steps(model.moved([(RAMEN, Box(3, 4, 3, 4))], [Box(3, 4.5, 3, 4.5)]))


def test_expires_at_the_very_step(plane):
    """Alive is now < expires: at the moment itself a message is neither relevant nor named by a -."""
    plane.append([(("ramen",), at(0.0, 0.0)), (("ramen",), at(0.0, 0.0))], [10, 11])
    here, away = (RAMEN, Box(0, 0, 1, 1)), Box(5, 5, 6, 6)
    assert [[0, 3], [3], []] == arrivals(plane.relevant([here] * 3, [9, 10, 11]))
    assert [[0, 3], [3], []] == [
        [arrival for _, arrival, _ in row] for row in plane.moved([here] * 3, [away] * 3, [9, 10, 11])
    ]
    assert [] == plane.store.expired(9).tolist()
    assert [0] == plane.store.expired(10).tolist()
    assert 10 == plane.store.next_expiry
    plane.drop(10)
    assert 1 == len(plane.store)
    assert [[3]] == arrivals(plane.relevant([here], [0]))
    plane.append([(("ramen",), at(0.0, 0.0))], [10 + 1])
    plane.drop(11)
    assert [[]] == arrivals(plane.relevant([here]))


def test_what_ends_is_named_by_expiry_then_arrival(plane):
    plane.append([((), at(0.0, 0.0))] * 5, [9, 7, 9, 7, 30])
    assert [3, 9, 0, 6] == plane.store.expired(9).tolist()
    assert [7, 7, 9, 9] == plane.store.expires(plane.store.expired(9)).tolist()


def test_word_first_used_after_the_message_came(plane):
    """A message keeps words that no subscription has yet, in order."""
    plane.append([(("fresh", "ramen", "downtown"), at(0.0, 0.0))], [LONG])
    assert 0 == len(plane.terms)
    anywhere = [(parse(text), None) for text in ("ramen", '"fresh ramen"', '"ramen fresh"', "ramen AND NOT downtown")]
    assert [[0], [0], [], []] == arrivals(plane.relevant(anywhere))
    assert [[0]] == arrivals(plane.relevant([(parse("NOT sold"), Box(-1, -1, 1, 1))]))


def test_other_numbers_of_terms_mean_the_same_words(plane):
    """Subscriptions whose words were renumbered, and a store that forgot words, find what they found before."""
    plane.append([(("old", "words"), at(0.0, 0.0))], [2])
    plane.append([(("ramen", "soup"), at(0.0, 0.0))], [LONG])
    wanted = [(parse("ramen soup"), None), (parse("old OR soup"), None)]
    assert [[3], [0, 3]] == arrivals(plane.relevant(wanted))
    plane.other_terms()
    assert [[3], [0, 3]] == arrivals(plane.relevant(wanted))
    plane.drop(2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nearcast.live.stored._SPARE_ROWS", -1)
        patch.setattr("nearcast.live.stored._SPARE_WORDS", -1)
        plane.store._word_limit = 0
        plane.store.tidy()
    assert 2 == len(plane.store.word_table)
    assert [[3], [3]] == arrivals(plane.relevant(wanted))


def test_scores_count_all_words_of_a_message_under_the_present_weights(plane):
    """Jaccard weighs words that the subscription lacks, by the vocabulary that was set last."""
    asks = {"place": (0, 0), "terms": ("ramen",), "text_weight": 1.0, "threshold": 0.5, "max_distance": 1.0}
    wanted = [Similar(0, similarity="jaccard", **asks)]
    plane.append([(("ramen", "soup"), at(0.0, 0.0))], [LONG])
    assert [[(0, 0.5)]] == plane.relevant(wanted)
    plane.reweigh({"soup": 3.0})
    assert [[]] == plane.relevant(wanted)
    plane.reweigh({"soup": 0.25})
    assert [[(0, 0.8)]] == plane.relevant(wanted)


def test_mere_change_of_score_says_nothing(plane):
    def similar(x):
        return Similar(0, place=(x, 0), terms=("ramen",), text_weight=0.5, threshold=0.6, max_distance=10.0)

    plane.append([(("ramen",), at(0.0, 0.0))], [LONG])
    assert [] == steps(plane.moved([similar(0.0)], [Box(7, 0, 7, 0)]))
    assert [[(0, 0, 0.65)]] == [
        [(enters, arrival, round(score, 9)) for enters, arrival, score in row]
        for row in plane.moved([similar(7.0)], [Box(9, 0, 9, 0)])
    ]
    assert [[(1, 0, 1.0)]] == plane.moved([similar(9.0)], [Box(0, 0, 0, 0)])


def test_topk_looks_at_its_window_alone(plane):
    plane.append([(("ramen",), at(0.0, 0.0))], [LONG])
    assert [[]] == plane.relevant([TopK(0, place=(0, 0), terms=("ramen",), max_distance=9.0)])


def test_replaced_by_other_words(plane):
    """Other words, and another kind, tell what matched only before and what matches only after."""
    plane.append([(("ramen",), at(0.0, 0.0)), (("soup", "ramen"), at(0.0, 0.0)), (("soup",), at(0.0, 0.0))], [LONG] * 3)
    here = Box(0, 0, 1, 1)
    assert [("-", 0), ("+", 6)] == steps(plane.difference([(RAMEN, here)], [(parse("soup"), here)]))
    similar = Similar(0, place=(0, 0), terms=("soup",), text_weight=0.5, threshold=0.9, max_distance=1.0)
    assert [("-", 0), ("+", 6)] == steps(plane.difference([(RAMEN, here)], [similar]))


def test_ids_keep_their_type(plane):
    plane.append([((), at(0.0, 0.0))] * 3, [LONG] * 3)
    plane.append([], [])
    assert [-5, "m9-1", -3] == plane.store.ids(np.array([0, 3, 6])).tolist()


def test_messages_come_back_as_an_index_takes_them(plane):
    """Words are terms of subscriptions, -1 where none has the word; an arrival that is not there is an error."""
    plane.columns([(parse("ramen soup"), None)])
    plane.append([(("hot", "ramen"), at(1.0, 2.0)), (("soup",), at(3.0, 4.0))], [LONG, LONG])
    found = plane.store.messages(np.array([3, 0]))
    assert [1, -1, 0] == found.terms.tolist()
    assert [[3, 4, 3, 4], [1, 2, 1, 2]] == found.box.tolist()
    assert [[1.0, 1.0], [2.0, 2.0]] == found.totals[:, :2].tolist()
    for stranger in (1, 99, -1):
        with pytest.raises(IndexError):
            plane.store.messages(np.array([stranger]))


def test_bad_batches_change_nothing(plane):
    plane.append([(("ramen",), at(0.0, 0.0))], [LONG])
    batch = plane._encoded([(("ramen",), at(0.0, 0.0))] * 2)
    with pytest.raises(InvalidColumns, match="live_terms"):
        plane.store.append(type(batch)(**{**vars(batch), "live_terms": None}), np.array([5, 6]), np.array([9, 9]))
    for arrival in ([0, 1], [6, 5], [7, 7]):
        with pytest.raises(ValueError, match="ascend"):
            plane.store.append(batch, np.array(arrival), np.array([9, 9]))
    assert [[0]] == arrivals(plane.relevant([(RAMEN, None)]))


def test_rewound_store_is_as_it_was(plane):
    """Whatever came since the mark is undone: arrivals, what was dropped, and its memory, and other weights."""
    wanted = [(RAMEN, Box(0, 0, 9, 9))]
    plane.append([(("ramen",), at(x, 0.0)) for x in range(9)], [5] * 5 + [LONG] * 4)
    before, mark = plane.relevant(wanted), plane.store.mark()
    plane.store.append(plane._encoded([(("ramen", "more"), at(1.0, 1.0))]), np.array([99]), np.array([LONG]))
    plane.store.drop(5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nearcast.live.stored._SPARE_ROWS", -9)
        plane.store.tidy()
    assert 5 == len(plane.store)
    plane.store.rewind(mark)
    assert 9 == len(plane.store)
    assert before == plane.relevant(wanted)
    plane.append([(("ramen",), at(2.0, 2.0))], [LONG])
    assert [[*arrivals(before)[0], 27]] == arrivals(plane.relevant(wanted))


def test_stats(plane):
    plane.append([(("ramen",), at(0.0, 0.0))], [LONG])
    stats = plane.store.stats()
    assert (1, 1) == (stats["messages"], stats["words"])
    assert stats["bytes"] > 0


def test_store_without_messages(plane):
    assert [[]] == plane.relevant([(RAMEN, None)])
    assert [math.inf] == plane.safe_distance([(RAMEN, Circle(0, 0, 1))])
    assert np.iinfo(np.int64).max == plane.store.next_expiry
    plane.drop(7)
    plane.store.tidy()
    assert 0 == len(plane.store)


def test_unknown_store():
    with pytest.raises(UnknownIndex, match="cells, scan"):
        live_store("grid", None, None)
