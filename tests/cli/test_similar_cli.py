"""Scored subscriptions through the commands: files of every format in, scores out, and explanations that agree."""

import json
import signal
from typing import NamedTuple

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from nearcast import Hub, Vocabulary
from nearcast.cli import _console, main

SUBSCRIPTIONS = [
    {"id": "anna", "kind": "similar", "query": "ramen noodles", "lon": 13.4, "lat": 52.5, "threshold": 0.6},
    {"id": "ben", "kind": "within", "query": "ramen AND NOT noodles"},
    {"id": "cleo", "kind": "similar", "terms": ["ramen", "bar"], "lon": 13.4, "lat": 52.51, "threshold": 0.6},
    {"id": "dora", "kind": "similar", "lon": 13.4, "lat": 52.5, "threshold": 0.9, "text_weight": 0.0},
]
SUBSCRIPTIONS[2] |= {"similarity": "jaccard", "text_weight": 0.75, "max_distance_m": 9000.0}
MESSAGES = [
    {"id": 1, "text": "Ramen noodles today", "lon": 13.401, "lat": 52.5},
    {"id": 2, "text": "the ramen bar", "lon": 13.4, "lat": 52.51},
    {"id": 3, "text": "ramen", "lon": 0.0, "lat": 0.0},
    {"id": 4, "text": "tea", "lon": 13.4, "lat": 52.5},
]
DELIVERED = [("anna", 1), ("dora", 1), ("ben", 2), ("cleo", 2), ("ben", 3), ("dora", 4)]


class Result(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def nearcast(capsys, monkeypatch):
    monkeypatch.setattr(_console, "_EVERY_S", float("inf"))
    before = signal.getsignal(signal.SIGTERM)

    def run(*arguments):
        with pytest.raises(SystemExit) as left:
            main([str(each) for each in arguments])
        return Result(left.value.code, *capsys.readouterr())

    yield run
    signal.signal(signal.SIGTERM, before)


def table_of(rows):
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: [row.get(name) for row in rows] for name in names})


def parquet(path, rows):
    pq.write_table(table_of(rows), path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def json_lines(path, rows):
    path.with_suffix(".jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path.with_suffix(".jsonl")


def csv_file(path, rows):
    rows = [{**row, "terms": json.dumps(row["terms"])} if "terms" in row else row for row in rows]
    pa_csv.write_csv(table_of(rows), path.with_suffix(".csv"))
    return path.with_suffix(".csv")


def geojson(path, rows):
    features = []
    for row in rows:
        properties = {name: value for name, value in row.items() if name not in ("id", "lon", "lat")}
        spot = {"type": "Point", "coordinates": [row["lon"], row["lat"]]} if "lon" in row else None
        features.append({"type": "Feature", "id": row["id"], "geometry": spot, "properties": properties})
    path.with_suffix(".geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path.with_suffix(".geojson")


class World:
    """Two input files and the options that match them."""

    def __init__(self, folder, subscriptions=SUBSCRIPTIONS, messages=MESSAGES, write=parquet):
        self.out = folder / "deliveries.parquet"
        self.inputs = (
            *("--subscriptions", write(folder / "subscriptions", subscriptions)),
            *("--messages", json_lines(folder / "messages", messages)),
        )

    def deliveries(self):
        rows = pq.read_table(self.out).to_pylist()
        return {(row["subscription_id"], row["message_id"]): row["score"] for row in rows}


def matched(nearcast, world, *options):
    result = nearcast("match", *world.inputs, "--out", world.out, "--max-distance", 5000, *options)
    assert (0, "") == (result.status, result.err)
    return world.deliveries()


@pytest.mark.parametrize("write", [parquet, json_lines, csv_file, geojson])
def test_every_format_gives_the_scores_of_the_hub(nearcast, tmp_path, write):
    found = matched(nearcast, World(tmp_path, write=write))
    assert DELIVERED == list(found)
    vocabulary = Vocabulary()
    vocabulary.learn_tokens([message["text"].lower().split() for message in MESSAGES])
    hub = Hub("earth", max_distance=5000, vocabulary=vocabulary)
    assert 0 == len(hub.subscribe_many(SUBSCRIPTIONS))
    assert found == {(d.subscription_id, d.message_id): d.score for d in hub.publish_many(MESSAGES)}
    assert found == {(d.subscription_id, d.message_id): d.score for each in MESSAGES for d in hub.publish(each)}
    assert (1.0, True) == (found["ben", 2], 0.6 <= found["anna", 1] < 1)


@pytest.mark.parametrize("index", ["trigger", "scan"])
def test_the_index_does_not_change_a_score(nearcast, tmp_path, index):
    world = World(tmp_path)
    assert matched(nearcast, world) == matched(nearcast, world, "--index", index, "--threads", 2)


def test_a_vocabulary_with_weights_is_used_and_named(nearcast, tmp_path):
    weights = pa.table({"term": ["ramen", "noodles"], "df": [0, 0], "weight": [9.0, 1.0]})
    path = tmp_path / "words.parquet"
    pq.write_table(weights.replace_schema_metadata({"nearcast.documents": "0"}), path)
    world = World(tmp_path, [{**SUBSCRIPTIONS[0], "text_weight": 1.0}])
    assert {("anna", 1): 1.0, ("anna", 2): 0.9, ("anna", 3): 0.9} == matched(nearcast, world, "--vocabulary", path)
    (version,) = set(pq.read_table(world.out)["version"].to_pylist())
    assert Vocabulary.from_parquet(path).version == version


def test_without_max_distance_the_rows_that_need_it_are_rejected(nearcast, tmp_path):
    world = World(tmp_path)
    result = nearcast("match", *world.inputs, "--out", world.out, "--rejected", tmp_path / "rejected.csv", "--json")
    assert (3, 2) == (result.status, json.loads(result.out)["rejected"])
    rows = pa_csv.read_csv(tmp_path / "rejected.csv").to_pylist()
    assert [("anna", "max_distance_m"), ("dora", "max_distance_m")] == [(row["id"], row["field"]) for row in rows]
    assert rows[0]["reason"].endswith("give it here, or to the hub as max_distance")
    assert "--max-distance LENGTH is for subscriptions that give none" in result.err
    assert [("ben", 2), ("cleo", 2), ("ben", 3)] == list(world.deliveries())


def test_units_on_a_plane(nearcast, tmp_path):
    wish = {"id": "s", "kind": "similar", "query": "tea", "x": 0.0, "y": 0.0, "threshold": 0.7}
    far = {**wish, "id": "t", "max_distance": 100.0}
    world = World(tmp_path, [wish, far], [{"id": "m", "text": "tea", "x": 3.0, "y": 4.0}])
    nearcast("match", *world.inputs, "--out", world.out, "--max-distance", 10)
    assert {("s", "m"): 0.75, ("t", "m"): 0.975} == world.deliveries()


@pytest.mark.parametrize("given", ["0", "-5", "inf", "nan", "far"])
@pytest.mark.parametrize("command", ["match", "explain"])
def test_a_max_distance_that_is_none(nearcast, tmp_path, command, given):
    world = World(tmp_path)
    options = ("--out", world.out) if command == "match" else ("--subscription", "anna", "--message", 1)
    result = nearcast(command, *world.inputs, *options, "--max-distance", given)
    assert (2, 1) == (result.status, len(result.err.splitlines()))
    assert "--max-distance" in result.err


# --- explain ----------------------------------------------------------------------------------------------------


def explained(nearcast, world, subscription, message, *options):
    ask = ("explain", *world.inputs, "--subscription", subscription, "--message", message, *options)
    result = nearcast(*ask, "--max-distance", 5000, "--json")
    assert (0, "") == (result.status, result.err)
    return json.loads(result.out)


def test_explain_agrees_with_match_to_the_last_bit(nearcast, tmp_path):
    """Words are weighed as `match` weighs them: by all messages."""
    world = World(tmp_path)
    found = matched(nearcast, world)
    for wish in SUBSCRIPTIONS:
        for post in MESSAGES:
            answer = explained(nearcast, world, wish["id"], post["id"])
            assert ((wish["id"], post["id"]) in found) == answer["matched"]
            scored = [step for step in answer["steps"] if step["name"] == "score"]
            if answer["matched"] and scored:
                assert found[wish["id"], post["id"]] == scored[0]["score"]


def test_explain_reads_a_vocabulary(nearcast, tmp_path):
    weights = pa.table({"term": ["ramen", "noodles"], "df": [0, 0], "weight": [3.0, 1.0]})
    path = tmp_path / "words.parquet"
    pq.write_table(weights.replace_schema_metadata({"nearcast.documents": "0"}), path)
    answer = explained(nearcast, World(tmp_path), "anna", 2, "--vocabulary", path)
    assert "'ramen' in common, without 'noodles': tsim 3 / 4 = 0.75" == answer["steps"][0]["detail"]


def test_explain_counts_text_and_terms_of_a_message(nearcast, tmp_path):
    """Both together are the words of the message, and nothing else is."""
    message = {"id": 1, "text": "ramen", "terms": ["bar", "ramen"], "lon": 13.4, "lat": 52.51}
    world = World(tmp_path, SUBSCRIPTIONS, [message])
    answer = explained(nearcast, world, "cleo", 1)
    assert (True, 1.0) == (answer["matched"], answer["steps"][2]["score"])
    assert matched(nearcast, world)["cleo", 1] == 1.0


def test_explain_for_people(nearcast, tmp_path):
    world = World(tmp_path)
    ask = ("explain", *world.inputs, "--subscription", "anna", "--message", 3, "--max-distance", 5000)
    shown = nearcast(*ask).out.splitlines()
    assert "subscription 'anna' does not get message 3" == shown[0]
    assert ["words", "place", "score"] == [line.split(":")[0].strip() for line in shown[1:4]]
    assert "would match if threshold <= 0.1" in shown[3]


def test_explain_without_a_max_distance_says_so(nearcast, tmp_path):
    world = World(tmp_path)
    result = nearcast("explain", *world.inputs, "--subscription", "anna", "--message", 1)
    assert 1 == result.status
    assert "subscriptions row 0 cannot be used: max_distance_m: max_distance_m is not given" in result.err
