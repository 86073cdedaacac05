"""Deliveries: a lazy sequence of values, and tables of the same."""

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from nearcast import Hub, Message
from nearcast._ids import MIXED_IDS
from nearcast.errors import InvalidColumns
from nearcast.files import DeliveryWriter
from nearcast.tables.names import DELIVERY_SCHEMA

#: The columns that a value has, too.
NAMES = [name for name in DELIVERY_SCHEMA.names if name not in ("step", "arrival")]


def hub_of(*ids):
    """Return a hub where all of these ask for ramen."""
    hub = Hub("plane")
    for id_ in ids:
        hub.subscribe({"id": id_, "query": "ramen"})
    return hub


def message(id_, **more):
    return {"id": id_, "text": "ramen", "x": 0, "y": 0, **more}


def rows_of(deliveries):
    """Return the values as the rows of a table."""
    return [{name: getattr(value, name) for name in NAMES} for value in deliveries]


def id_columns(table):
    return [(table.schema.field(name).type, table[name].to_pylist()) for name in ("subscription_id", "message_id")]


@pytest.mark.modes
@pytest.mark.small
def test_ids_of_both_kinds_stay_apart_in_a_table():
    """1 and "1" are two subscriptions, in values and in tables."""
    deliveries = hub_of(1, "1", 2).publish(message(7))

    assert [value.subscription_id for value in deliveries] == [1, "1", 2]
    table = deliveries.to_table()
    assert id_columns(table) == [(MIXED_IDS, [1, "1", 2]), (pa.int64(), [7, 7, 7])]
    assert deliveries.to_table(delivery_ids=True)["delivery_id"].to_pylist() == ["0:0:+1", "0:0:+:1", "0:0:+2"]
    assert table.select(NAMES).to_pylist() == rows_of(deliveries)


@pytest.mark.modes
@pytest.mark.small
def test_a_column_of_ids_is_text_only_while_there_is_text_in_it():
    """One id of text does not turn the integers of later tables into text."""
    hub = hub_of(1)
    hub.subscribe({"id": "a", "query": "beer"})
    assert hub.publish(message(1)).to_table().schema.field("subscription_id").type == pa.int64()

    hub.subscribe({"id": "b", "query": "ramen"})
    assert hub.publish(message(1)).to_table()["subscription_id"].to_pylist() == [1, "b"]

    hub.unsubscribe("b")
    assert id_columns(hub.publish(message("m")).to_table()) == [(pa.int64(), [1]), (pa.string(), ["m"])]


@pytest.mark.modes
@pytest.mark.small
def test_ids_of_messages_of_both_kinds_stay_apart():
    """What a new top-k finds in the window keeps the ids that messages had, integers and text."""
    hub = Hub("plane", window=10, max_distance=1)
    hub.publish(message(1))
    hub.publish(message("1"))
    hub.subscribe({"id": "s", "kind": "topk", "query": "ramen", "x": 0, "y": 0})
    deliveries = hub.publish(message(2))

    assert [value.message_id for value in deliveries] == ["1", 1, 2]
    table = deliveries.to_table()
    assert id_columns(table) == [(pa.string(), 3 * ["s"]), (MIXED_IDS, ["1", 1, 2])]
    assert table["cause_id"].to_pylist() == [None, None, 2]
    assert table.select(NAMES).to_pylist() == rows_of(deliveries)


@pytest.mark.modes
@pytest.mark.small
def test_all_tables_of_deliveries_have_one_schema():
    """Types are chosen over all deliveries, not over those of one portion."""
    deliveries = hub_of(1, 2, "a", "b").publish(message(1))
    tables = list(deliveries.tables(rows=2))

    assert [table.num_rows for table in tables] == [2, 2]
    assert {table.schema for table in tables} == {deliveries.to_table().schema}
    assert [id_ for table in tables for id_ in table["subscription_id"].to_pylist()] == [1, 2, "a", "b"]


@pytest.mark.modes
@pytest.mark.small
def test_values_made_in_blocks_are_those_made_singly():
    """Iterating, indexing, slicing and the table agree, whatever a block is."""
    hub = hub_of(*range(40), *(f"é{i}" for i in range(40)))
    found = hub.publish_many(
        [message(f"m{i}", **({"time": f"2026-01-01T00:00:{i:02}Z"} if i % 3 else {})) for i in range(30)]
    )

    values = list(found)
    assert len(found) == len(values) == 2400
    assert [found[i] for i in range(0, 2400, 7)] == values[::7]
    assert (found[5:1000:13], found[-3:], found[9:2:-2], found[5:5]) == (
        values[5:1000:13], values[-3:], values[9:2:-2], []
    )  # fmt: skip
    assert found.to_table().select(NAMES).to_pylist() == rows_of(values)
    with pytest.raises(IndexError, match="delivery -2401 of 2400"):
        found[-2401]


def test_whoever_reads_arrow_takes_deliveries():
    """The C data interface hands over all tables, and those of no delivery."""
    deliveries = hub_of(1, 2, "a").publish(message("m"))

    assert pa.table(deliveries).equals(deliveries.to_table())
    assert pa.RecordBatchReader.from_stream(deliveries).read_all().num_rows == 3
    assert (
        pa.table(hub_of(1).publish({**message(1), "text": "beer"})).schema.field("subscription_id").type == pa.int64()
    )
    assert pa.table(Hub("plane").publish(message(1))).num_rows == 0


def test_a_data_frame_keeps_ids_exact():
    """Ids are integers also beside null, where pandas would make them floats; mixed ones are objects."""
    hub = Hub("plane", window=10, max_distance=1)
    big = 2**53 + 1
    hub.publish(message(big))
    for id_ in (1, "1"):
        hub.subscribe({"id": id_, "kind": "topk", "query": "ramen", "x": 0, "y": 0})
    deliveries = hub.publish(message(3))
    frame = deliveries.to_pandas()

    assert frame.columns.tolist() == DELIVERY_SCHEMA.names
    assert frame["message_id"].tolist() == [big, big, 3, 3]
    assert frame["subscription_id"].tolist() == [1, "1", 1, "1"]
    assert frame["cause_id"].isna().tolist() == [True, True, False, False]
    assert frame["cause_id"][2] == 3
    assert frame["rank"].tolist() == [value.rank for value in deliveries]


def test_a_delivery_of_publish_has_the_message_with_its_attributes():
    """Whoever gets a delivery can read what was published; it is left out of comparing and of the repr."""
    given = Message("m", "ramen", (0, 0), attributes={"shop": "Roast"})
    (delivery,) = hub_of("a").publish(given)

    assert delivery.message is given
    assert delivery.message.attributes["shop"] == "Roast"
    (again,) = hub_of("a").publish_many([given])
    assert again.message is None
    assert (delivery, hash(delivery), repr(delivery)) == (again, hash(again), repr(again))


def test_a_delivery_of_another_message_has_not_the_one_published():
    """What enters or leaves a top-k may be an older message, which is not at hand."""
    hub = Hub("plane", window=1, max_distance=1)
    hub.subscribe({"id": "s", "kind": "topk", "query": "ramen", "x": 0, "y": 0, "k": 1})
    hub.publish(message("old"))
    told = {(value.change, value.message_id): value.message for value in hub.publish(message("new", shop="x"))}

    assert told[("-", "old")] is None
    assert told[("+", "new")].attributes == {"shop": "x"}


def test_mixed_ids_are_written_as_json_and_refused_elsewhere(tmp_path):
    """JSON tells 1 from "1"; Parquet and CSV have one type a column, so they say no rather than mix them up."""
    table = hub_of(1, "1").publish(message(7, time="2026-01-01T00:00:00Z")).to_table()
    with DeliveryWriter(tmp_path / "out.jsonl") as writer:
        writer.write(table)

    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["subscription_id"] for line in lines] == [1, "1"]
    for name in ("out.parquet", "out.csv"):
        with (
            pytest.raises(InvalidColumns, match="subscription_id holds integers and text"),
            DeliveryWriter(tmp_path / name) as writer,
        ):
            writer.write(table)
        assert not (tmp_path / name).exists()


def test_times_of_deliveries_are_datetimes_in_utc():
    """A block converts each moment once; None stays None."""
    found = hub_of("a", "b").publish_many([message(1), message(2, time="2026-01-01T01:00:00+01:00")])

    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert [value.time for value in found] == [None, None, moment, moment]


def test_a_zero_byte_finds_no_integer():
    """The string that an integer is kept under is no id of it."""
    hub = hub_of(1)

    assert 1 in hub
    assert "\x001" not in hub
