"""Scored subscriptions in tables: every rule of a row, and the columns an index gets."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.columns import NO_TIME, SIMILAR, WITHIN
from nearcast.errors import InvalidColumns, InvalidInput
from nearcast.geo import BOX, CIRCLE, Box, Space
from nearcast.model import Similar, TopK, Within, subscription_from
from nearcast.similarity import COSINE, DICE, JACCARD, OVERLAP, SIMILARITY_NAMES, TFIDF, TSIM
from nearcast.tables import Rejected, read_subscriptions, subscriptions_table
from nearcast.tables.scored_rows import columns_of, usual_distance
from nearcast.text import Analyzer
from nearcast.text.words import WordTable

EARTH, PLANE = Space.earth(), Space.plane()
ROW = {"id": "s", "kind": "similar", "query": "ramen noodles", "lon": 13.4, "lat": 52.5, "threshold": 0.6}
NUMBERS = ("lon", "lat", "radius_m", "west", "south", "east", "north", "text_weight", "threshold", "max_distance_m")
SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("id", "kind", "query", "region", "similarity", "expires")]
    + [(name, pa.float64()) for name in NUMBERS]
    + [("terms", pa.list_(pa.string()))]
)


def read(table, space=EARTH, words=None, analyzer=None, max_distance=5000.0, **more):
    rejected = Rejected()
    words = WordTable() if words is None else words
    table = table if isinstance(table, pa.Table) else pa.Table.from_pylist(table, SCHEMA)
    found = read_subscriptions(
        table, space, words, analyzer or Analyzer(), max_distance=max_distance, rejected=rejected, **more
    )
    return found, list(rejected)


def words_of(found, words, row=0):
    clause = found.clause_start[row]
    return [words.word(term) for term in found.code[found.code_start[clause] : found.code_start[clause + 1]].tolist()]


# --- good rows --------------------------------------------------------------------------------------------------


def test_a_row_with_all_columns():
    words = WordTable()
    row = {**ROW, "text_weight": 0.3, "max_distance_m": 2000.0, "similarity": "dice", "expires": "1970-01-01T00:00:01Z"}
    found, rejected = read([row], words=words)
    assert [] == rejected
    assert ([SIMILAR], [0, 1], ["s"]) == (found.kind.tolist(), found.clause_start.tolist(), found.ids.to_pylist())
    assert ["noodles", "ramen"] == words_of(found, words)
    assert [[0.3], [0.6], [2000.0], [DICE], [0]] == [column.tolist() for column in found.scoring.columns()]
    assert ([BOX], Box(13.4, 52.5, 13.4, 52.5)) == (found.regions.kind.tolist(), found.regions.shape_of(0))
    assert [1_000_000] == found.expires.tolist()


def test_what_is_not_given_takes_its_default():
    found, _ = read([ROW])
    assert [[0.5], [0.6], [5000.0], [TSIM], [0]] == [column.tolist() for column in found.scoring.columns()]
    assert [NO_TIME] == found.expires.tolist()


@pytest.mark.parametrize(("name", "code"), [(None, TSIM), *zip(SIMILARITY_NAMES, range(5), strict=True)])
def test_every_text_function_has_its_code(name, code):
    found, _ = read([{**ROW, "similarity": name}])
    assert [code] == found.scoring.similarity.tolist()
    assert (TSIM, OVERLAP, JACCARD, DICE, COSINE) == (0, 1, 2, 3, 4)


def test_words_are_a_set_in_the_order_of_their_strings():
    """Repeats count once, whatever ids the words have; the order is that of the bytes in UTF-8."""
    words = WordTable()
    words.ids_of(["zebra", "\U0001f35c", "ﬀ", "a"], add=True)
    row = {**ROW, "query": "Zebra a zebra Ä", "terms": ["a", "\U0001f35c", "ﬀ", "Zebra", "a"]}
    found, _ = read([row, {**ROW, "id": "t", "query": "b a"}], words=words)
    assert ["Zebra", "a", "zebra", "ä", "ﬀ", "\U0001f35c"] == words_of(found, words)
    assert sorted(words_of(found, words), key=str.encode) == words_of(found, words)
    assert ["a", "b"] == words_of(found, words, 1)


def test_many_words_are_ordered_like_few():
    """Beyond a few hundred words another way is taken to the same order."""
    words = WordTable()
    names = [f"w{i:03}" for i in np.random.default_rng(1).permutation(999)]
    found, _ = read([{**ROW, "query": " ".join(names + names[:5])}, {**ROW, "id": "t", "query": "w5 w41"}], words=words)
    assert sorted(names) == words_of(found, words)
    assert ["w41", "w5"] == words_of(found, words, 1)


def test_terms_are_taken_as_they_are_beside_or_instead_of_the_query():
    words = WordTable()
    rows = [
        {**ROW, "id": "a", "query": None, "terms": ["Hot Dog", "AND"]},
        {**ROW, "id": "b", "query": "Hot Dog", "terms": ["Hot Dog"]},
        {**ROW, "id": "c", "query": "hot", "terms": []},
    ]
    found, rejected = read(rows, words=words)
    assert [] == rejected
    assert [["AND", "Hot Dog"], ["Hot Dog", "dog", "hot"], ["hot"]] == [words_of(found, words, i) for i in range(3)]


def test_the_analyzer_makes_the_words():
    words = WordTable()
    found, _ = read([{**ROW, "query": "the running dogs"}], words=words, analyzer=Analyzer("en", True, True))
    assert ["dog", "run"] == words_of(found, words)


@pytest.mark.parametrize("query", ["brandy", "ORANGE", "ANDROID NOTE", "or not", "rock'n'roll", "ÖOR", "café #AND5"])
def test_words_that_only_look_like_operators_are_words(query):
    assert [] == read([{**ROW, "query": query}])[1]


def test_a_query_may_be_empty_where_nearness_alone_can_do():
    found, rejected = read(
        [
            {**ROW, "query": None, "text_weight": 0.0, "threshold": 1.0},
            {**ROW, "id": "t", "query": "", "threshold": 0.5},
        ]
    )
    assert [] == rejected
    assert ([0, 1, 2], [0, 0, 0]) == (found.clause_start.tolist(), found.code_start.tolist())


# --- max_distance -----------------------------------------------------------------------------------------------

SQUARE_PLANE = Space.plane((0, 0, 30, 40))


@pytest.mark.parametrize(
    ("own", "hub", "space", "expected"),
    [
        (7.0, 9.0, SQUARE_PLANE, 7.0),
        (None, 9.0, SQUARE_PLANE, 9.0),
        (None, None, SQUARE_PLANE, 50.0),
        (7.0, None, PLANE, 7.0),
        (None, 9.0, PLANE, 9.0),
    ],
)
def test_max_distance_is_the_rows_else_the_hubs_else_the_diagonal(own, hub, space, expected):
    columns = {"id": ["s"], "kind": ["similar"], "query": ["a"], "x": [1.0], "y": [2.0], "threshold": [0.5]}
    table = pa.table({**columns, "max_distance": pa.array([own], pa.float64())})
    found, rejected = read(table, space, max_distance=hub)
    assert ([expected], []) == (found.scoring.max_distance.tolist(), rejected)
    value = Similar("s", "a", (1, 2), threshold=0.5, max_distance=own)
    assert [expected] == columns_of(value, space, WordTable(), Analyzer(), hub).scoring.max_distance.tolist()


@pytest.mark.parametrize(("space", "name"), [(EARTH, "max_distance_m"), (PLANE, "max_distance")])
def test_a_row_without_any_max_distance_is_rejected_with_that_reason(space, name):
    """It is never taken from the data."""
    x, y = ("lon", "lat") if space.is_earth else ("x", "y")
    table = pa.table({"id": ["s"], "kind": ["similar"], "query": ["a"], x: [1.0], y: [2.0], "threshold": [0.5]})
    found, (row,) = read(table, space, max_distance=None)
    assert (0, name) == (len(found), row.field)
    assert f"{name} is not given and the hub has none; give it here, or to the hub as max_distance" == row.reason
    assert usual_distance(space, None) is None
    with pytest.raises(InvalidInput, match="the hub has none"):
        columns_of(Similar("s", "a", (1, 2), threshold=0.5), space, WordTable(), Analyzer())


# --- rejected rows ----------------------------------------------------------------------------------------------

TRIANGLE = json.dumps({"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [0, 1], [0, 0]]]})


@pytest.mark.parametrize(
    ("row", "field", "reason"),
    [
        ({"query": "ramen AND noodles"}, "query", "column 7: AND has no meaning here: this kind takes plain words"),
        ({"query": "ramen\nOR(noodles)"}, "query", "line 2, column 1: OR has no meaning here"),
        ({"query": "NOT\u00a0ramen"}, "query", "column 1: NOT has no meaning here"),
        ({"query": 'a "hot dog"'}, "query", 'column 3: " has no meaning here'),
        ({"query": "“hot”"}, "query", "“ has no meaning here"),
        (
            {"query": None},
            "query",
            "without words the score never reaches 0.6; add words or lower the threshold to 0.5",
        ),
        ({"query": " "}, "query", "without words the score never reaches 0.6"),
        ({"query": "!? ..."}, "query", "without words the score never reaches 0.6"),
        ({"query": "", "terms": []}, "query", "without words the score never reaches 0.6"),
        ({"query": "", "text_weight": 1.0}, "query", "without words the score never reaches 0.6; add words"),
        ({"terms": ["a", None]}, "terms", "terms holds null; expected only text"),
        ({"threshold": None}, "threshold", "a similar subscription has no threshold; give one above 0, up to 1"),
        ({"threshold": 0.0}, "threshold", "threshold is 0.0, which everything reaches; expected above 0"),
        ({"threshold": -0.5}, "threshold", "threshold is -0.5; expected 0 to 1"),
        ({"threshold": 1.01}, "threshold", "threshold is 1.01; expected 0 to 1"),
        ({"threshold": float("nan")}, "threshold", "threshold is nan; expected a finite number"),
        ({"text_weight": -0.1}, "text_weight", "text_weight is -0.1; expected 0 to 1"),
        ({"text_weight": 1.1}, "text_weight", "text_weight is 1.1; expected 0 to 1"),
        ({"text_weight": float("nan")}, "text_weight", "text_weight is nan; expected a finite number"),
        ({"max_distance_m": 0.0}, "max_distance_m", "max_distance is 0.0; expected above 0"),
        ({"max_distance_m": -5.0}, "max_distance_m", "max_distance is -5.0; expected above 0"),
        ({"max_distance_m": float("inf")}, "max_distance_m", "max_distance is inf; expected a finite number"),
        ({"max_distance_m": float("nan")}, "max_distance_m", "max_distance is nan; expected a finite number"),
        ({"similarity": "bm25"}, "similarity", "similarity is 'bm25'; expected one of tsim, overlap, jaccard, dice"),
        ({"lon": None}, "place", "the place is incomplete or given twice; give lon and lat, or x and y"),
        ({"lon": None, "lat": None}, "place", "the place is incomplete"),
        ({"lat": 91.0}, "lat", "latitude 91.0 is beyond 90"),
        ({"lon": 181.0}, "lon", "longitude 181.0 is beyond 180"),
        ({"lat": float("nan")}, "lat", "latitude nan"),
        ({"radius_m": 5.0}, "radius_m", "radius_m is given, but this kind has a point and a max_distance"),
        ({"west": 5.0}, "west", "west is given, but this kind has a point"),
        ({"region": TRIANGLE}, "region", "region is given, but this kind has a point"),
        ({"id": None}, "id", "there is no id"),
        ({"expires": "soon"}, "expires", "expires is 'soon'; expected RFC 3339"),
        ({"kind": "topk", "query": "!"}, "query", "the query has no word; a top-k request needs one"),
    ],
)
def test_bad_rows_are_rejected_alone(row, field, reason):
    """Among boolean and scored rows, which are there in their order; words of the bad row are not learned."""
    words = WordTable()
    rows = [
        {"id": "a", "query": "x"},
        {**ROW, "id": "b"},
        {**ROW, **row},
        {**ROW, "id": "c"},
        {"id": "d", "query": "x"},
    ]
    found, (bad,) = read(rows, words=words, source="file", first_row=10)
    assert ("file", 12, field) == (bad.source, bad.row, bad.field)
    assert bad.reason.startswith(reason) or reason in bad.reason
    assert "\n" not in bad.reason
    assert (["a", "b", "c", "d"], [0, 1, 1, 0]) == (found.ids.to_pylist(), found.kind.tolist())
    assert ["noodles", "ramen", "x"] == sorted(words.words().to_pylist())


def test_the_model_refuses_with_the_same_reason():
    """What a table says of a row is what the value says when it is made."""
    for change in ({"threshold": 2.0}, {"query": "a OR b"}, {"similarity": "x"}, {"text_weight": -1.0}, {"query": ""}):
        _, (row,) = read([{**ROW, **change}])
        with pytest.raises(InvalidInput) as caught:
            subscription_from({**ROW, **change})
        assert row.reason.split(": ")[-1] in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"threshold": ["high"]}, "column threshold is of type string; expected numbers"),
        ({"text_weight": [True]}, "column text_weight is of type bool; expected numbers"),
        ({"max_distance_m": ["far"]}, "column max_distance_m is of type string; expected numbers"),
        ({"similarity": [1]}, "column similarity is of type int64; expected text"),
        ({"terms": ["a"]}, "column terms is of type string; expected lists of text"),
        ({"query": [5]}, "column query is of type int64; expected text"),
        ({"lon": ["1"]}, "column lon is of type string; expected numbers"),
        ({"max_distance": [5.0]}, "column max_distance does not belong to the earth"),
    ],
)
def test_columns_that_stop_the_table(columns, message):
    """Only where a scored row needs them."""
    own = {name: [value] for name, value in ROW.items()}
    with pytest.raises(InvalidColumns, match=message):
        read(pa.table({**own, **columns}))


def test_scored_columns_of_another_type_do_not_bother_boolean_rows():
    found, rejected = read(pa.table({"id": ["s"], "query": ["a"], "threshold": ["high"], "terms": ["b"]}))
    assert (1, []) == (len(found), rejected)


def test_a_query_in_the_json_form_is_no_plain_text():
    columns = {name: [value] for name, value in ROW.items()}
    _, (row,) = read(pa.table({**columns, "query": [{"word": "a"}]}))
    assert ("query", "query is {'word': 'a'}; expected plain text, or use terms") == (row.field, row.reason)


def test_the_second_of_two_ids_is_rejected_whatever_their_kinds():
    _, (row,) = read([ROW, {"id": "s", "query": "a"}])
    assert (1, "id", "id 's' is taken by row 0; give each subscription its own") == (row.row, row.field, row.reason)


# --- mixed tables -----------------------------------------------------------------------------------------------


def test_a_table_may_mix_kinds():
    """Rows keep their order, and a point with a radius is a circle where a point alone is a place."""
    words = WordTable()
    rows = [
        {"id": "a", "query": "x AND y", "lon": 1.0, "lat": 2.0, "radius_m": 3.0},
        {**ROW, "id": "b"},
        {"id": "c", "kind": "within", "query": "ramen"},
        {**ROW, "id": "d", "query": "z"},
    ]
    found, rejected = read(rows, words=words)
    assert [] == rejected
    assert [WITHIN, SIMILAR, WITHIN, SIMILAR] == found.kind.tolist()
    assert [["x", "y"], ["noodles", "ramen"], ["ramen"], ["z"]] == [words_of(found, words, i) for i in range(4)]
    assert [CIRCLE, BOX, 0, BOX] == found.regions.kind.tolist()
    assert [0.0, 0.6, 0.0, 0.6] == found.scoring.threshold.tolist()
    assert [0.0, 5000.0, 0.0, 5000.0] == found.scoring.max_distance.tolist()


def test_a_table_without_scored_rows_has_no_scoring():
    assert read([{"id": "a", "query": "x"}])[0].scoring is None


def test_no_rows_at_all():
    assert 0 == len(read([])[0])


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_every_string_type_reads_alike(kind):
    """Also in mixed tables, whose rows are taken apart."""
    rows = [ROW, {"id": "t", "query": "a"}, {**ROW, "id": "u"}]
    table = pa.Table.from_pylist(rows)
    columns = {name: table[name] for name in table.column_names}
    columns |= {name: pa.array(table[name].to_pylist(), pa.string()).cast(kind) for name in ("id", "kind", "query")}
    columns["terms"] = pa.array(
        [["z"], None, None], pa.large_list(kind if not pa.types.is_dictionary(kind) else pa.string())
    )
    words = WordTable()
    found, rejected = read(pa.table(columns), words=words)
    assert ([], ["s", "t", "u"]) == (rejected, found.ids.to_pylist())
    assert [["noodles", "ramen", "z"], ["a"], ["noodles", "ramen"]] == [words_of(found, words, i) for i in range(3)]


@pytest.mark.parametrize("kind", [pa.float32(), pa.decimal128(6, 2), pa.float64()])
def test_every_number_type_reads_alike(kind):
    table = pa.Table.from_pylist([{**ROW, "threshold": 0.5}, {**ROW, "id": "t", "query": "a OR b", "threshold": 0.5}])
    at = table.column_names.index("threshold")
    found, (row,) = read(table.set_column(at, "threshold", table["threshold"].cast(kind)))
    assert ([0.5], "query") == (found.scoring.threshold.tolist(), row.field)


# --- values -----------------------------------------------------------------------------------------------------


def test_values_become_rows_with_all_they_say():
    rejected = Rejected()
    values = [
        Similar(
            "a", "ramen", (1, 2), threshold=0.5, max_distance=10, similarity="cosine", expires="1970-01-01T00:00:01Z"
        ),
        Similar("b", "", (1, 2), threshold=0.5, text_weight=1, terms=["Hot Dog", "x"]),
        Within("c", "tea", Box(0, 0, 1, 1)),
        {"id": "d", "kind": "similar", "query": "x", "lon": 3, "lat": 4, "threshold": 0.25, "max_distance_m": 7},
        TopK("e", "x", (1, 2)),
    ]
    table = subscriptions_table(values, EARTH, rejected=rejected)
    words = WordTable()
    found = read_subscriptions(table, EARTH, words, Analyzer(), max_distance=99, rejected=rejected)
    assert (["a", "b", "c", "d", "e"], []) == (found.ids.to_pylist(), list(rejected))
    assert [["ramen"], ["Hot Dog", "x"], ["tea"], ["x"], ["x"]] == [words_of(found, words, i) for i in range(5)]
    expected = [
        [0.5, 1.0, 0.0, 0.5, 0.5],
        [0.5, 0.5, 0.0, 0.25, 0.0],
        [10.0, 99.0, 0.0, 7.0, 99.0],
        [COSINE, TSIM, 0, TSIM, TFIDF],
        [0, 0, 0, 0, 10],
    ]
    assert expected == [column.tolist() for column in found.scoring.columns()]
    assert [1_000_000, *[NO_TIME] * 4] == found.expires.tolist()


scored_rows = st.fixed_dictionaries(
    {
        "id": st.uuids().map(str),
        "kind": st.just("similar"),
        "query": st.sampled_from([None, "", "a", "b a b", "!", "a OR b", "ORa", 'a"', "Ä a"]),
        "terms": st.sampled_from([None, None, [], ["a", "Z"]]),
        "threshold": st.sampled_from([None, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5, float("nan")]),
        "text_weight": st.sampled_from([None, None, 0.0, 0.5, 1.0, -1.0]),
        "max_distance_m": st.sampled_from([None, 10.0, 0.0, float("inf")]),
        "similarity": st.sampled_from([None, *SIMILARITY_NAMES, "Tsim"]),
        "lon": st.sampled_from([0.0, 180.0, None, 181.0]),
        "lat": st.sampled_from([0.0, -90.0, float("nan")]),
        "radius_m": st.sampled_from([None, None, None, 1.0]),
    }
)


def value_or_none(row, words):
    """Return the columns of a row made a value of its own."""
    try:
        return columns_of(subscription_from(row), EARTH, words, Analyzer(), 99.0)
    except InvalidInput:
        return None


@given(st.lists(st.one_of(scored_rows, scored_rows.map(lambda row: {**row, **FINE})), max_size=6))
@settings(max_examples=60)
def test_a_table_and_its_rows_one_by_one_give_the_same(rows):
    """A row of a table is good exactly if it is as a value, and then has the same words, place and numbers."""
    words = WordTable()
    found, rejected = read(pa.Table.from_pylist(rows, SCHEMA), words=words, max_distance=99.0)
    expected = [(row, value) for row, each in enumerate(rows) if (value := value_or_none(each, words)) is not None]
    assert [value.ids[0].as_py() for _, value in expected] == found.ids.to_pylist()
    assert sorted(set(range(len(rows))) - {row for row, _ in expected}) == [row.row for row in rejected]
    for at, (_, value) in enumerate(expected):
        assert words_of(value, words) == words_of(found, words, at)
        assert value.regions.shape_of(0) == found.regions.shape_of(at)
        assert [c.tolist() for c in value.scoring.columns()] == [[c[at]] for c in found.scoring.columns()]


FINE = {"threshold": 0.5, "text_weight": 0.5, "max_distance_m": None, "lon": 1.0, "lat": 1.0, "radius_m": None}
