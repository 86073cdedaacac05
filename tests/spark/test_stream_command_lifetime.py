"""`nearcast stream --lifetime` on Spark itself: moves of later batches find the messages of earlier ones."""

import importlib

import pyarrow.parquet as pq

from nearcast import Hub
from support.life_streams import fed, rows_of, values_of
from support.streams import moment, write_files

SUBSCRIPTIONS = [
    {"id": id_, "query": "tea", "x_min": x, "y_min": 0.0, "x_max": x + 2.0, "y_max": 2.0}
    for id_, x in ((1, 0.0), (2, 50.0), (3, 90.0))
]


def message(id_, x, seconds):
    return {"id": id_, "text": "tea", "x": x, "y": 1.0, "time": moment(seconds)}


def move(id_, x, seconds):
    return {"op": "move", "id": id_, "x": x, "y": 1.0, "time": moment(seconds)}


BATCHES = [
    {"messages-a": [message(1, 1.0, 0), message(2, 51.0, 1)], "changes-a": [move(1, 51.0, 2)]},
    {"changes-b": [move(3, 51.0, 10), move(1, 1.0, 20), move(2, 1.0, 15), move(2, 91.0, 70)]},
]


def test_the_command_tells_what_comes_in_and_goes_out(spark, nearcast, tmp_path, monkeypatch):
    """Two runs on one checkpoint deliver what a hub does; a start with another lifetime is refused by name."""
    monkeypatch.setattr(importlib.import_module("nearcast.spark.session"), "session", lambda _: spark)
    oracle = fed(Hub("plane", lifetime="1m", tell_expiry=True), SUBSCRIPTIONS)
    places = {name: tmp_path / name for name in ("messages", "changes", "out", "checkpoint")}
    for name in ("messages", "changes"):
        places[name].mkdir()
    given = write_files(tmp_path, {"subscriptions": SUBSCRIPTIONS})["subscriptions"]
    options = [text for name, path in places.items() for text in (f"--{name}", path)]
    command = ["stream", "--subscriptions", given, *options, "--once", "--partitions", 2, "--tell-expiry"]
    expected = []
    for files in BATCHES:
        for name, rows in files.items():
            write_files(places[name.split("-")[0]], {name: rows})
        expected += rows_of(oracle.run(files))
        result = nearcast(*command, "--lifetime", "1m")
        assert 0 == result.status, result.err
    parts = [pq.read_table(path).to_pylist() for path in sorted(places["out"].glob("part-*"))]
    delivered = [values_of(row) for part in parts for row in part]
    assert sorted(expected, key=str) == sorted(delivered, key=str)
    assert {"+", "-"} == {row[2] for row in delivered}
    result = nearcast(*command, "--lifetime", "2m")
    assert "was begun with lifetime 1m, not 2m" in result.err
