"""Messages, subscriptions and deliveries: what they accept, what they refuse, and how they read."""

import contextlib
import dataclasses
import math
import pickle
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from nearcast import model
from nearcast.errors import InvalidInput, InvalidMessage, InvalidQuery, InvalidRegion, InvalidSubscription
from nearcast.geo import Area, Box, Circle, Space
from nearcast.model import Delivery, Message, Similar, TopK, Within, message_from, subscription_from
from nearcast.query import parse

HERE = (13.4, 52.5)
SQUARE = {"type": "Polygon", "coordinates": [[[0, 0], [4, 0], [4, 3], [0, 3], [0, 0]]]}
VALUES = [
    Message("m1", "free coffee", HERE, terms=["a", "b"], time="2026-05-01T09:00:00Z", attributes={"shop": "Roast"}),
    Message(7, None, (170, -1, -170, 1)),
    Within("s1", "ipad AND NOT used", Box(0, 0, 1, 1), expires="2026-05-01T09:00:00Z"),
    Within("s1", "", Area(SQUARE)),
    Similar("s2", "ramen noodles", HERE, threshold=0.4, similarity="dice", max_distance=100),
    TopK(3, "jazz", HERE, k=3, text_weight=1),
    Delivery("s1", "m1", "-", 0.5, 2, None, datetime(2026, 5, 1, tzinfo=UTC), "x", "v"),
]


def feature(geometry, id="f1", **properties):  # noqa: A002
    return {"type": "Feature", "id": id, "geometry": geometry, "properties": properties}


class Thing:
    """An object of some other library."""

    def __init__(self, geometry, **attributes):
        self.__geo_interface__ = geometry
        self.__dict__.update(attributes)


class TestValues:
    @pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
    def test_are_frozen(self, value):
        """Nothing changes after it was made."""
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, dataclasses.fields(value)[0].name, "other")

    @pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
    def test_survive_pickling_with_equality_and_hash(self, value):
        """A copy from another process is the same value."""
        again = pickle.loads(pickle.dumps(value))
        assert value == again
        assert hash(value) == hash(again)

    @pytest.mark.parametrize("value", VALUES[:-1], ids=lambda value: type(value).__name__)
    def test_repr_can_be_typed_in_again(self, value):
        """What is printed makes the same value."""
        assert value == eval(repr(value), {**vars(model), "Box": Box, "Area": Area})

    def test_repr_leaves_out_what_was_not_given(self):
        """A short message has a short repr."""
        assert "Message(id='m', text='hi', place=(1.0, 2.0))" == repr(Message("m", "hi", (1, 2)))

    @pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
    def test_replace_validates_again(self, value):
        """A changed copy is checked like a new value."""
        assert value == dataclasses.replace(value)

    def test_kinds_have_their_column_name(self):
        """The kind is known without isinstance."""
        assert ["within", "similar", "topk"] == [Within.kind, Similar.kind, TopK.kind]

    @pytest.mark.parametrize("bad", [None, True, 1.5, b"x", 2**63, -(2**63) - 1, "\ud800", ["a"]])
    def test_ids_are_text_or_whole_numbers(self, bad):
        """An id fits a column of strings or of 64-bit integers."""
        with pytest.raises(InvalidMessage, match="id"):
            Message(bad, "x", HERE)
        with pytest.raises(InvalidSubscription, match="id"):
            Within(bad, "x")

    @pytest.mark.parametrize(("given", "expected"), [("é", "é"), (0, 0), (np.int32(5), 5), (2**63 - 1, 2**63 - 1)])
    def test_ids_keep_their_type(self, given, expected):
        """Text stays text and numbers become plain ints."""
        actual = Message(given, "x", HERE).id
        assert (expected, type(expected)) == (actual, type(actual))


class TestTimes:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            ("2026-05-01T09:00:00Z", datetime(2026, 5, 1, 9, tzinfo=UTC)),
            ("2026-05-01t09:00:00z", datetime(2026, 5, 1, 9, tzinfo=UTC)),
            ("2026-05-01 09:00:00.25+02:00", datetime(2026, 5, 1, 7, 0, 0, 250_000, tzinfo=UTC)),
            ("2026-05-01T09:00:00.123456789Z", datetime(2026, 5, 1, 9, 0, 0, 123_456, tzinfo=UTC)),
            (datetime(2026, 5, 1, 9, tzinfo=timezone(timedelta(hours=-3))), datetime(2026, 5, 1, 12, tzinfo=UTC)),
            (None, None),
        ],
    )
    def test_are_kept_in_utc(self, value, expected):
        """Any offset names the same instant."""
        actual = Message("m", "x", HERE, time=value).time
        assert expected == actual
        assert actual is None or actual.tzinfo is UTC

    @pytest.mark.parametrize(
        "bad",
        [
            datetime(2026, 5, 1),  # noqa: DTZ001
            "2026-05-01T09:00:00",
            "2026-05-01",
            "20260501T090000Z",
            "2026-02-30T09:00:00Z",
            "2026-05-01T25:00:00Z",
            "٢٠٢٦-05-01T09:00:00Z",
            "0001-01-01T00:00:00+12:00",
            "soon",
            1_770_000_000,
            "",
        ],
    )
    def test_that_name_no_instant_are_refused(self, bad):
        """A time without an offset, or none at all, is an error that says what is wanted."""
        with pytest.raises(InvalidMessage, match="time"):
            Message("m", "x", HERE, time=bad)
        with pytest.raises(InvalidSubscription, match="expires"):
            Within("s", "x", expires=bad)

    def test_of_pandas_become_plain_datetimes(self):
        """A subclass of datetime is not kept."""
        pandas = pytest.importorskip("pandas")
        actual = Message("m", "x", HERE, time=pandas.Timestamp("2026-05-01T09:00:00Z")).time
        assert (datetime, datetime(2026, 5, 1, 9, tzinfo=UTC)) == (type(actual), actual)


class TestMessage:
    @pytest.mark.parametrize(
        ("place", "expected"),
        [
            ((1, 2), (1.0, 2.0)),
            ([1, 2, 3, 4], (1.0, 2.0, 3.0, 4.0)),
            (np.array([1.5, 2.5]), (1.5, 2.5)),
            (Box(1, 2, 3, 4), (1.0, 2.0, 3.0, 4.0)),
            ((170, 0, -170, 1), (170.0, 0.0, -170.0, 1.0)),
            ((1000, 2000), (1000.0, 2000.0)),
            ({"type": "Point", "coordinates": [1, 2, 99]}, (1.0, 2.0)),
            (shapely.Point(1, 2), (1.0, 2.0)),
            (shapely.box(0, 0, 4, 3), (0.0, 0.0, 4.0, 3.0)),
            (SQUARE, (0.0, 0.0, 4.0, 3.0)),
        ],
    )
    def test_place_may_be_written_in_many_ways(self, place, expected):
        """A place becomes plain floats."""
        assert expected == Message("m", "x", place).place

    @pytest.mark.parametrize(
        "place",
        [
            None,
            (1,),
            (1, 2, 3),
            (math.nan, 1),
            (1, math.inf),
            ("1", 2),
            (True, 2),
            (0, 5, 1, 4),
            "here",
            5,
            {"type": "Point"},
            {"type": "Point", "coordinates": [1]},
            {"type": "Point", "coordinates": [0, 91]},
            {"type": "LineString", "coordinates": [[0, 0], [1, 1]]},
            {"type": "Polygon", "coordinates": [[[0, 0], [4, 0], [0, 3], [0, 0]]]},
            {"type": "Polygon", "coordinates": [[[0, 0], [4, 3], [4, 0], [0, 3], [0, 0]]]},
            {"type": "Polygon", "coordinates": []},
            {"type": "Polygon", "coordinates": [7]},
        ],
    )
    def test_what_is_no_place_is_refused(self, place):
        """A message needs a point or a rectangle of finite numbers."""
        with pytest.raises(InvalidMessage) as caught:
            Message("m", "x", place)
        assert "\n" not in str(caught.value)

    def test_box_of_a_point_has_equal_corners(self):
        """Indexes see rectangles only."""
        assert (1.0, 2.0, 1.0, 2.0) == Message("m", "x", (1, 2)).box
        assert (1.0, 2.0, 3.0, 4.0) == Message("m", "x", (1, 2, 3, 4)).box

    @pytest.mark.parametrize(
        ("place", "on_earth", "on_plane"),
        [((0, 90), True, True), ((0, 91), False, True), ((181, 0), False, True), ((5, 0, 4, 1), True, False)],
    )
    def test_check_depends_on_the_space(self, place, on_earth, on_plane):
        """A latitude of 91 is fine on a plane, a rectangle over the dateline on the earth."""
        for space, fits in ((Space.earth(), on_earth), (Space.plane(), on_plane)):
            try:
                Message("m", "x", place).check(space)
            except InvalidMessage:
                assert not fits
            else:
                assert fits

    @pytest.mark.parametrize("bad", ["words", b"x", 5, ["a", 1], {"a": 1}, [None]])
    def test_terms_are_a_list_of_words(self, bad):
        """Text given as terms would become a list of letters."""
        with pytest.raises(InvalidMessage, match="terms"):
            Message("m", None, HERE, terms=bad)

    def test_text_must_be_text(self):
        """Bytes and numbers are no text."""
        with pytest.raises(InvalidMessage, match="text"):
            Message("m", b"x", HERE)

    def test_attributes_are_copied(self):
        """The caller's dict may change, the message does not."""
        attributes = {"a": 1}
        message = Message("m", "x", HERE, attributes=attributes)
        attributes["a"] = 2
        assert {"a": 1} == message.attributes

    def test_attributes_may_hold_what_cannot_be_hashed(self):
        """A message can be put in a set whatever travels with it."""
        assert hash(Message("m", "x", HERE, attributes={"a": [1]})) == hash(Message("m", "x", HERE))
        assert Message("m", "x", HERE, attributes={"a": [1]}) != Message("m", "x", HERE)

    def test_attributes_must_be_a_dict(self):
        """Attributes have names."""
        with pytest.raises(InvalidMessage, match="attributes"):
            Message("m", "x", HERE, attributes=[1])


class TestMessageFrom:
    @pytest.mark.parametrize(
        ("row", "field", "reason"),
        [
            ({"lon": 0, "lat": 9, "lon_max": 1, "lat_max": 5}, "lat_max", "lat_max 5 is below lat 9; swap them"),
            ({"lon": 0, "lat": "x"}, "lat", "lat is 'x'; expected a finite number"),
            ({"x": 10**400, "y": 0}, "x", "expected a finite number"),
        ],
    )
    def test_a_bad_place_is_named_as_its_columns_are(self, row, field, reason):
        """The column at fault, with its value."""
        with pytest.raises(InvalidMessage, match=reason) as caught:
            message_from({"id": 1, "text": "a", **row})
        assert field == caught.value.field

    @pytest.mark.parametrize(
        ("row", "expected"),
        [
            ({"id": 1, "text": "hi", "lon": 13.4, "lat": 52.5}, Message(1, "hi", HERE)),
            ({"id": 1, "terms": ["a"], "x": 1, "y": 200}, Message(1, None, (1, 200), terms=["a"])),
            ({"id": 1, "lon": 1, "lat": 2, "lon_max": 3, "lat_max": 4}, Message(1, None, (1, 2, 3, 4))),
            ({"id": 1, "x": 1, "y": 2, "x_max": 3, "y_max": 4}, Message(1, None, (1, 2, 3, 4))),
            ({"id": 1, "lon": 1, "lat": 2, "lon_max": None, "lat_max": None, "text": None}, Message(1, None, (1, 2))),
            (
                {"id": 1, "lon": 1, "lat": 2, "n": 5, "type": "a"},
                Message(1, None, (1, 2), attributes={"n": 5, "type": "a"}),
            ),
            (
                {"id": 1, "lon": 1, "lat": 2, "time": "2026-05-01T09:00:00Z", "expires": "2026-05-02T09:00:00Z"},
                Message(1, None, (1, 2), time="2026-05-01T09:00:00Z", expires="2026-05-02T09:00:00Z"),
            ),
        ],
    )
    def test_columns(self, row, expected):
        """A dict with the names of the interchange columns is a message."""
        assert expected == message_from(row)

    @pytest.mark.parametrize("message", VALUES[:2])
    def test_a_message_and_its_dict(self, message):
        """A message is itself, and what `dataclasses.asdict` makes of one is read back."""
        assert message is message_from(message)
        assert message == message_from(dataclasses.asdict(message))

    @pytest.mark.parametrize(
        ("row", "reason"),
        [
            ({"text": "hi", "lon": 1, "lat": 2}, "no id"),
            ({"id": 1, "text": "hi"}, "no place"),
            ({"id": 1, "lon": 1}, "without lat"),
            ({"id": 1, "lon": 1, "lat": 2, "lon_max": 3}, "without lat_max"),
            ({"id": 1, "lon": 1, "lat": 2, "x": 3, "y": 4}, "together"),
            ({"id": 1, "lon": 1, "lat": 91}, "latitude 91"),
            ({"id": 1, "lon": -181, "lat": 9}, "longitude -181"),
            ({"id": 1, "lon": math.nan, "lat": 9}, "nan"),
            ({"id": 1, "lon": "1", "lat": 9}, "lon is '1'; expected a finite number"),
            (feature({"type": "Point", "coordinates": [0, 91]}), "latitude 91"),
            (feature(None), "neither"),
            (feature({"type": "Point", "coordinates": [0, 1]}, id=None), "no id"),
            ({**feature(SQUARE), "properties": [1]}, "properties"),
            (42, "expected a dict"),
            ("text", "expected a dict"),
            (None, "expected a dict"),
        ],
    )
    def test_refuses_what_is_no_message(self, row, reason):
        """One line says what is missing or wrong."""
        with pytest.raises(InvalidMessage, match=reason):
            message_from(row)

    def test_geojson_point(self):
        """Properties are the fields, the rest attributes."""
        given = feature({"type": "Point", "coordinates": [13.4, 52.5]}, text="hi", time="2026-05-01T09:00:00Z", n=1)
        assert Message("f1", "hi", HERE, time="2026-05-01T09:00:00Z", attributes={"n": 1}) == message_from(given)

    def test_geojson_id_may_be_a_property(self):
        """Many files keep the id there."""
        given = {"type": "Feature", "geometry": {"type": "Point", "coordinates": [1, 2]}, "properties": {"id": 9}}
        assert Message(9, None, (1, 2)) == message_from(given)

    @pytest.mark.parametrize("turn", [1, -1])
    @pytest.mark.parametrize("start", range(4))
    def test_geojson_rectangle_from_any_corner(self, turn, start):
        """Wherever the ring starts and whichever way it winds."""
        corners = [[0, 0], [4, 0], [4, 3], [0, 3]][::turn]
        ring = corners[start:] + corners[: start + 1]
        assert (0.0, 0.0, 4.0, 3.0) == message_from(feature({"type": "Polygon", "coordinates": [ring]})).place

    def test_geojson_rectangle_over_the_dateline(self):
        """As for regions, a jump of more than 180 degrees goes the short way."""
        ring = [[170, 0], [-170, 0], [-170, 3], [170, 3], [170, 0]]
        assert (170.0, 0.0, -170.0, 3.0) == message_from(feature({"type": "Polygon", "coordinates": [ring]})).place

    def test_geojson_rectangle_of_the_whole_earth(self):
        """A ring that ends at ±180 is taken as written."""
        world = shapely.geometry.mapping(shapely.box(-180, -90, 180, 90))
        assert (-180.0, -90.0, 180.0, 90.0) == message_from(feature(world)).place

    @pytest.mark.parametrize("bbox", [[170, 0, -170, 3], [170, 0, 55, -170, 3, 66]])
    def test_geojson_bbox_alone(self, bbox):
        """A Feature without geometry may have a box."""
        assert (170.0, 0.0, -170.0, 3.0) == message_from(
            {"type": "Feature", "id": 1, "geometry": None, "bbox": bbox}
        ).place

    def test_objects_with_a_geo_interface(self):
        """A Feature speaks for itself; a bare geometry is joined by the object's own attributes."""
        spot = {"type": "Point", "coordinates": [13.4, 52.5]}
        assert Message("f1", "hi", HERE) == message_from(Thing(feature(spot, text="hi")))
        assert Message("t", "hi", HERE) == message_from(Thing(spot, id="t", text="hi"))


class TestWithin:
    @pytest.mark.parametrize("query", ["ipad AND NOT used", {"and": [{"word": "ipad"}, {"not": {"word": "used"}}]}])
    def test_query_is_text_json_or_tree(self, query):
        """All forms of a query are kept as text that means the same."""
        tree = parse(query)
        assert tree == parse(Within("s", query).query) == parse(Within("s", tree).query)

    def test_text_is_kept_as_written(self):
        """What the user typed is what the user sees again."""
        assert "IPad  AND discount" == Within("s", "IPad  AND discount").query

    @pytest.mark.parametrize("query", ["(ipad", "ipad AND", 'a "b', 5, {"nonsense": 1}])
    def test_a_bad_query_is_refused_when_made(self, query):
        """Errors of the query surface at once."""
        with pytest.raises(InvalidQuery):
            Within("s", query)

    def test_a_query_beyond_the_limits_is_refused_when_made(self):
        """So do queries that explode."""
        with pytest.raises(InvalidQuery):
            Within("s", " ".join(f"(a{i} OR b{i})" for i in range(12)))

    @pytest.mark.parametrize("query", ["", "   ", None, "NOT used", "ipad OR NOT used"])
    def test_a_query_without_needed_word_needs_a_region(self, query):
        """Otherwise it would deliver everything."""
        with pytest.raises(InvalidSubscription, match="region"):
            Within("s", query)
        assert Box(0, 0, 1, 1) == Within("s", query, (0, 0, 1, 1)).region

    @pytest.mark.parametrize(
        ("region", "expected"),
        [
            ([0, 0, 1, 1], Box(0, 0, 1, 1)),
            (SQUARE, Area(SQUARE)),
            (shapely.geometry.shape(SQUARE), Area(SQUARE)),
            ({"type": "Circle", "center": [0, 0], "radius_m": 5}, Circle(0, 0, 5)),
            ({"type": "Circle", "center": [0, 0], "radius": 5}, Circle(0, 0, 5)),
            (None, None),
        ],
    )
    def test_region_becomes_a_shape(self, region, expected):
        """Anything `shape_from` takes will do."""
        assert expected == Within("s", "x", region).region

    @pytest.mark.parametrize("region", ["nonsense", [0, 0, math.nan, 1], [0, 5, 1, 4], 7])
    def test_a_bad_region_is_refused_when_made(self, region):
        """What is wrong in any space is wrong at once."""
        with pytest.raises(InvalidRegion):
            Within("s", "x", region)

    def test_check_depends_on_the_space(self):
        """A latitude of 91 is refused by the earth only."""
        far = Within("s", "x", [0, 0, 1, 91])
        far.check(Space.plane())
        Within("s", "x").check(Space.earth())
        with pytest.raises(InvalidRegion, match="latitude 91"):
            far.check(Space.earth())


class TestScored:
    def test_defaults(self):
        """Half words, half nearness; ten results."""
        similar, top = Similar("s", "a", HERE, threshold=0.5), TopK("s", "a", HERE)
        assert (0.5, None, "tsim") == (similar.text_weight, similar.max_distance, similar.similarity)
        assert (0.5, None, 10) == (top.text_weight, top.max_distance, top.k)

    @pytest.mark.parametrize(
        ("fields", "name"),
        [
            ({"text_weight": -0.1}, "text_weight"),
            ({"text_weight": 1.1}, "text_weight"),
            ({"text_weight": math.nan}, "text_weight"),
            ({"text_weight": "0.5"}, "text_weight"),
            ({"max_distance": 0}, "max_distance"),
            ({"max_distance": -1}, "max_distance"),
            ({"max_distance": math.inf}, "max_distance"),
            ({"place": None}, "place"),
            ({"place": (0, 0, 1, 1)}, "place"),
            ({"place": (0, math.nan)}, "place"),
            ({"terms": "ab"}, "terms"),
            ({"query": 5}, "query"),
            ({"query": parse("a")}, "query"),
        ],
    )
    def test_fields_in_common_are_checked(self, fields, name):
        """Each error names its field."""
        for kind, own in ((Similar, {"threshold": 0.5}), (TopK, {"k": 5})):
            with pytest.raises(InvalidSubscription) as caught:
                kind("s", **{"query": "a", "place": HERE, **own, **fields})
            assert name == caught.value.field

    @pytest.mark.parametrize("threshold", [0, -0.5, 1.01, math.nan, None, True])
    def test_threshold_is_above_zero_and_at_most_one(self, threshold):
        """Everything would reach 0, and nothing more than 1."""
        with pytest.raises(InvalidSubscription, match="threshold"):
            Similar("s", "a", HERE, threshold=threshold)

    @pytest.mark.parametrize("k", [0, -1, 1001, 2.0, True, None, "5"])
    def test_k_is_a_whole_number_up_to_a_thousand(self, k):
        """k counts results."""
        with pytest.raises(InvalidSubscription, match="k is"):
            TopK("s", "a", HERE, k=k)

    @pytest.mark.parametrize("k", [1, 1000, np.int64(7)])
    def test_k_at_its_limits(self, k):
        """1 and 1000 are fine, and NumPy's integers too."""
        assert type(TopK("s", "a", HERE, k=k).k) is int

    @pytest.mark.parametrize("more", [{"query": "a\ud800b"}, {"terms": ["tea", "\udfff"]}])
    def test_half_a_character_is_refused(self, more):
        """No file and no table could hold it."""
        for kind, own in ((Similar, {"threshold": 0.5}), (TopK, {})):
            with pytest.raises(InvalidSubscription, match="holds half a character") as caught:
                kind("s", **{"query": "a", "place": HERE, **own, **more})
            assert next(iter(more)) == caught.value.field

    def test_without_words_the_reason_says_what_would_do(self):
        """Lowering the threshold helps only where nearness counts at all."""
        with pytest.raises(InvalidSubscription, match=r"never reaches 0\.6; add words or lower the threshold to 0\.5$"):
            Similar("s", "", HERE, threshold=0.6)
        with pytest.raises(InvalidSubscription, match=r"never reaches 0\.6; add words$"):
            Similar("s", "", HERE, threshold=0.6, text_weight=1)

    def test_unknown_similarity(self):
        """The names that exist are listed."""
        with pytest.raises(InvalidSubscription, match="tsim, overlap, jaccard, dice, cosine"):
            Similar("s", "a", HERE, threshold=0.5, similarity="bm25")

    @pytest.mark.parametrize("query", ["a OR b", "NOT a", "a AND b", '"hot dog"', "“hot dog”", "(NOT a)"])
    def test_operators_and_quotes_are_refused(self, query):
        """Plain words only; the error shows where."""
        for make in (lambda: Similar("s", query, HERE, threshold=0.5), lambda: TopK("s", query, HERE)):
            with pytest.raises(InvalidQuery, match=r"\^"):
                make()

    def test_the_caret_stands_under_the_operator(self):
        """Line and column count from one."""
        with pytest.raises(InvalidQuery) as caught:
            TopK("s", "hot dog\nor NOT", HERE)
        assert (2, 4) == (caught.value.line, caught.value.column)

    @pytest.mark.parametrize("query", ["rock and roll", "not today", "#AND", "ANDROID", "NOTES", "don't"])
    def test_lower_case_operators_are_words(self, query):
        """Only the upper-case words are operators."""
        assert query == TopK("s", query, HERE).query

    def test_no_words(self):
        """Top-k needs a word; Similar only if nearness alone cannot reach the threshold."""
        with pytest.raises(InvalidSubscription, match="word"):
            TopK("s", " ", HERE)
        with pytest.raises(InvalidSubscription, match="without words"):
            Similar("s", "", HERE, threshold=0.6, text_weight=0.5)
        assert "" == Similar("s", "", HERE, threshold=0.5, text_weight=0.5).query
        assert ("a",) == TopK("s", place=HERE, terms=["a"]).terms

    def test_check_depends_on_the_space(self):
        """A place beyond the pole is refused by the earth only."""
        for value in (Similar("s", "a", (0, 91), threshold=0.5), TopK("s", "a", (0, 91))):
            value.check(Space.plane())
            with pytest.raises(InvalidSubscription, match="latitude 91"):
                value.check(Space.earth())


class TestDelivery:
    def test_change_is_plus_or_minus(self):
        """There are two changes, in ASCII."""
        with pytest.raises(InvalidInput, match="change"):
            Delivery("s", "m", "−")


class TestSubscriptionFrom:
    @pytest.mark.parametrize(
        ("row", "expected"),
        [
            ({"id": 1, "query": "a"}, Within(1, "a")),
            ({"id": 1, "kind": "within", "query": "a", "region": None}, Within(1, "a")),
            ({"id": 1, "west": 170, "south": 0, "east": -170, "north": 1}, Within(1, "", Box(170, 0, -170, 1))),
            ({"id": 1, "query": None, "lon": 1, "lat": 2, "radius_m": 3}, Within(1, "", Circle(1, 2, 3))),
            ({"id": 1, "region": SQUARE}, Within(1, "", Area(SQUARE))),
            ({"id": 1, "x_min": 0, "y_min": 0, "x_max": 900, "y_max": 900}, Within(1, "", Box(0, 0, 900, 900))),
            ({"id": 1, "x": 1, "y": 200, "radius": 3}, Within(1, "", Circle(1, 200, 3))),
            ({"id": 1, "query": "a", "note": None}, Within(1, "a")),
            (
                {"id": 1, "kind": "similar", "query": "a", "lon": 1, "lat": 2, "threshold": 0.3, "max_distance_m": 9},
                Similar(1, "a", (1, 2), threshold=0.3, max_distance=9),
            ),
            (
                {
                    "id": 1,
                    "kind": "similar",
                    "terms": ["a"],
                    "x": 1,
                    "y": 2,
                    "threshold": 0.3,
                    "similarity": "dice",
                },
                Similar(1, "", (1, 2), terms=["a"], threshold=0.3, similarity="dice"),
            ),
            (
                {"id": 1, "kind": "topk", "query": "a", "x": 1, "y": 200, "k": 3, "max_distance": 9, "text_weight": 0},
                TopK(1, "a", (1, 200), k=3, max_distance=9, text_weight=0),
            ),
        ],
    )
    def test_columns(self, row, expected):
        """A dict with the names of the interchange columns is a subscription."""
        assert expected == subscription_from(row)

    @pytest.mark.parametrize("value", VALUES[2:6], ids=lambda value: type(value).__name__)
    def test_a_subscription_and_its_dict(self, value):
        """A subscription is itself, and its fields under its kind are read back."""
        fields = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        assert value is subscription_from(value)
        assert value == subscription_from({"kind": value.kind, **fields})

    @pytest.mark.parametrize(
        ("row", "error", "reason"),
        [
            ({"query": "a"}, InvalidSubscription, "no id"),
            ({"id": 1}, InvalidSubscription, "region"),
            ({"id": 1, "kind": "nearby", "query": "a"}, InvalidSubscription, "within, similar or topk"),
            (
                {"id": 1, "query": "a", "west": 0, "south": 0},
                InvalidSubscription,
                "west, south given without east, north",
            ),
            ({"id": 1, "query": "a", "lon": 0, "lat": 0}, InvalidSubscription, "without radius_m"),
            ({"id": 1, "query": "a", "radius_m": 5}, InvalidSubscription, "without lon, lat"),
            (
                {"id": 1, "lon": 0, "lat": 0, "radius_m": 5, "region": SQUARE},
                InvalidSubscription,
                "two regions",
            ),
            ({"id": 1, "lon": 0, "lat": 0, "radius_m": 5, "west": 1}, InvalidSubscription, "two regions"),
            ({"id": 1, "lon": 0, "lat": 0, "radius": 5}, InvalidSubscription, "belongs to the earth"),
            ({"id": 1, "west": 0, "south": 0, "east": 1, "north": 91}, InvalidRegion, "latitude 91"),
            ({"id": 1, "x_min": 2, "y_min": 0, "x_max": 1, "y_max": 9}, InvalidRegion, "above"),
            ({"id": 1, "lon": 0, "lat": 91, "radius_m": 5}, InvalidRegion, "latitude 91"),
            ({"id": 1, "query": "(a"}, InvalidQuery, "parenthesis"),
            ({"id": 1, "kind": "topk", "query": "a"}, InvalidSubscription, "place"),
            ({"id": 1, "kind": "topk", "query": "a", "lon": 1}, InvalidSubscription, "place"),
            ({"id": 1, "kind": "topk", "query": "a", "lon": 1, "lat": 91}, InvalidSubscription, "latitude 91"),
            ({"id": 1, "kind": "topk", "query": "a", "lon": 1, "lat": "2"}, InvalidSubscription, "numbers"),
            (
                {"id": 1, "kind": "topk", "query": "a", "lon": 1, "lat": 2, "max_distance": 5},
                InvalidSubscription,
                "earth",
            ),
            (
                {"id": 1, "kind": "topk", "query": "a", "lon": 1, "lat": 2, "radius_m": 5},
                InvalidSubscription,
                "radius_m",
            ),
            ({"id": 1, "kind": "similar", "query": "a", "lon": 1, "lat": 2}, InvalidSubscription, "threshold"),
            (feature({"type": "LineString", "coordinates": [[0, 0], [1, 1]]}, query="a"), InvalidRegion, "LineString"),
            (feature({"type": "Point", "coordinates": [0, 0]}, query="a"), InvalidSubscription, "without radius_m"),
            ([1], InvalidSubscription, "expected a dict"),
        ],
    )
    def test_refuses_what_is_no_subscription(self, row, error, reason):
        """Half a region, two regions, mixed spaces, and all a constructor refuses."""
        with pytest.raises(error, match=reason):
            subscription_from(row)

    @pytest.mark.parametrize(
        ("row", "field", "reason"),
        [
            ({"west": 0, "south": 9, "east": 1, "north": 5}, "south", "south 9.0 is above north 5.0; swap them"),
            ({"west": 0, "south": 0, "east": 200, "north": 5}, "east", "longitude 200.0 is beyond 180"),
            ({"west": 0, "south": -91, "east": 20, "north": 5}, "south", "latitude -91.0 is beyond 90"),
            ({"west": "0", "south": 0, "east": 1, "north": 5}, "west", "west is '0'; expected a number"),
            ({"west": 0, "south": 0, "east": 1, "north": float("nan")}, "north", "north is nan"),
            ({"lon": 0, "lat": 0, "radius_m": -1}, "radius_m", "radius_m is -1.0; expected 0 or more"),
            ({"lon": "0", "lat": 0, "radius_m": 1}, "lon", "lon is '0'; expected a number"),
            ({"region": [0, 9, 1, 5]}, "south", "south 9.0 is above north 5.0"),
        ],
    )
    def test_a_bad_region_on_the_earth_is_named_as_its_columns_are(self, row, field, reason):
        """West, south, east and north, not x_min; the radius in metres."""
        with pytest.raises(InvalidRegion, match=reason) as caught:
            subscription_from({"id": 1, "query": "a", **row}, Space.earth())
        assert field == caught.value.field

    def test_a_bad_box_on_a_plane_is_named_as_its_columns_are(self):
        """x_min, y_min, x_max and y_max."""
        with pytest.raises(InvalidRegion, match=r"y_min 9\.0 is above y_max 5\.0") as caught:
            subscription_from({"id": 1, "query": "a", "x_min": 0, "y_min": 9, "x_max": 1, "y_max": 5})
        assert "y_min" == caught.value.field

    def test_geojson_polygon(self):
        """A Feature of a polygon asks within it."""
        assert Within("f1", "a", Area(SQUARE)) == subscription_from(feature(SQUARE, query="a"))

    def test_geojson_is_on_the_earth(self):
        """A polygon beyond the pole is refused."""
        high = {"type": "Polygon", "coordinates": [[[0, 0], [4, 0], [0, 91], [0, 0]]]}
        with pytest.raises(InvalidRegion, match="latitude 91"):
            subscription_from(feature(high))

    def test_geojson_without_geometry(self):
        """A null geometry is anywhere, unless a bbox says where."""
        assert Within("f1", "a") == subscription_from(feature(None, query="a"))
        boxed = {**feature(None, query="a"), "bbox": [0, 0, 1, 1]}
        assert Within("f1", "a", Box(0, 0, 1, 1)) == subscription_from(boxed)

    def test_geojson_point(self):
        """A point is a place, or with a radius a circle."""
        spot = {"type": "Point", "coordinates": [13.4, 52.5]}
        assert Within("f1", "a", Circle(13.4, 52.5, 8)) == subscription_from(feature(spot, query="a", radius_m=8))
        assert TopK("f1", "a", HERE, k=2) == subscription_from(feature(spot, query="a", kind="topk", k=2))

    def test_objects_with_a_geo_interface(self):
        """A bare geometry is joined by the object's own attributes."""
        assert Within("t", "a", Area(SQUARE)) == subscription_from(Thing(SQUARE, id="t", query="a"))

    names = st.sampled_from(
        ["id", "kind", "query", "west", "south", "east", "north", "lon", "lat", "radius_m", "region", "x", "y", "k"]
    )

    @given(st.dictionaries(names, st.sampled_from([None, 0, 1, 91, "a", "topk", "", math.nan, [], {}, True, SQUARE])))
    def test_any_dict_is_a_subscription_or_a_clear_error(self, row):
        """Nothing but InvalidInput comes out of bad rows."""
        with contextlib.suppress(InvalidInput):
            assert isinstance(subscription_from(row), Within | Similar | TopK)

    @given(
        st.dictionaries(
            st.sampled_from(
                ["id", "text", "terms", "lon", "lat", "lon_max", "lat_max", "x", "time", "place", "type", "a"]
            ),
            st.sampled_from([None, 0, 1, 91, "a", "Feature", math.nan, [], [1, 2], {}, True, SQUARE]),
        )
    )
    def test_any_dict_is_a_message_or_a_clear_error(self, row):
        """Nothing but InvalidInput comes out of bad rows."""
        with contextlib.suppress(InvalidInput):
            assert isinstance(message_from(row), Message)
