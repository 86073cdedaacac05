"""Values that a newcomer gives to a hub: each error says what was given, what was expected, and nothing is misread."""

from __future__ import annotations

import pyarrow as pa
import pytest

from nearcast import (
    Analyzer,
    Box,
    Circle,
    Hub,
    InvalidColumns,
    InvalidInput,
    InvalidMessage,
    InvalidSubscription,
    Message,
    Vocabulary,
    Within,
)

VOCABULARY = r"vocabulary is 'words\.parquet'; expected a Vocabulary, Vocabulary\.from_parquet\(path\) for a file"


def test_a_path_as_vocabulary():
    """Of a new hub and of one that is there; nothing changes."""
    with pytest.raises(InvalidInput, match=VOCABULARY):
        Hub("plane", vocabulary="words.parquet")
    hub = Hub("plane")
    version = hub.stats()["vocabulary_version"]
    with pytest.raises(InvalidInput, match=VOCABULARY):
        hub.use_vocabulary("words.parquet")
    assert hub.stats()["vocabulary_version"] == version


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"space": "mars"}, "there is no space 'mars'"),
        ({"space": ["earth"]}, "there is no space"),
        ({"analyzer": "en"}, "analyzer is 'en'; expected an Analyzer"),
    ],
)
def test_options_of_another_type(options, told):
    """They are named, and are errors of nearcast."""
    with pytest.raises(InvalidInput, match=told):
        Hub(**options)


def test_texts_that_a_vocabulary_learns():
    """A plain list of texts is as good as a column; a text is never taken apart into letters."""
    by_list, by_column, texts = Vocabulary(), Vocabulary(), ["ramen bar", "ramen"]
    by_list.learn_texts(texts, Analyzer())
    by_column.learn_texts(pa.array(texts), Analyzer())
    assert by_list.df(["ramen", "bar"]).tolist() == by_column.df(["ramen", "bar"]).tolist() == [2, 1]
    for given in ("ramen", ["ramen bar", "ramen"]):
        with pytest.raises(InvalidInput, match="expected a list of words, or use learn_texts"):
            by_list.learn_tokens(given)
    for given in ("ramen", [1], None):
        with pytest.raises(InvalidInput, match="expected a list of str"):
            by_list.learn_texts(given, Analyzer())
    assert by_list.df(["ramen", "r"]).tolist() == [2, 0]


def test_a_box_as_a_box():
    """`in_box` and `centres_in_box` take a Box as well as four numbers, and refuse what is neither."""
    hub = Hub("earth")
    hub.subscribe(Within("anna", "tea", Circle(13.4, 52.5, 800)))
    box = Box(13, 52, 14, 53)
    assert hub.in_box(box) == hub.in_box((13, 52, 14, 53)) == (["anna"], 1)
    assert hub.centres_in_box(box).tolist() == hub.centres_in_box((13, 52, 14, 53)).tolist()
    for given in ("here", (1, 2), None, Circle(1, 2, 3)):
        with pytest.raises(InvalidInput, match=r"expected a Box or \(x_min"):
            hub.in_box(given)


def test_what_is_no_message_and_no_subscription():
    """The values of nearcast are among what is expected, and a list is sent to the call that takes lists."""
    hub = Hub("plane")
    with pytest.raises(InvalidMessage, match=r"got 'tea'; expected a dict, a Message, .*interface__$"):
        hub.publish("tea")
    with pytest.raises(InvalidMessage, match="publish_many takes a list"):
        hub.publish([Message(1, "tea", (0, 0))])
    with pytest.raises(InvalidSubscription, match=r"expected a dict, Within, Similar, TopK, .*subscribe_many takes"):
        hub.subscribe([Within("anna", "tea")])


def test_a_dict_as_place():
    """A place is no dict of lon and lat; the error shows what it may be."""
    with pytest.raises(InvalidMessage, match=r"place is \{'lon': 1, 'lat': 2\}; expected \(x, y\)"):
        Message(1, "tea", {"lon": 1, "lat": 2})


@pytest.mark.parametrize(
    ("given", "meant"), [("Query", "query"), ("latitude", "lat"), ("Lon", "lon"), ("long", "lon"), ("K", "k")]
)
def test_columns_under_other_names(given, meant):
    """A column in other letters, or called as elsewhere, is not passed over in silence: it would mean anywhere."""
    table = pa.table({"id": ["anna"], "region": [None], given: ["1"]}).drop_columns(["region"])
    wishes = Hub("earth").subscribe_many(table)
    assert wishes.warnings == [f"subscriptions: column {given} is not used; did you mean {meant}?"]
    with pytest.raises(InvalidColumns, match=f"did you mean {meant}"):
        Hub("earth").subscribe_many(table, strict=True)


def test_columns_that_others_may_have():
    """Centroids beside regions, and names in capitals beside the right ones, are attributes like any other."""
    region = '{"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}'
    table = pa.table(
        {"id": ["a"], "query": ["tea"], "region": [region], "latitude": [1.0], "longitude": [1.0], "ID": [3]}
    )
    assert Hub("earth").subscribe_many(table).warnings == []
    posts = pa.table({"id": [1], "text": ["tea"], "lon": [0.5], "lat": [0.2], "Time": ["noon"]})
    assert "column Time is an attribute; did you mean time?" in Hub("earth").publish_many(posts).rejected.warnings[0]
