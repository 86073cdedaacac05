"""Values of any kind in bulk calls: a bad row is a rejected row, and the rows around it are used."""

import datetime
import decimal
import fractions

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearcast import Hub, Message, Within
from nearcast.errors import InvalidColumns, InvalidInput, InvalidMessage, InvalidSubscription
from nearcast.files import read_table
from nearcast.model import message_from, subscription_from
from nearcast.pipeline.preparation.interchange_rows import is_subscriptions
from nearcast.tables import Rejected

HUGE = 10**400
HALF = "half \ud800 a character"

MESSAGE = {"id": 1, "text": "ramen", "lon": 1.0, "lat": 2.0}
WITHIN = {"id": 1, "query": "ramen", "lon": 1.0, "lat": 2.0, "radius_m": 5}
SIMILAR = {"id": 1, "kind": "similar", "query": "ramen", "lon": 1.0, "lat": 2.0, "threshold": 0.5, "max_distance_m": 5}
TOPK = {"id": 1, "kind": "topk", "query": "ramen", "lon": 1.0, "lat": 2.0, "k": 5, "max_distance_m": 5}


class Unreadable:
    """An object whose every attribute, and repr, raises."""

    def __getattr__(self, name):
        raise RuntimeError("boom")

    def __repr__(self):
        raise RuntimeError("boom")


class OddInterface:
    __geo_interface__ = 5


def within_itself():
    value = []
    value.append(value)
    return value


def deep(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


def polygon(x):
    return {"type": "Polygon", "coordinates": [[[0, 0], [x, 0], [1, 1], [0, 0]]]}


ODD = [
    *(pd.NaT, pd.NA, np.datetime64("NaT"), float("inf"), HUGE, 10**5000, fractions.Fraction(HUGE)),
    *(decimal.Decimal("NaN"), decimal.Decimal("sNaN"), decimal.Decimal("1e999"), 1 + 2j, True, np.bool_(True)),
    *(b"x", object(), Unreadable(), OddInterface(), {1: 2}, {1, 2}, np.array(5), np.array([[1, 2]]), HALF),
    *(within_itself(), deep(5000), datetime.date(2026, 1, 1), (HUGE, HUGE), polygon(HUGE), {"type": HUGE}),
]
#: By number in the tests: pytest looks into parameters, and some of these do not bear it.
ROWS = [*ODD, None, "text", 5, [], {}]
MESSAGE_FIELDS = ("id", "text", "lon", "lon_max", "terms", "time", "expires", "attributes")
SUBSCRIPTION_FIELDS = ("id", "kind", "query", "lon", "expires", "region", "west")
SCORED_FIELDS = ("threshold", "k", "text_weight", "max_distance_m", "similarity", "terms", "query")


def refused(make, value):
    try:
        make(value).check(Hub().space)
    except InvalidInput:
        return True
    return False


@pytest.mark.parametrize("at", range(len(ODD)))
def test_an_odd_value_in_a_message_rejects_its_row_alone(at):
    """Whatever a field holds, bulk calls and single ones judge it alike, and nothing but the row is lost."""
    hub, odd = Hub(), ODD[at]
    hub.subscribe({"id": "s", "query": "ramen"})
    for field in MESSAGE_FIELDS:
        row = {**MESSAGE, field: odd}
        found = hub.publish_many([{**MESSAGE, "id": 10}, row, {**MESSAGE, "id": 12}])
        assert (field, refused(message_from, row)) == (field, [1] == [each.row for each in found.rejected])
        assert [10, 12] == [each.message_id for each in found if each.message_id in (10, 12)]
        assert len(found.rejected) == found.rejected.to_table().num_rows
    assert hub.estimate({"id": "x", "query": "ramen"}, [MESSAGE, {**MESSAGE, "lon": odd}]).matches == 1


@pytest.mark.parametrize("at", range(len(ODD)))
def test_an_odd_value_in_a_subscription_rejects_its_row_alone(at):
    """The same for subscriptions of every kind."""
    hub, odd = Hub(window=100), ODD[at]
    bases = [(WITHIN, SUBSCRIPTION_FIELDS), (SIMILAR, SCORED_FIELDS), (TOPK, SCORED_FIELDS)]
    for base, field in [(base, field) for base, fields in bases for field in fields]:
        row = {**base, field: odd}
        rejected = hub.subscribe_many([{**base, "id": 10}, row, {**base, "id": 12}])
        assert (field, refused(subscription_from, row)) == (field, [1] == [each.row for each in rejected])
        assert (True, True) == (10 in hub, 12 in hub)


@pytest.mark.parametrize("at", range(len(ROWS)))
def test_an_odd_value_in_place_of_a_row_is_rejected_alone(at):
    """What is no message and no subscription at all is a rejected row, too."""
    hub, odd = Hub(), ROWS[at]
    assert [1] == [row.row for row in hub.subscribe_many([{**WITHIN, "id": 1}, odd, {**WITHIN, "id": 2}])]
    assert [1] == [row.row for row in hub.publish_many([MESSAGE, odd, MESSAGE]).rejected]
    with pytest.raises(InvalidInput):
        hub.publish(odd)
    with pytest.raises(InvalidInput):
        hub.subscribe(odd)


def test_records_of_a_data_frame_with_missing_times():
    """NaT is a datetime that is none: its row is rejected with the name of the column."""
    frame = pd.DataFrame({**MESSAGE, "id": [1, 2], "time": pd.to_datetime(["2026-05-01T09:00:00Z", None])})
    hub = Hub()
    rejected = hub.publish_many(frame.to_dict("records")).rejected
    assert [(1, "time")] == [(row.row, row.field) for row in rejected]
    assert "NaT" in next(iter(rejected)).reason


def test_numbers_of_other_libraries_are_numbers():
    """NumPy's scalars and finite decimals are taken for what they are, as columns of those types are."""
    value = message_from(
        {"id": np.int32(7), "text": np.str_("a"), "lon": np.float32(1.5), "lat": decimal.Decimal("2.5")}
    )
    assert (7, int, (1.5, 2.5)) == (value.id, type(value.id), value.place)
    assert str is type(message_from({**MESSAGE, "id": np.str_("a")}).id)


def test_attributes_of_any_kind_travel_or_are_told():
    """Attributes are free: odd objects become text; only names that are no text reject the row."""
    hub = Hub()
    rows = [{**MESSAGE, "a": 1}, {**MESSAGE, "a": Unreadable()}, {**MESSAGE, "a": HUGE}, {**MESSAGE, 5: "a"}]
    assert [(3, "attributes")] == [(row.row, row.field) for row in hub.publish_many(rows).rejected]


# --- half of a character ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["id", "text", "terms", "shop", HALF])
def test_half_a_character_in_a_message_is_refused_everywhere(field):
    """`publish` and `publish_many` have one rule: what cannot be stored is refused with a reason."""
    row = {**MESSAGE, "terms": ["a"], field: [HALF] if field == "terms" else HALF}
    with pytest.raises(InvalidMessage, match="half a character"):
        Hub().publish(row)
    (rejected,) = Hub().publish_many([row]).rejected
    assert "half a character" in rejected.reason


def test_half_a_character_within_an_attribute_is_refused():
    """However deep it is."""
    with pytest.raises(InvalidMessage, match="half a character"):
        Message(1, "a", (1, 2), attributes={"shop": {"names": ["a", HALF]}})


@pytest.mark.parametrize(
    "row",
    [
        *({**WITHIN, "query": HALF}, {**WITHIN, "id": HALF}, {**WITHIN, "query": {"word": HALF}}),
        *({**SIMILAR, "query": HALF}, {**SIMILAR, "terms": [HALF]}),
    ],
)
def test_half_a_character_in_a_subscription_is_refused_everywhere(row):
    """`subscribe` and `subscribe_many` have the same rule."""
    with pytest.raises(InvalidInput, match="half a character"):
        Hub().subscribe(row)
    (rejected,) = Hub().subscribe_many([row])
    assert "half a character" in rejected.reason


def test_a_query_made_by_hand_is_refused_for_half_a_character():
    """A value of the model is checked when it is made."""
    with pytest.raises(InvalidSubscription, match="half a character"):
        Within(1, HALF)


# --- ids have one type ------------------------------------------------------------------------------------------


def test_ids_of_another_type_are_refused_row_by_row():
    """One bulk call has ids of one type, that of the first; the others are rejected by name."""
    hub = Hub()
    rejected = hub.subscribe_many([{**WITHIN, "id": 1}, {**WITHIN, "id": "1"}, {**WITHIN, "id": 2}])
    assert [(1, "id", "id is '1'; expected an integer, like the first id")] == [
        (row.row, row.field, row.reason) for row in rejected
    ]
    assert (True, False, True) == (1 in hub, "1" in hub, 2 in hub)


def test_a_folder_whose_files_differ_in_the_type_of_ids(tmp_path):
    """Ids are not turned into text behind anybody's back: rows of the later files are rejected."""
    folder = tmp_path / "messages.parquet"
    folder.mkdir()
    for name, ids in (("a", [1, 2]), ("b", ["1", "x"]), ("c", [3])):
        pq.write_table(pa.table({"id": ids, "text": ["t"] * len(ids)}), folder / f"{name}.parquet")
    rejected = Rejected()
    assert [1, 2, 3] == read_table(folder, rejected=rejected)["id"].to_pylist()
    assert [(2, "1"), (3, "x")] == [(row.row, row.id) for row in rejected]
    assert "id is '1'; expected integers, like the first id" == next(iter(rejected)).reason
    with pytest.raises(InvalidColumns, match="row 2: id is '1'"):
        read_table(folder)


@pytest.mark.parametrize("column", ["text", "query"])
def test_an_id_with_a_zero_byte_is_refused_in_every_table(column):
    """Messages and subscriptions have one rule for ids, as values and as tables."""
    hub = Hub()
    table = pa.table({"id": ["a", "\x001"], column: ["ramen"] * 2, "lon": [1.0] * 2, "lat": [2.0] * 2})
    call = hub.subscribe_many if is_subscriptions([column]) else lambda rows: hub.publish_many(rows).rejected
    table = table.append_column("radius_m", pa.array([5.0] * 2)) if column == "query" else table
    assert [(1, "id")] == [(row.row, row.field) for row in call(table)]
