"""Row groups of Parquet: the bytes of a file depend on its rows, and each column is encoded as it is cheap to."""

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearcast import _arrow
from nearcast.files import DeliveryWriter, row_groups
from nearcast.files.row_groups import RowGroups
from nearcast.tables.names import DELIVERY_SCHEMA


def deliveries(n, n_subscriptions, per_message=5, seed=1):
    rng = random.Random(seed)
    messages = [f"m{i // per_message % 17}" for i in range(n)]
    return pa.table(
        {
            "subscription_id": pa.array([f"s{rng.randrange(n_subscriptions)}" for _ in range(n)]),
            "message_id": messages,
            "change": [rng.choice("+-") for _ in range(n)],
            "score": [rng.random() for _ in range(n)],
            "rank": pa.nulls(n, pa.int32()),
            "cause_id": [rng.choice([None, message]) for message in messages],
            "time": pa.array([i // per_message for i in range(n)], pa.timestamp("us", tz="UTC")),
            "step": [i // per_message for i in range(n)],
            "arrival": [i // per_message for i in range(n)],
            "version": ["v1"] * n,
        },
        schema=DELIVERY_SCHEMA,
    )


def cut(table, rng):
    """Yield the rows in tables of any size, texts as they are or as dictionaries with values that nobody needs."""
    first = 0
    while first < table.num_rows:
        part = table.slice(first, rng.randint(1, 90))
        first += part.num_rows
        for at, field in enumerate(table.schema):
            if pa.types.is_string(field.type) and rng.random() < 0.5:
                wider = pa.concat_arrays([pa.array(["unused", None]), part.column(at).combine_chunks()])
                coded = wider.dictionary_encode().slice(2)
                part = part.set_column(at, field.name, coded)
        yield part


def written(path, tables):
    with DeliveryWriter(path) as writer:
        for table in tables:
            writer.write(table)
    return path.read_bytes()


@pytest.mark.parametrize("n_subscriptions", [3, 10_000])
def test_the_same_rows_make_the_same_bytes(tmp_path, monkeypatch, n_subscriptions):
    """However they are cut, whether texts come as dictionaries or not, and whatever else is in those."""
    monkeypatch.setattr(row_groups, "ROWS", 64)
    monkeypatch.setattr(_arrow, "_SAMPLE", 20)
    table = deliveries(500, n_subscriptions)
    whole = written(tmp_path / "whole.parquet", [table])
    for seed in range(12):
        assert written(tmp_path / "cut.parquet", cut(table, random.Random(seed))) == whole
    assert pq.read_table(tmp_path / "whole.parquet").equals(table)
    assert pq.read_metadata(tmp_path / "whole.parquet").num_row_groups == 8


def test_groups_have_one_size_and_wait_for_no_more(monkeypatch):
    monkeypatch.setattr(row_groups, "ROWS", 100)
    groups, sizes = RowGroups(), []
    for table in cut(deliveries(555, 4), random.Random(2)):
        sizes += [group.num_rows for group in groups.add(table)]
        assert groups._rows < 100
    assert sizes == [100] * 5
    assert [group.num_rows for group in groups.rest()] == [55]
    assert list(groups.rest()) == []


def test_many_small_tables_do_not_pile_up(tmp_path):
    """Calls that deliver a row each, as those of a match with changes: tables wait for their group in few pieces."""
    table, groups = deliveries(3000, 40), RowGroups()
    for at in range(table.num_rows):
        assert list(groups.add(table.slice(at, 1))) == []
        assert len(groups._waiting) <= 512
    (group,) = groups.rest()
    assert group.cast(table.schema).equals(table)
    rows = (table.slice(at, 1) for at in range(table.num_rows))
    assert written(tmp_path / "rows.parquet", rows) == written(tmp_path / "whole.parquet", [table])


def chunks_of(path):
    group = pq.read_metadata(path).row_group(0)
    return {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}


@pytest.mark.parametrize(("n_subscriptions", "is_coded"), [(5, True), (10**9, False)])
def test_text_that_repeats_is_a_dictionary(tmp_path, n_subscriptions, is_coded):
    written(tmp_path / "d.parquet", [deliveries(400, n_subscriptions)])
    chunks = chunks_of(tmp_path / "d.parquet")
    coded = {name for name, chunk in chunks.items() if chunk.has_dictionary_page}
    assert coded == {"message_id", "change", "cause_id", "version"} | ({"subscription_id"} if is_coded else set())
    assert {chunk.compression for chunk in chunks.values()} == {"ZSTD"}


def test_readers_find_plain_types_and_statistics_where_they_help(tmp_path):
    table = deliveries(400, 5)
    written(tmp_path / "d.parquet", [table])
    assert pq.read_schema(tmp_path / "d.parquet").equals(DELIVERY_SCHEMA)
    counted = {name for name, chunk in chunks_of(tmp_path / "d.parquet").items() if chunk.is_stats_set}
    assert counted >= {"step", "arrival", "time"}
    assert not counted & {"subscription_id", "message_id", "change", "score", "version"}


@pytest.mark.parametrize("name", ["d.parquet", "d.jsonl", "d.csv"])
@pytest.mark.parametrize("wanted", [None, False, True])
def test_which_formats_have_names(tmp_path, name, wanted):
    """Text formats have the column unless it is refused, Parquet only if it is wanted; the key is in all of them."""
    with DeliveryWriter(tmp_path / name, delivery_ids=wanted) as writer:
        writer.write(deliveries(3, 5))
    if name == "d.parquet":
        columns = pq.read_schema(tmp_path / name).names
    else:
        columns = (tmp_path / name).read_text().splitlines()[0]
    has_names = name != "d.parquet" if wanted is None else wanted
    assert ("delivery_id" in columns) == has_names
    assert "step" in columns
    assert "arrival" in columns
