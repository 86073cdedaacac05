"""From tables to messages and subscriptions: every column type, every bad row, and nothing else changed or lost."""

import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.columns import NO_TIME
from nearcast.errors import InvalidColumns, InvalidInput
from nearcast.geo import ANYWHERE, BOX, CIRCLE, POLYGON, Box, Space
from nearcast.model import Message, Similar, TopK, Within, message_from, subscription_from
from nearcast.tables import (
    Rejected,
    RejectedRow,
    messages_table,
    read_messages,
    read_subscriptions,
    rename,
    space_of,
    subscriptions_table,
)
from nearcast.tables.duplicates import _first_rows, repeated
from nearcast.text import Analyzer
from nearcast.text.words import WordTable

EARTH, PLANE = Space.earth(), Space.plane()
TRIANGLE = {"type": "Polygon", "coordinates": [[[0, 0], [4, 0], [0, 3], [0, 0]]]}
BOW_TIE = {"type": "Polygon", "coordinates": [[[0, 0], [2, 2], [2, 0], [0, 2], [0, 0]]]}


def messages(columns, space=EARTH, words=None, **options):
    """Return the messages of a table and what was rejected."""
    rejected = Rejected()
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    words = WordTable() if words is None else words
    found = read_messages(table, space, words, Analyzer(), rejected=rejected, add_words=True, **options)
    return found, rejected


def subscriptions(columns, space=EARTH, words=None, **options):
    rejected = Rejected()
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    found = read_subscriptions(
        table, space, WordTable() if words is None else words, Analyzer(), rejected=rejected, **options
    )
    return found, rejected


def reasons(rejected):
    return [(row.row, row.field, row.reason) for row in rejected]


def fields(rejected):
    return [(row.row, row.field) for row in rejected]


def points(n=1, **more):
    return {"id": [f"m{i}" for i in range(n)], "text": ["a"] * n, "lon": [1.0] * n, "lat": [2.0] * n, **more}


def words_of(found, words, row):
    return [words.word(term) if term >= 0 else None for term in found.terms_of(row).tolist()]


# --- rejected ---------------------------------------------------------------------------------------------------


def test_rejected_table_has_exactly_its_columns():
    """The columns are source, row, id, field, reason, also when nothing was rejected."""
    expected = pa.schema([(name, pa.string()) for name in ("source", "id", "field", "reason")])
    expected = expected.insert(1, pa.field("row", pa.int64()))
    assert expected == Rejected().to_table().schema
    rejected = Rejected()
    rejected.add("s", 3, 17, "lat", "too\nfar")
    assert expected == rejected.to_table().schema
    assert [RejectedRow("s", 3, "17", "lat", "too far")] == list(rejected)


def test_rejected_with_half_a_character_can_be_written():
    """A reason that quotes what no file can hold still makes a table."""
    rejected = Rejected()
    rejected.add("s", 0, "\ud800", None, "saw \ud800")
    assert [{"source": "s", "row": 0, "id": "?", "field": None, "reason": "saw ?"}] == rejected.to_table().to_pylist()


def test_rejected_lists_can_be_joined():
    """`extend` takes the rows of another list."""
    one, other = Rejected(), Rejected()
    other.add("s", 1, None, None, "r")
    one.extend(other)
    assert 1 == len(one)


# --- names and space --------------------------------------------------------------------------------------------


def test_rename_uses_the_old_column_as_the_new():
    assert ["id", "time"] == rename(pa.table({"id": [1], "ts": [2]}), {"time": "ts"}).column_names


def test_rename_swaps_names_at_once():
    table = rename(pa.table({"a": [1], "b": [2]}), {"a": "b", "b": "a"})
    assert {"b": [1], "a": [2]} == table.to_pydict()


def test_rename_can_use_one_column_twice():
    assert {"text": ["t"], "title": ["t"]} == rename(pa.table({"t": ["t"]}), {"text": "t", "title": "t"}).to_pydict()


def test_rename_of_a_missing_column_names_those_there_are():
    with pytest.raises(InvalidColumns, match=r"no column ts to use as time; there are: id, when$"):
        rename(pa.table({"id": [1], "when": [2]}), {"time": "ts"})


def test_rename_to_a_name_that_is_taken_is_an_error():
    """No column is dropped in silence."""
    with pytest.raises(InvalidColumns, match=r"two columns would be called time; rename one of them$"):
        rename(pa.table({"time": [1], "ts": [2]}), {"time": "ts"})


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (["id", "lon", "lat"], EARTH),
        (["west", "south"], EARTH),
        (["radius_m"], EARTH),
        (["x", "y"], PLANE),
        (["x_min"], PLANE),
        (["radius"], PLANE),
    ],
)
def test_columns_tell_the_space(columns, expected):
    assert expected == space_of(columns, None)
    assert expected == space_of(columns, expected.kind)


@pytest.mark.parametrize(
    ("columns", "given", "message"),
    [
        (["lon", "x"], None, "column lon tells the earth and column x a plane; rename one$"),
        (["lon", "x"], "earth", "column lon tells the earth and column x a plane"),
        (["id", "region"], None, r"do not tell the space \(id, region\); give the space, earth or plane$"),
        (["lon"], "plane", "column lon tells the earth, but the space is given as plane"),
        (["lon"], "moon", "expected earth or plane"),
    ],
)
def test_space_that_cannot_be_told(columns, given, message):
    with pytest.raises(InvalidColumns, match=message) as caught:
        space_of(columns, given)
    assert "\n" not in str(caught.value)


def test_given_space_decides_where_columns_do_not_tell():
    assert PLANE == space_of(["id", "region"], "plane")


# --- messages: columns ------------------------------------------------------------------------------------------


def test_messages_with_every_column():
    """Words, place, times, ids and attributes of a plain table arrive as they are."""
    words = WordTable()
    found, rejected = messages(
        {
            "id": ["m1", "m2"],
            "text": ["Hot dog, hot!", None],
            "lon": [13.4, 179.0],
            "lat": [52.5, -10.0],
            "lon_max": [None, -179.0],
            "lat_max": [None, -9.0],
            "time": pa.array([datetime(2026, 5, 1, tzinfo=UTC), None], pa.timestamp("ms", "UTC")),
            "shop": ["Roast", None],
        },
        words=words,
    )
    assert [] == list(rejected)
    assert [["hot", "dog", "hot"], []] == [words_of(found, words, row) for row in (0, 1)]
    assert [[13.4, 52.5, 13.4, 52.5], [179.0, -10.0, -179.0, -9.0]] == found.box.tolist()
    assert [1777593600_000000, NO_TIME] == found.time.tolist()
    assert [NO_TIME, NO_TIME] == found.expires.tolist()
    assert {"shop": ["Roast", None]} == found.attributes.to_pydict()
    assert pa.string() == found.ids.type


def test_messages_without_other_columns_have_no_attributes():
    assert messages(points())[0].attributes is None


def test_messages_may_share_an_id():
    """Messages are told apart by arrival, not by id."""
    found, rejected = messages(points(2, id=["m", "m"]))
    assert (2, 0) == (len(found), len(rejected))


def test_terms_are_taken_as_they_are_in_order():
    words = WordTable()
    found, _ = messages(points(text=[None], terms=[["Hot Dog", "Ä", "Hot Dog"]]), words=words)
    assert ["Hot Dog", "Ä", "Hot Dog"] == words_of(found, words, 0)


def test_text_and_terms_are_kept_apart_for_phrases():
    """The words of both count, but no phrase reaches from the text into the terms."""
    words = WordTable()
    found, _ = messages(points(3, text=["hot", None, "x y"], terms=[["dog"], ["z"], None]), words=words)
    assert [["hot", None, "dog"], ["z"], ["x", "y"]] == [words_of(found, words, row) for row in range(3)]


def test_unknown_words_are_minus_one_unless_added():
    words = WordTable()
    words.ids_of(["dog"], add=True)
    table = pa.table(points(text=["hot dog"]))
    found = read_messages(table, EARTH, words, Analyzer(), rejected=Rejected())
    assert ([-1, 0], 1) == (found.terms.tolist(), len(words))


def test_message_without_words_is_fine():
    found, rejected = messages(points(text=[None], terms=pa.array([None], pa.list_(pa.string()))))
    assert ([0, 0], 0) == (found.term_start.tolist(), len(rejected))


STRINGS = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.int32(), pa.large_string()),
]


def encoded(strings, kind):
    return strings.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else strings.cast(kind)


@pytest.mark.parametrize("kind", STRINGS, ids=str)
def test_every_string_type_reads_alike(kind):
    """Text, ids, kinds and queries may come in any of Arrow's string types."""
    words = WordTable()
    plain = pa.array(["a b", None, "c"])
    column = encoded(plain, kind)
    found, _ = messages(points(3, text=column), words=words)
    assert [["a", "b"], [], ["c"]] == [words_of(found, words, row) for row in range(3)]
    ids = encoded(pa.array(["s1", "s2", "s3"]), kind)
    table = {"id": ids, "query": column, "west": [0.0] * 3, "south": [0.0] * 3, "east": [1.0] * 3, "north": [1.0] * 3}
    stored, rejected = subscriptions(table)
    assert (["s1", "s2", "s3"], []) == (stored.ids.to_pylist(), list(rejected))
    assert [2, 0, 1] == np.diff(stored.code_start).tolist()


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.string()),
        pa.large_list(pa.large_string()),
        pa.list_view(pa.string()),
        pa.list_(pa.string_view()),
        pa.list_(pa.dictionary(pa.int32(), pa.string())),
    ],
    ids=str,
)
def test_every_list_type_reads_alike(kind):
    words = WordTable()
    lists = pa.array([["skipped"], ["a", "b"], None, [], ["c"]], kind)
    found, _ = messages(points(4, text=[None] * 4, terms=lists.slice(1)), words=words)
    assert [["a", "b"], [], [], ["c"]] == [words_of(found, words, row) for row in range(4)]


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint16(), pa.int64(), pa.float32(), pa.float16(), pa.decimal128(5, 1)])
def test_every_number_type_serves_as_coordinate(kind):
    values = pa.array([1.0, 2.0], pa.float32()).cast(kind)
    found, _ = messages(points(2, lon=values))
    assert [1.0, 2.0] == found.box[:, 0].tolist()


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint32(), pa.int64(), pa.uint64()])
def test_integer_ids_become_int64(kind):
    found, _ = messages(points(2, id=pa.array([7, 8], kind)))
    assert (pa.int64(), [7, 8]) == (found.ids.type, found.ids.to_pylist())


def test_chunked_and_sliced_columns():
    """Where a column begins in its buffers, and in how many pieces it comes, makes no difference."""
    whole = pa.table(points(6, text=["a", "b", "c", "d", "e", "f"], lon=[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]))
    pieces = pa.concat_tables([whole.slice(1, 2), whole.slice(3, 0), whole.slice(3, 2)])
    words = WordTable()
    found, _ = messages(pieces, words=words)
    assert ["m1", "m2", "m3", "m4"] == found.ids.to_pylist()
    assert ["b", "c", "d", "e"] == [words_of(found, words, row)[0] for row in range(4)]
    assert [1.0, 2.0, 3.0, 4.0] == found.box[:, 0].tolist()


@pytest.mark.parametrize("make", [lambda t: t.slice(0, 0), lambda _: pa.table({}), lambda t: t.schema.empty_table()])
def test_tables_without_rows_are_fine(make):
    table = make(pa.table(points(terms=[["a"]], time=pa.array([0], pa.timestamp("s")))))
    assert (0, 0) == tuple(map(len, messages(table)))
    box = {"id": ["s"], "kind": ["within"], "query": ["a"], "lon": [1.0], "lat": [1.0], "radius_m": [1.0]}
    assert (0, 0) == tuple(map(len, subscriptions(make(pa.table(box)))))


def test_columns_of_type_null_are_not_given():
    n = pa.nulls(1)
    found, rejected = messages(points(terms=n, lon_max=n, lat_max=n, time=n, expires=n))
    assert ([[1.0, 2.0, 1.0, 2.0]], 0) == (found.box.tolist(), len(rejected))
    found, rejected = subscriptions({"id": ["s"], "query": ["a"], "kind": n, "region": n, "west": n, "expires": n})
    assert ([ANYWHERE], 0) == (found.regions.kind.tolist(), len(rejected))


# --- messages: whole tables that cannot be read -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": None}, r"messages: there is no column id; there are: text, lon, lat; rename one$"),
        ({"lat": None}, r"there is no column lat;"),
        ({"text": None}, r"there is no column text or terms;"),
        ({"id": [1.5]}, r"column id is of type double; expected text or integers"),
        ({"id": [True]}, r"column id is of type bool; expected text or integers"),
        ({"id": [b"x"]}, r"column id is of type binary; expected text or integers"),
        ({"text": [5]}, r"column text is of type int64; expected text"),
        ({"terms": ["a b"]}, r"column terms is of type string; expected lists of text"),
        ({"terms": [[1]]}, r"column terms is of type list<.*int64>; expected lists of text"),
        ({"lon": ["13.4"]}, r"column lon is of type string; expected numbers"),
        ({"lat": [True]}, r"column lat is of type bool; expected numbers"),
        ({"lon_max": [[1.0]]}, r"column lon_max is of type list.*; expected numbers"),
        ({"time": [5]}, r"column time is of type int64; expected timestamps, dates or RFC 3339 text"),
        ({"expires": [1.5]}, r"column expires is of type double; expected timestamps"),
        ({"x": [1.0]}, r"column x does not belong to the earth, which has lon, lat"),
    ],
)
def test_message_columns_that_stop_the_table(change, message):
    columns = {name: values for name, values in {**points(), **change}.items() if values is not None}
    with pytest.raises(InvalidColumns, match=message) as caught:
        messages(columns)
    assert "\n" not in str(caught.value)
    assert "--" not in str(caught.value)


def test_a_column_that_is_there_twice_is_an_error():
    table = pa.table([pa.array(["a"]), pa.array(["b"])], ["id", "id"])
    with pytest.raises(InvalidColumns, match="column id is there twice"):
        messages(table)


# --- messages: bad rows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "field", "reason"),
    [
        ({"id": None}, "id", "there is no id; give text or an integer"),
        ({"lon": None}, "lon", "lon is null; expected a number, since lat is given"),
        ({"lon": None, "lat": None}, "lon", "lon is null; expected a number"),
        ({"lat": None}, "lat", "lat is null; expected a number, since lon is given"),
        ({"lon": float("nan")}, "lon", "lon is nan; expected a finite number"),
        ({"lat": float("-inf")}, "lat", "lat is -inf; expected a finite number"),
        ({"lat": 91.0}, "lat", "lat is 91.0, beyond 90; expected -90 to 90"),
        ({"lon": -181.0}, "lon", "lon is -181.0, beyond 180; expected -180 to 180"),
        ({"lon_max": 3.0}, "lat_max", "lat_max is null; expected a number, since lon, lat, lon_max is given"),
        ({"lat_max": 3.0}, "lon_max", "lon_max is null; expected a number, since lon, lat, lat_max is given"),
        ({"lon_max": 3.0, "lat_max": 1.0}, "lat_max", "lat_max 1.0 is below lat 2.0; swap them"),
        ({"lon_max": 181.0, "lat_max": 3.0}, "lon_max", "lon_max is 181.0, beyond 180; expected -180 to 180"),
        ({"lon_max": float("nan"), "lat_max": 3.0}, "lon_max", "lon_max is nan; expected a finite number"),
        (
            {"time": "yesterday"},
            "time",
            "time is 'yesterday'; expected RFC 3339 text like 2026-05-01T09:00:00Z",
        ),
        (
            {"time": "2026-02-30T00:00:00Z"},
            "time",
            "time is '2026-02-30T00:00:00Z': day is out of range for month; expected a time that exists",
        ),
        ({"terms": ["a", None]}, "terms", "terms holds null; expected only text"),
    ],
)
def test_bad_message_rows_are_rejected_alone(change, field, reason):
    """The row is named with its column and a reason; the rows around it are there."""
    good = {"text": "a", "lon": 1.0, "lat": 2.0, "lon_max": None, "lat_max": None, "time": None, "terms": None}
    rows = [{"id": "m0", **good}, {"id": "m1", **good, **change}, {"id": "m2", **good, "terms": ["b"]}]
    schema = pa.schema(
        [("id", pa.string()), ("text", pa.string())]
        + [(name, pa.float64()) for name in ("lon", "lat", "lon_max", "lat_max")]
        + [("time", pa.string()), ("terms", pa.list_(pa.string()))]
    )
    words = WordTable()
    found, rejected = messages(pa.Table.from_pylist(rows, schema), words=words, source="file", first_row=10)
    assert [RejectedRow("file", 11, None if "id" in change else "m1", field, reason)] == list(rejected)
    assert ["m0", "m2"] == found.ids.to_pylist()
    assert [["a"], ["a", None, "b"]] == [words_of(found, words, row) for row in (0, 1)]


def test_message_rectangles_on_the_plane_do_not_wrap():
    columns = {"id": [1, 2], "text": ["a", "a"], "x": [5.0, 5.0], "y": [500.0, 0.0], "x_max": [6, 4], "y_max": [501, 1]}
    found, rejected = messages(columns, PLANE)
    assert [[5.0, 500.0, 6.0, 501.0]] == found.box.tolist()
    assert [(1, "x_max", "x_max 4.0 is below x 5.0; swap them")] == reasons(rejected)


def test_unsigned_id_beyond_64_bits_is_rejected():
    found, rejected = messages(points(2, id=pa.array([1, 2**63], pa.uint64())))
    assert ([1], [(1, "id", f"id is {2**63}; expected an integer of 64 bits")]) == (
        found.ids.to_pylist(),
        reasons(rejected),
    )


def test_attributes_stay_with_their_rows():
    found, _ = messages(points(3, lat=[1.0, 91.0, 2.0], shop=["a", "b", "c"]))
    assert ["a", "c"] == found.attributes["shop"].to_pylist()


# --- times ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "+02:00"])
def test_timestamps_of_every_unit(unit, zone):
    """Times are instants: the zone of a column changes nothing, one without zone is UTC."""
    stamp = pa.array([-1, 1777593600, None]).cast(pa.timestamp("s")).cast(pa.timestamp(unit))
    column = stamp if zone is None else stamp.cast(pa.int64()).cast(pa.timestamp(unit, zone))
    assert [-1_000_000, 1777593600_000000, NO_TIME] == messages(points(3, time=column))[0].time.tolist()


def test_nanoseconds_are_cut_towards_the_past():
    column = pa.array([1999, -1], pa.timestamp("ns"))
    assert [1, -1] == messages(points(2, time=column))[0].time.tolist()


def test_times_beyond_the_calendar_are_rejected():
    far = pa.array([2**62, -(2**62), 253402300799, 253402300800], pa.timestamp("s"))
    found, rejected = messages(points(4, time=far))
    assert ([0, 1, 3], [253402300799_000000]) == ([row.row for row in rejected], found.time.tolist())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000),
        ("1970-01-01T02:00:01+02:00", 1_000_000),
        ("1970-01-01t00:00:01z", 1_000_000),
        ("1970-01-01 00:00:01.5Z", 1_500_000),
        ("1970-01-01T00:00:01.1234567Z", 1_123_456),
        ("1969-12-31T23:59:59.999999-00:00", -1),
    ],
)
def test_rfc_3339_text(text, expected):
    found, rejected = messages(points(2, time=[text, None]))
    assert ([expected, NO_TIME], []) == (found.time.tolist(), list(rejected))


@pytest.mark.parametrize(
    "text",
    [
        "1970-01-01T00:00:01",
        "1970-01-01",
        "1970-01-01T00:00Z",
        "0000-01-01T00:00:00Z",
        "1970-01-01T24:00:01Z",
        "1970-01-01T00:00:60Z",
        "1970-01-01T00:00:01+24:00",
        "9999-12-31T23:59:59-01:00",
        "",
        "١٩٧٠-01-01T00:00:01Z",
    ],
)
def test_text_that_is_no_time(text):
    """Neither a time without zone nor one that does not exist is guessed at."""
    found, rejected = messages(points(2, time=[text, "1970-01-01T00:00:00Z"]))
    assert ([(0, "time")], [0]) == (fields(rejected), found.time.tolist())


@given(st.datetimes(timezones=st.just(UTC)), st.sampled_from(["", "+05:30", "-11:00"]))
def test_written_times_read_back(at, zone):
    """Every datetime written as RFC 3339 gives its own microseconds, whatever the offset written."""
    text = at.replace(tzinfo=None).isoformat() + (zone or "Z")
    expected = message_from_or_none({"id": 1, "lon": 0, "lat": 0, "time": text})
    found, _ = messages(points(time=[text]))
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    wanted = [] if expected is None else [(expected.time - epoch) // timedelta(microseconds=1)]
    assert wanted == found.time.tolist()


def message_from_or_none(value):
    try:
        return message_from(value)
    except InvalidInput:
        return None


# --- subscriptions ----------------------------------------------------------------------------------------------


def test_subscriptions_with_every_region_form():
    """A row uses the one form it gives, in the order of rows."""
    words = WordTable()
    found, rejected = subscriptions(
        {
            "id": ["box", "circle", "area", "anywhere", "dict"],
            "query": ["b AND a", "c", "d OR e", "f", None],
            "west": [1.0, None, None, None, None],
            "south": [2.0, None, None, None, None],
            "east": [3.0, None, None, None, None],
            "north": [4.0, None, None, None, None],
            "lon": [None, 5.0, None, None, None],
            "lat": [None, 6.0, None, None, None],
            "radius_m": [None, 7.0, None, None, None],
            "region": [None, None, json.dumps(TRIANGLE), None, '{"type":"Circle","center":[1,2],"radius_m":3}'],
            "expires": [None, "1970-01-01T00:00:01Z", None, None, None],
        },
        words=words,
    )
    assert [] == list(rejected)
    assert [BOX, CIRCLE, POLYGON, ANYWHERE, CIRCLE] == found.regions.kind.tolist()
    assert [1.0, 2.0, 3.0, 4.0] == found.regions.part[0].tolist()
    assert [[5.0, 6.0, 7.0], [1.0, 2.0, 3.0]] == found.regions.circle.tolist()
    assert [1, 1, 2, 1, 1] == np.diff(found.clause_start).tolist()
    assert ["a", "b"] == sorted(words.word(term) for term in found.code[:2].tolist())
    assert [NO_TIME, 1_000_000, NO_TIME, NO_TIME, NO_TIME] == found.expires.tolist()


def test_box_over_the_dateline_is_cut_in_two():
    box = {"id": ["s"], "query": ["a"], "west": [170], "south": [-20], "east": [-170], "north": [-10]}
    found, _ = subscriptions(box)
    assert [[170.0, -20.0, 180.0, -10.0], [-180.0, -20.0, -170.0, -10.0]] == found.regions.part.tolist()


def test_regions_on_the_plane():
    found, rejected = subscriptions(
        {
            "id": [1, 2],
            "query": ["a", None],
            "x_min": [0, None],
            "y_min": [0, None],
            "x_max": [500, None],
            "y_max": [900, None],
            "x": [None, 400],
            "y": [None, 800],
            "radius": [None, 0.5],
        },
        PLANE,
    )
    assert ([BOX, CIRCLE], 0) == (found.regions.kind.tolist(), len(rejected))


def test_region_as_struct():
    """GeoJSON may come as nested Arrow values, with fields that only other rows have."""
    circle = {"type": "Circle", "center": [1.0, 2.0], "radius_m": 3.0}
    found, rejected = subscriptions({"id": ["a", "b", "c"], "query": ["q"] * 3, "region": [TRIANGLE, circle, None]})
    assert ([POLYGON, CIRCLE, ANYWHERE], []) == (found.regions.kind.tolist(), list(rejected))


def test_query_in_its_json_form_as_struct():
    query = {"and": [{"word": "a"}, {"not": {"word": "b"}}]}
    words = WordTable()
    found, rejected = subscriptions({"id": ["s", "t"], "query": [query, {"word": "c"}]}, words=words)
    assert ([], [3, 1]) == (list(rejected), np.diff(found.code_start).tolist())


BOX_NAMES = ("west", "south", "east", "north")


@pytest.mark.parametrize(
    ("row", "field", "reason"),
    [
        ({"id": None, "query": "a"}, "id", "there is no id"),
        ({"id": "a\x00b", "query": "a"}, "id", "zero byte"),
        ({"query": "a AND"}, "query", "column 3: AND has nothing after it"),
        ({"query": "(a"}, "query", "column 1: unclosed parenthesis"),
        ({"query": None}, "query", "needs a region"),
        ({"query": "  "}, "query", "needs a region"),
        ({"query": "NOT a"}, "query", "needs a region"),
        ({"kind": "near"}, "kind", "kind is 'near'; expected one of within, similar, topk"),
        ({"west": 1.0, "east": 2.0}, "south", "west, east given without south, north; give all of them"),
        ({"lon": 1.0, "lat": 1.0}, "radius_m", "lon, lat given without radius_m; give all of them"),
        ({"radius_m": 1.0}, "lon", "radius_m given without lon, lat; give all of them"),
        (
            {"lon": 1.0, "lat": 1.0, "radius_m": 1.0, "region": json.dumps(TRIANGLE)},
            "region",
            "two regions are given: lon, lat, radius_m and region; keep one",
        ),
        (
            {"lon": 1.0, "west": 1.0},
            "region",
            "two regions are given: west and lon; keep one",
        ),
        (dict(zip(BOX_NAMES, (0.0, 91.0, 1.0, 92.0), strict=True)), "south", "latitude 91.0 is beyond 90"),
        (dict(zip(BOX_NAMES, (0.0, 2.0, 1.0, 1.0), strict=True)), "south", "south 2.0 is above north 1.0; swap them"),
        (dict(zip(BOX_NAMES, (0.0, 2.0, float("nan"), 3.0), strict=True)), "east", "east is nan"),
        ({"lon": 1.0, "lat": 1.0, "radius_m": -1.0}, "radius_m", "radius_m is -1.0"),
        ({"region": json.dumps(BOW_TIE)}, "region", "Self-intersection"),
        ({"region": "{"}, "region", "not JSON"),
        ({"region": '{"type":"Point","coordinates":[1,2]}'}, "region", "expected a Polygon or MultiPolygon"),
        ({"expires": "soon"}, "expires", "expires is 'soon'; expected RFC 3339"),
        ({"kind": "similar", "lon": 1.0, "lat": 1.0, "threshold": 0.5}, "max_distance_m", "the hub has none"),
        ({"kind": "topk", "lon": 1.0, "lat": 1.0}, "max_distance_m", "the hub has none"),
        ({"kind": "similar", "lon": 1.0, "lat": 1.0}, "threshold", "has no threshold"),
        ({"kind": "topk", "lon": 1.0, "lat": 1.0, "query": "a OR b"}, "query", "OR has no meaning here"),
    ],
)
def test_bad_subscription_rows_are_rejected_alone(row, field, reason):
    """The row is named with its column and a reason on one line; the rows around it are there."""
    schema = pa.schema(
        [(name, pa.string()) for name in ("id", "kind", "query", "region", "expires")]
        + [(name, pa.float64()) for name in (*BOX_NAMES, "lon", "lat", "radius_m", "threshold")]
    )
    good = {"id": "s0", "query": "good", "kind": "within"}
    rows = [good, {"id": "s1", "query": "bad", **row}, {**good, "id": "s2", "query": "fine"}]
    words = WordTable()
    found, rejected = subscriptions(pa.Table.from_pylist(rows, schema), words=words, source="file", first_row=5)
    assert [("file", 6, field)] == [(each.source, each.row, each.field) for each in rejected]
    assert reason in next(iter(rejected)).reason
    assert "\n" not in next(iter(rejected)).reason
    assert (["s0", "s2"], ["good", "fine"]) == (
        found.ids.to_pylist(),
        [words.word(term) for term in found.code.tolist()],
    )


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"query": ["a"]}, "subscriptions: there is no column id"),
        ({"id": [1.0], "query": ["a"]}, "column id is of type double"),
        ({"id": ["s"], "query": [5]}, "column query is of type int64; expected text"),
        ({"id": ["s"], "kind": [1]}, "column kind is of type int64; expected text"),
        ({"id": ["s"], "region": [5]}, "column region is of type int64; expected GeoJSON as text or struct"),
        ({"id": ["s"], "west": ["1"]}, "column west is of type string; expected numbers"),
        ({"id": ["s"], "x_min": [1.0]}, "column x_min does not belong to the earth"),
        ({"id": ["s"], "expires": [17]}, "column expires is of type int64; expected timestamps"),
    ],
)
def test_subscription_columns_that_stop_the_table(columns, message):
    with pytest.raises(InvalidColumns, match=message) as caught:
        subscriptions(columns)
    assert "\n" not in str(caught.value)
    assert "--" not in str(caught.value)


@pytest.mark.parametrize("ids", [["s", "t", "s", "s"], [7, 3, 7, 7]])
def test_the_second_of_two_ids_is_rejected(ids):
    """The reason names the first row."""
    found, rejected = subscriptions({"id": ids, "query": ["a", "b", "c", "d"]}, first_row=100)
    assert ids[:2] == found.ids.to_pylist()
    named = f"id {ids[0]!r} is taken by row 100; give each subscription its own"
    assert [(102, "id", named), (103, "id", named)] == reasons(rejected)


def test_an_id_is_not_taken_by_a_row_that_was_rejected():
    found, rejected = subscriptions({"id": ["s", "s", "s"], "query": ["(", "a", "b"]})
    assert [(0, "query"), (2, "id")] == fields(rejected)
    assert "taken by row 1;" in list(rejected)[1].reason
    assert ["s"] == found.ids.to_pylist()


def test_words_of_rejected_rows_are_not_learned():
    words = WordTable()
    subscriptions({"id": ["s", None], "query": ["a", "unwanted"]}, words=words)
    assert ["a"] == words.words().to_pylist()


def test_many_good_rows_between_bad_ones_keep_their_order():
    """Rows on both sides of rejected ones keep ids, words and regions together."""
    n = 2000
    bad = np.arange(n) % 7 == 3
    lat = np.where(bad, 95.0, 0.0)
    lon = np.arange(n) / 100.0
    table = {
        "id": [f"s{i}" for i in range(n)],
        "query": [f"w{i}" for i in range(n)],
        "lon": lon,
        "lat": lat,
        "radius_m": np.ones(n),
    }
    words = WordTable()
    found, rejected = subscriptions(table, words=words)
    good = np.flatnonzero(~bad)
    assert [f"s{i}" for i in good] == found.ids.to_pylist()
    assert [f"w{i}" for i in good] == [words.word(term) for term in found.code.tolist()]
    assert lon[good].tolist() == found.regions.circle[:, 0].tolist()
    assert np.flatnonzero(bad).tolist() == [row.row for row in rejected]


@pytest.mark.modes
@pytest.mark.small
@given(st.lists(st.one_of(st.none(), st.sampled_from(["", "a", "aa", "b", "ä", "a\x00"])), max_size=30))
@settings(max_examples=60)
def test_repeated_ids_are_found_like_a_dictionary_finds_them(ids):
    first, expected = {}, []
    for row, value in enumerate(ids):
        if value is not None and value in first:
            expected.append((row, first[value]))
        elif value is not None:
            first[value] = row
    rows, before = repeated(pa.array(ids, pa.string()))
    assert expected == list(zip(rows.tolist(), before.tolist(), strict=True))
    codes = {value: at for at, value in enumerate(sorted({each for each in ids if each is not None}))}
    numbers = [None if value is None else -codes[value] for value in ids]
    rows, before = repeated(pa.array(numbers, pa.int64()))
    assert expected == list(zip(rows.tolist(), before.tolist(), strict=True))


def test_finding_repeated_ids_is_compiled_once():
    """Whatever string type and slice the ids come in, the kernel sees the same types."""
    ids = pa.array(["a", "b", None, "a"])
    assert [3] == repeated(ids)[0].tolist()
    assert [2] == repeated(ids.slice(1).cast(pa.large_string()).take(pa.array([0, 1, 0])))[0].tolist()
    assert [] == repeated(ids.slice(0, 0))[0].tolist()
    assert 1 == len(getattr(_first_rows, "signatures", [None]))


# --- values -----------------------------------------------------------------------------------------------------


def test_messages_table_of_values():
    """Messages, dicts and GeoJSON make rows; what is none of them is rejected under its number."""
    rejected = Rejected()
    values = [
        Message("m1", "hot dog", (13.4, 52.5), time="1970-01-01T00:00:01Z", attributes={"shop": 1, "lon": 2}),
        {"id": "m2", "terms": ["A"], "lon": 170, "lat": 1, "lon_max": -170, "lat_max": 2, "shop": "x"},
        {"id": "m3"},
        {"type": "Feature", "id": "m4", "geometry": {"type": "Point", "coordinates": [1, 2]}, "properties": {}},
        {"id": 5, "lon": 1, "lat": 2},
        {"id": "m6", "x": 1, "y": 2},
        {"id": "m7", "text": "\ud800", "lon": 1, "lat": 2},
        None,
    ]
    words = WordTable()
    table = messages_table(iter(values), EARTH, rejected=rejected, first_row=20, source="list")
    found = read_messages(table, EARTH, words, Analyzer(), add_words=True, rejected=rejected, source="list")
    assert ["m1", "m2", "m4"] == found.ids.to_pylist()
    assert [["hot", "dog"], ["A"], []] == [words_of(found, words, row) for row in range(3)]
    assert [[13.4, 52.5, 13.4, 52.5], [170.0, 1.0, -170.0, 2.0], [1.0, 2.0, 1.0, 2.0]] == found.box.tolist()
    assert [1_000_000, NO_TIME, NO_TIME] == found.time.tolist()
    assert {"shop": ["1", '"x"', None], "attributes.lon": [2, None, None]} == found.attributes.to_pydict()
    expected = [("list", 22, "place"), ("list", 24, "id"), ("list", 25, "x"), ("list", 26, "text"), ("list", 27, None)]
    assert expected == [(row.source, row.row, row.field) for row in rejected]


def test_subscriptions_table_of_values():
    """The three kinds and dicts make rows; later checks name them by their number among the values."""
    rejected = Rejected()
    values = [
        Within("s1", "a AND b", Box(170, 0, -170, 1)),
        {"id": "s2", "query": "c", "lon": 1, "lat": 2, "radius_m": 3},
        {"id": "s3", "query": "(c"},
        Within("s4", "d", TRIANGLE),
        Similar("s5", "ramen", (1, 2), threshold=0.5, max_distance=10),
        TopK("s6", "ramen", (1, 2), k=3),
        Within("s2", "again"),
        {"id": "s8", "query": "c", "x": 1, "y": 2, "radius": 3},
    ]
    table = subscriptions_table(values, EARTH, rejected=rejected)
    found = read_subscriptions(table, EARTH, WordTable(), Analyzer(), rejected=rejected)
    assert ["s1", "s2", "s4", "s5"] == found.ids.to_pylist()
    assert [BOX, CIRCLE, POLYGON, BOX] == found.regions.kind.tolist()
    assert [(2, "query"), (5, "max_distance_m"), (6, "id"), (7, "x")] == sorted(fields(rejected))


def test_no_values_make_empty_tables():
    rejected = Rejected()
    assert 0 == len(messages(messages_table([], PLANE, rejected=rejected), PLANE)[0])
    assert 0 == len(subscriptions(subscriptions_table([], PLANE, rejected=rejected), PLANE)[0])


def test_integer_ids_of_values_stay_integers():
    table = messages_table([{"id": 5, "x": 1, "y": 2}], PLANE, rejected=Rejected())
    assert [5] == messages(table, PLANE)[0].ids.to_pylist()


# --- tables and values agree ------------------------------------------------------------------------------------

coordinates = st.one_of(
    st.none(), st.sampled_from([0.0, 5.0, -5.0, 90.0, 90.5, 180.0, -180.0, 181.0, float("nan"), float("inf")])
)
message_rows = st.fixed_dictionaries(
    {
        "id": st.one_of(st.none(), st.sampled_from(["a", "b"])),
        "text": st.sampled_from([None, "hot dog"]),
        "lon": coordinates,
        "lat": coordinates,
        "lon_max": coordinates,
        "lat_max": coordinates,
        "time": st.sampled_from([None, None, None, "1970-01-01T00:00:01Z", "soon"]),
    }
)
MESSAGE_SCHEMA = pa.schema(
    [("id", pa.string()), ("text", pa.string())]
    + [(name, pa.float64()) for name in ("lon", "lat", "lon_max", "lat_max")]
    + [("time", pa.string())]
)


@given(st.lists(message_rows, max_size=6))
@settings(max_examples=60, deadline=None)
def test_a_table_and_its_rows_one_by_one_give_the_same_messages(rows):
    """A row of a table is good exactly if `message_from` takes it, and then has the same place."""
    found, rejected = messages(pa.Table.from_pylist(rows, MESSAGE_SCHEMA))
    expected = [(row, message) for row, value in enumerate(rows) if (message := message_from_or_none(value))]
    assert [message.id for _, message in expected] == found.ids.to_pylist()
    assert [list(message.box) for _, message in expected] == found.box.tolist()
    assert sorted(set(range(len(rows))) - {row for row, _ in expected}) == [row.row for row in rejected]


numbers = st.one_of(st.none(), st.none(), st.sampled_from([0.0, 1.0, 90.5, -180.0, 181.0, float("nan")]))
SUBSCRIPTION_NUMBERS = ("west", "south", "east", "north", "lon", "lat", "radius_m")
subscription_rows = st.fixed_dictionaries(
    {
        "id": st.one_of(st.none(), st.uuids().map(str)),
        "kind": st.sampled_from([None, "within", "within", "other"]),
        "query": st.sampled_from([None, "a", "a b", "NOT a", "(a", "a OR b"]),
        "region": st.sampled_from([None, None, None, json.dumps(TRIANGLE), json.dumps(BOW_TIE), "x"]),
        **dict.fromkeys(SUBSCRIPTION_NUMBERS, numbers),
    }
)
SUBSCRIPTION_SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("id", "kind", "query", "region")]
    + [(name, pa.float64()) for name in SUBSCRIPTION_NUMBERS]
)


def subscription_from_or_none(value):
    try:
        return subscription_from(value)
    except InvalidInput:
        return None


@given(st.lists(st.one_of(subscription_rows, subscription_rows.map(lambda row: {**row, **BOX_ONLY})), max_size=6))
@settings(max_examples=60, deadline=None)
def test_a_table_and_its_rows_one_by_one_give_the_same_subscriptions(rows):
    """A row of a table is good exactly if `subscription_from` takes it, and then has the same region."""
    found, rejected = subscriptions(pa.Table.from_pylist(rows, SUBSCRIPTION_SCHEMA))
    expected = [(row, value) for row, each in enumerate(rows) if (value := subscription_from_or_none(each))]
    assert [value.id for _, value in expected] == found.ids.to_pylist()
    assert [value.region for _, value in expected] == [found.regions.shape_of(row) for row in range(len(found))]
    assert sorted(set(range(len(rows))) - {row for row, _ in expected}) == [row.row for row in rejected]


BOX_ONLY = {**dict.fromkeys(SUBSCRIPTION_NUMBERS), "region": None, "west": 1.0, "south": 0.0, "east": 2.0, "north": 1.0}


def test_the_table_given_is_not_changed():
    table = pa.table(points(2, lat=[91.0, 1.0]))
    before = table.to_pydict()
    found, _ = messages(table)
    found.box[:] = 0
    assert before == table.to_pydict()
    assert pc.sum(table["lon"]).as_py() == 2.0
