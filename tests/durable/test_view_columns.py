"""Tables whose columns are views or runs, as polars and others write them: Arrow itself takes no rows of these."""

import pyarrow as pa
import pytest

from nearcast import Hub
from nearcast.durable import DurableHub
from nearcast.durable.inputs import Input, decoded, encoded
from nearcast.errors import InvalidInput
from nearcast.tables.takeable import with_takeable_columns


def _runs(values):
    return pa.RunEndEncodedArray.from_arrays(pa.array(range(1, len(values) + 1), pa.int32()), pa.array(values))


FORMS = {
    "view": lambda values: pa.array(values, pa.string_view()),
    "runs": _runs,
    "dictionary": lambda values: pa.array(values).dictionary_encode(),
    "plain": pa.array,
}
PLACES = {"lon": [13.4] * 3, "lat": [52.5, 152.5, 52.5]}


def _live(hub, make, *, has_subscribers=False):
    """Have a hub take tables of each kind with columns of a form; return what it delivered."""
    subscriptions = {"id": make(["a", "b"]), "query": make(["tea", "tea"]), "lon": [13.4] * 2, "lat": [52.5] * 2}
    names = {"subscriber": make(["anna", "ben"])} if has_subscribers else {}
    hub.subscribe_many(pa.table({**subscriptions, "radius_m": [800.0] * 2, **names}))
    times = make(["2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z", "2120-01-01T00:00:00Z"])
    given = {"id": make(["m", "n", "o"]), "text": make(["tea"] * 3), **PLACES, "attributes.mood": make(["good"] * 3)}
    found = [hub.publish_many(pa.table(given)), hub.publish_many(pa.table({**given, "time": times}))]
    found.append(hub.move_many(pa.table({"id": make(["a", "nobody"]), "lon": [13.4] * 2, "lat": [52.5] * 2})))
    return [[(row.subscription_id, row.message_id) for row in each] for each in found], [
        [(row.row, row.id, row.field) for row in each.rejected] for each in found
    ]


@pytest.mark.parametrize("form", FORMS)
def test_what_a_hub_is_told_in_views_is_what_it_is_told_plainly(tmp_path, form):
    """No row of it is lost, nobody who reads is stopped, and the folder opens again."""
    expected = _live(Hub("earth", max_ahead="5m"), FORMS["plain"])
    assert expected == _live(Hub("earth", max_ahead="5m"), FORMS[form])
    with DurableHub(tmp_path / "hub", "earth", max_ahead="5m") as hub:
        assert expected == _live(hub, FORMS[form], has_subscribers=True)
        events = [(each.delivery.message_id, each.message) for each in hub.events("anna")]
        assert [{"mood": "good"}] * len(events) == [dict(message.attributes) for _, message in events]
        assert "tea" == hub.kept_message("m").text
    assert len(expected[0][0]) // 2 + len(expected[0][1]) // 2 == len(events)
    with DurableHub.open(tmp_path / "hub") as hub:
        assert events == [(each.delivery.message_id, each.message) for each in hub.events("anna")]


@pytest.mark.parametrize("form", ["view", "runs"])
def test_an_input_that_an_earlier_version_logged_can_be_read(form):
    """It was logged as it came; then it stopped the hub at each start."""
    table = pa.table({"id": FORMS[form](["m", "n"])})
    found = decoded(encoded(Input("publish_many", table)), "it").table
    assert ["n"] == found.take(pa.array([1]))["id"].to_pylist()


NESTED = {
    "list": pa.array([["a", None], None], pa.list_(pa.string_view())),
    "large list": pa.array([["a"], []], pa.large_list(pa.string_view())),
    "list view": pa.array([["a"], None], pa.list_view(pa.string_view())),
    "fixed": pa.array([["a", "b"], None], pa.list_(pa.string_view(), 2)),
    "struct": pa.array([{"x": "a"}, None], pa.struct([("x", pa.string_view())])),
    "map": pa.array([[("k", "a")], None], pa.map_(pa.string_view(), pa.binary_view())),
    "bytes": pa.array([b"\xff", None], pa.binary_view()),
    "runs": _runs(["a", None]),
    "runs in a list": pa.ListArray.from_arrays([0, 1, 2], _runs(["a", "b"])),
    "union": pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array(["a", "b"], pa.string_view())]),
}


@pytest.mark.parametrize("name", NESTED)
def test_values_are_as_they_were_however_deep(name):
    """Rows can be taken of what comes out, and the other columns are not touched."""
    table = pa.table({"n": [1, 2], "odd": NESTED[name]})
    found = with_takeable_columns(table)
    assert table["odd"].to_pylist() == found["odd"].to_pylist()
    assert table["odd"].to_pylist()[1:] == found.take(pa.array([1]))["odd"].to_pylist()
    assert 1 == found.filter(pa.array([True, False])).num_rows
    assert found["n"].equals(table["n"])


@pytest.mark.parametrize("name", NESTED)
def test_a_table_without_rows_is_one_of_no_rows(name):
    """A hub takes it as it takes any other, and its log as well."""
    table = pa.table({"lon": [13.4] * 2, "lat": [52.5] * 2, "odd": NESTED[name]}).slice(1, 0)
    assert (0, table.column_names) == (len(with_takeable_columns(table)), with_takeable_columns(table).column_names)
    assert 0 == len(Hub("earth").publish_many(table))
    assert 0 == len(decoded(encoded(Input("publish_many", table)), "it").table)


def test_a_call_that_the_log_cannot_take_is_refused(tmp_path, monkeypatch):
    """It would stop the hub; so it is told to whoever made it, and others go on."""
    monkeypatch.setattr("nearcast.durable.durable_hub._MOST_BYTES", 10_000)
    with DurableHub(tmp_path / "hub", "earth") as hub:
        with pytest.raises(InvalidInput, match="fewer rows"):
            hub.publish_many([{"id": number, "lon": 13.4, "lat": 52.5, "text": "x" * 90} for number in range(100)])
        hub.subscribe({"id": "a", "query": "tea"})
        message = {"id": "m", "text": "tea", "lon": 13.4, "lat": 52.5}
        assert ["a"] == [each.subscription_id for each in hub.publish(message)]


def test_a_table_of_plain_columns_stays_itself():
    """Also with dictionaries, nulls and extension types."""
    plain = {"a": [1], "b": ["x"], "c": pa.array(["x"]).dictionary_encode(), "d": pa.nulls(1)}
    table = pa.table({**plain, "e": pa.array([bytes(16)], pa.uuid())})
    assert with_takeable_columns(table) is table
