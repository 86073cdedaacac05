"""From raw files of any format to a store that a stream begins from."""

import json

import geopandas
import pyarrow.parquet as pq
import pytest
import shapely

from nearcast import Hub, Vocabulary
from nearcast.errors import NearcastError
from nearcast.files import read_table
from nearcast.geo import Space
from nearcast.pipeline.driver.batch_source import BatchSource
from nearcast.pipeline.driver.pipeline import Pipeline
from nearcast.pipeline.preparation.prepared_store import prepare
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.sinks import sink_of
from nearcast.pipeline.store.store import Store
from nearcast.window import Window
from support.streams import COLUMNS, Oracle, World, values_in

SUBSCRIPTIONS = """id,kind,query,lon,lat,radius_m,k,text_weight,max_distance_m
a,within,ipad,13.4,52.5,800,,,
b,topk,ramen soup,13.4,52.5,,2,0.5,5000
c,within,(,13.4,52.5,800,,,
"""
FEATURES = {
    "type": "FeatureCollection",
    "features": [
        {"type": "Feature", "id": "m1", "properties": {"text": "an ipad", "time": "2026-01-01T10:00:00Z", "likes": 3},
         "geometry": {"type": "Point", "coordinates": [13.4, 52.5]}},
        {"type": "Feature", "id": "m2", "properties": {"text": "ramen soup", "time": "2026-01-01T10:00:05Z"},
         "geometry": {"type": "Point", "coordinates": [13.41, 52.5]}},
        {"type": "Feature", "id": "m3", "properties": {"text": "lost"},
         "geometry": {"type": "Point", "coordinates": [13.41, 95]}},
    ],
}  # fmt: skip


@pytest.fixture
def raw(tmp_path):
    folder = tmp_path / "raw"
    folder.mkdir()
    (folder / "people.csv").write_text(SUBSCRIPTIONS)
    (folder / "posts.geojson").write_text(json.dumps(FEATURES))
    (folder / "more.jsonl").write_text('{"id": "m4", "text": "ramen", "lon": 13.4, "lat": 52.5}\n')
    return folder


def settings(**more):
    return PipelineSettings(Space.earth(), window=Window.of(10), partitions=2, **more)


def test_raw_files_become_interchange_columns_with_what_was_rejected(raw, tmp_path):
    about = prepare([raw], tmp_path / "store", settings(), LocalRunner())
    assert about["messages"] == 3
    assert about["subscriptions"] == 2
    assert about["rejected"] == 2
    messages = read_table(tmp_path / "store" / "messages" / "part-00002.parquet")
    assert messages.column("id").to_pylist() == ["m1", "m2"]
    assert messages.column("lat").to_pylist() == [52.5, 52.5]
    assert messages.column("likes").to_pylist() == [3, None]
    assert str(messages.schema.field("time").type) == "timestamp[us, tz=UTC]"
    people = pq.read_table(tmp_path / "store" / "subscriptions" / "part-00001.parquet")
    assert people.column("k").to_pylist() == [None, 2]
    rejected = pq.read_table(tmp_path / "store" / "rejected.parquet").to_pylist()
    assert [(row["source"], row["row"], row["field"]) for row in rejected] == [
        ("people.csv", 2, "query"),
        ("posts.geojson", 2, "lat"),
    ]


def test_the_vocabulary_is_that_of_all_messages(raw, tmp_path):
    about = prepare([raw], tmp_path / "store", settings(), LocalRunner())
    expected = Vocabulary()
    expected.learn_tokens([["an", "ipad"], ["ramen", "soup"], ["ramen"]])
    found = Vocabulary.from_parquet(tmp_path / "store" / "vocabulary.parquet")
    assert found.version == expected.version == about["vocabulary_version"]
    assert found.df(["ramen", "ipad", "lost"]).tolist() == [2, 1, 0]


def test_a_stream_begins_from_what_was_prepared(tmp_path):
    world = World(3)
    first = [world.subscription(id_) for id_ in range(1, 9)]
    raw = tmp_path / "raw.jsonl"
    raw.write_text("".join(json.dumps(row) + "\n" for row in first))
    chosen = PipelineSettings(Space.plane(), window=Window.of(9), partitions=3, plan="trigger")
    prepare([raw], tmp_path / "store", chosen, LocalRunner())
    store = Store(str(tmp_path / "K"))
    pipeline = Pipeline(store, chosen, LocalRunner(), sink_of(str(tmp_path / "out"), store))
    pipeline.begin_from(str(tmp_path / "store" / "nearcast"))
    oracle = Oracle(Hub("plane", window=9))
    oracle.begin(first)
    for batch in range(3):
        files = {"messages-a": [world.message() for _ in range(8)]}
        path = tmp_path / f"{batch}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in files["messages-a"]))
        pipeline.run(batch, [BatchSource("messages", "messages-a", str(path))])
        parts = (tmp_path / "out").glob(f"part-{batch:08d}-*.parquet")
        found = [values_in(row) for part in parts for row in pq.read_table(part).to_pylist()]
        expected = [tuple(getattr(d, name) for name in COLUMNS) for d in oracle.run(files)]
        assert sorted(found, key=str) == sorted(expected, key=str)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda raw, _: (raw / "people.csv").write_text("name\nx\n"), "id"),
        (lambda _, out: (out.mkdir(), (out / "x").touch()), "not empty"),
        (lambda raw, _: [path.unlink() for path in raw.iterdir()], "no file that ends in"),
    ],
    ids=["no id", "a folder in use", "nothing to read"],
)
def test_what_cannot_be_prepared_is_said_in_one_line(raw, tmp_path, change, reason):
    out = tmp_path / "store"
    change(raw, out)
    with pytest.raises(NearcastError, match=reason) as error:
        prepare([raw], out, settings(), LocalRunner())
    assert "\n" not in str(error.value)
    assert not (out / "prepared.json").exists()


def test_a_store_is_not_prepared_twice(raw, tmp_path):
    prepare([raw], tmp_path / "store", settings(), LocalRunner())
    with pytest.raises(NearcastError, match="prepared already"):
        prepare([raw], tmp_path / "store", settings(), LocalRunner())


def test_a_stream_with_another_window_refuses_what_was_prepared(raw, tmp_path):
    prepare([raw], tmp_path / "store", settings(), LocalRunner())
    store = Store(str(tmp_path / "K"))
    other = PipelineSettings(Space.earth(), window=Window.of(11), partitions=2)
    pipeline = Pipeline(store, other, LocalRunner(), sink_of(str(tmp_path / "out"), store))
    with pytest.raises(NearcastError, match="window 10, not 11"):
        pipeline.begin_from(str(tmp_path / "store" / "nearcast"))


def test_files_that_differ_in_the_type_of_a_column_are_prepared_together(raw, tmp_path):
    (raw / "later.jsonl").write_text('{"id": 7, "text": "ipad", "lon": 13.4, "lat": 52.5, "likes": "many"}\n')
    (raw / "broken.parquet").write_bytes(b"no Parquet")
    about = prepare([raw], tmp_path / "store", settings(), LocalRunner())
    assert (about["messages"], about["rejected"]) == (4, 3)
    sample = pq.read_table(tmp_path / "store" / "sample.parquet")
    assert sorted(sample.column("id").to_pylist()) == ["7", "m1", "m2", "m4"]


def test_subscriptions_whose_ids_are_of_another_type_are_rejected_with_their_file(raw, tmp_path):
    """Ids of one store are of one type: text and integers are never taken for each other."""
    (raw / "zealots.jsonl").write_text('{"id": 7, "query": "ipad"}\n')
    about = prepare([raw], tmp_path / "store", settings(), LocalRunner())
    assert (2, 3) == (about["subscriptions"], about["rejected"])
    rejected = pq.read_table(tmp_path / "store" / "rejected.parquet").to_pylist()
    assert [("zealots.jsonl", "id")] == [(row["source"], row["field"]) for row in rejected if row["field"] == "id"]


def test_geometries_of_geoparquet_are_prepared(tmp_path):
    """Regions and places in well-known binary become interchange columns; another reference system is told."""
    raw = tmp_path / "raw"
    raw.mkdir()
    people = geopandas.GeoDataFrame({"id": ["a"], "query": ["ipad"]}, geometry=[shapely.box(0, 0, 9, 9)], crs=4326)
    people.to_parquet(raw / "people.parquet")
    posts = geopandas.GeoDataFrame({"id": ["m"], "text": ["ipad"]}, geometry=[shapely.Point(1, 2)], crs=4326)
    posts.to_parquet(raw / "posts.parquet")
    posts.set_crs(3857, allow_override=True).to_parquet(raw / "wrong.parquet")
    about = prepare([raw], tmp_path / "store", settings(), LocalRunner())
    assert (1, 1, 1) == (about["messages"], about["subscriptions"], about["rejected"])
    table = read_table(tmp_path / "store" / "messages" / "part-00001.parquet")
    assert [(1.0, 2.0)] == list(zip(table["lon"].to_pylist(), table["lat"].to_pylist(), strict=True))
    hub = Hub()
    hub.subscribe_many(read_table(tmp_path / "store" / "subscriptions" / "part-00000.parquet"))
    assert ["a"] == [each.subscription_id for each in hub.publish_many(table)]
