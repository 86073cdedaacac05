"""Who nearly gets a message: subscriptions that one thing keeps out, the nearest first."""

import pytest

from nearcast import Circle, Hub, Similar, TopK, Within

BERLIN = (13.4, 52.5)


def hub_of(*subscriptions):
    hub = Hub("earth", window=10)
    for each in subscriptions:
        hub.subscribe(each)
    return hub


def message(text="green tea", place=BERLIN):
    return {"id": 1, "text": text, "lon": place[0], "lat": place[1]}


def circle(metres_east=0.0, radius=800):
    return Circle(13.4 + metres_east / 67_700, 52.5, radius)


@pytest.mark.modes
@pytest.mark.small
def test_one_thing_keeps_them_out():
    """Place, a missing word, a forbidden one, a threshold: each alone is a near miss; two things are not."""
    hub = hub_of(
        Within("match", "tea", circle()),
        Within("far", "tea", circle(2000)),
        Within("farther", "tea", circle(20_000)),
        Within("word", "tea AND black", circle()),
        Within("phrase", '"tea green"', circle()),
        Within("forbidden", "tea AND NOT green", circle()),
        Within("two words", "black AND coffee", circle()),
        Within("word and place", "tea AND black", circle(2000)),
        Within("anywhere", "black OR tea"),
        Within("alternative", "(coffee AND milk) OR (tea AND milk)", circle()),
        Similar("threshold", "tea", (13.402, 52.5), threshold=0.999, max_distance=1000),
        Similar("scored", "tea", BERLIN, threshold=0.2, max_distance=1000),
        TopK("best", "tea", BERLIN, max_distance=1000),
    )
    assert ["match", "anywhere", "scored", "best"] == sorted(
        hub.reached(message()), key=["match", "anywhere", "scored", "best"].index
    )
    found = hub.nearly(message())
    assert {"far", "farther", "word", "phrase", "forbidden", "alternative", "threshold"} == {
        each.subscription_id for each in found
    }
    order = [each.subscription_id for each in found]
    assert order.index("far") < order.index("farther")
    assert all(not each.matched for each in found)
    assert order[:2] == [each.subscription_id for each in hub.nearly(message(), limit=2)]


@pytest.mark.modes
@pytest.mark.small
def test_the_nearest_regions_come_first_also_over_the_dateline():
    """Distance counts beside the size of the region, and the short way round the earth."""
    hub = hub_of(
        Within("west", "tea", Circle(-179.99, 0, 100)),
        Within("east", "tea", Circle(179.0, 0, 100)),
        Within("box", "tea", (-10.0, -1.0, 10.0, 1.0)),
    )
    found = hub.nearly(message(place=(179.99, 0.0)))
    assert ["west", "east"] == [each.subscription_id for each in found if each.subscription_id != "box"]
    assert [] == Hub("earth").nearly(message())
    assert [] == hub.nearly(message("milk"))
