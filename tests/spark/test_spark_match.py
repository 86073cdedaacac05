"""DataFrames of messages and subscriptions in, deliveries out: what the hub delivers, however they are partitioned."""

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearcast.spark
from nearcast.errors import InvalidColumns, InvalidInput, NotSupported
from nearcast.hub import Hub
from nearcast.spark import match, match_against, rejected_messages
from nearcast.tables import Rejected
from nearcast.text import Analyzer, Vocabulary
from support.waiting import PATIENCE_S

WORDS = [f"w{i}" for i in range(40)]


def some_words(rng, most):
    return " ".join(rng.choices(WORDS, weights=range(len(WORDS), 0, -1), k=rng.randint(1, most)))


def messages_table(rng, n, *, ids=str, times=True):
    rows = []
    for i in range(n):
        x, y = rng.uniform(0, 100), rng.uniform(0, 100)
        corner = (x + rng.uniform(0, 10), y + rng.uniform(0, 10)) if rng.random() < 0.2 else (None, None)
        rows.append((ids(i), some_words(rng, 8), x, y, *corner, 1_700_000_000_000_000 + 1_000_000 * i, i))
    names = ("id", "text", "x", "y", "x_max", "y_max", "time", "seq")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    table = pa.table(columns)
    time = table["time"].cast(pa.timestamp("us", "UTC"))
    table = table.set_column(6, "time", time)
    return table if times else table.drop_columns(["time"])


def subscriptions_table(rng, n, *, ids=str, kinds=("within", "similar"), expires=False):
    rows = []
    for i in range(n):
        kind = rng.choice(kinds)
        x, y = rng.uniform(0, 100), rng.uniform(0, 100)
        end = 1_700_000_000_000_000 + rng.randrange(400) * 1_000_000 if expires and rng.random() < 0.5 else None
        if kind == "similar":
            function = rng.choice(["tsim", "jaccard", "cosine"])
            row = {"query": some_words(rng, 4), "x": x, "y": y, "similarity": function}
            row |= {"text_weight": rng.random(), "threshold": rng.uniform(0.3, 0.7), "max_distance": rng.uniform(5, 60)}
        elif rng.random() < 0.5:
            row = {"query": " AND ".join(some_words(rng, 2).split()), "x": x, "y": y, "radius": rng.uniform(1, 50)}
        else:
            row = {"query": f"{rng.choice(WORDS)} OR {rng.choice(WORDS)}", "x_min": x, "y_min": y}
            row |= {"x_max": x + rng.uniform(0, 60), "y_max": y + rng.uniform(0, 60)}
        rows.append({"id": ids(i), "kind": kind, "expires": end} | row)
    names = ("id", "kind", "query", "x", "y", "radius", "x_min", "y_min", "x_max", "y_max")
    names += ("text_weight", "threshold", "max_distance", "similarity", "expires")
    table = pa.table({name: [row.get(name) for row in rows] for name in names})
    for name in ("radius", "text_weight", "threshold", "max_distance", "x", "y", "x_min", "y_min", "x_max", "y_max"):
        table = table.set_column(names.index(name), name, table[name].cast(pa.float64()))
    table = table.set_column(names.index("similarity"), "similarity", table["similarity"].cast(pa.string()))
    return table.set_column(names.index("expires"), "expires", table["expires"].cast(pa.timestamp("us", "UTC")))


def frame(spark, table, partitions=3):
    return spark.createDataFrame(table).repartition(partitions)


def hub_of(subscriptions, **options):
    hub = Hub("plane", **options)
    hub.subscribe_many(subscriptions)
    return hub


def expected(messages, subscriptions):
    """Return what the hub delivers, its words weighed by all messages."""
    vocabulary = Vocabulary()
    if "similar" in subscriptions["kind"].to_pylist():
        vocabulary.learn_texts(messages["text"], Analyzer())
    return hub_of(subscriptions, vocabulary=vocabulary).publish_many(messages).to_table()


def in_order(table):
    return table.sort_by([("step", "ascending"), ("subscription_id", "ascending")])


def check(found, wanted):
    table = in_order(found.toArrow())
    assert wanted.num_rows > 50
    assert table.column_names == wanted.column_names
    for name in wanted.column_names:
        assert in_order(wanted)[name].to_pylist() == table[name].to_pylist(), name


@pytest.fixture(scope="module")
def world():
    rng = random.Random(5)
    return messages_table(rng, 300), subscriptions_table(rng, 400)


def test_deliveries_are_those_of_the_hub(spark, world):
    """Also where a DataFrame has one partition; in the other tests it has three."""
    messages, subscriptions = world
    found = match(frame(spark, messages, 1), frame(spark, subscriptions, 1))
    check(found, expected(messages, subscriptions))


@pytest.mark.parametrize("ids", [str, int])
def test_ids_keep_their_type(spark, ids):
    rng = random.Random(6)
    other = int if ids is str else str
    messages = messages_table(rng, 100, ids=ids, times=False)
    subscriptions = subscriptions_table(rng, 100, ids=other, kinds=("within",))
    found = match(frame(spark, messages), frame(spark, subscriptions))
    assert {str: "string", int: "bigint"}[ids] == dict(found.dtypes)["message_id"]
    assert {str: "string", int: "bigint"}[other] == dict(found.dtypes)["subscription_id"]
    check(found, expected(messages, subscriptions))


def test_subscriptions_expire(spark):
    rng = random.Random(7)
    messages, subscriptions = messages_table(rng, 200), subscriptions_table(rng, 200, expires=True)
    check(match(frame(spark, messages), frame(spark, subscriptions)), expected(messages, subscriptions))


@pytest.mark.parametrize(("plan", "partitions"), [("hash", 2), ("prefix", 4), ("trigger", 2)])
def test_plans_change_no_delivery(spark, world, plan, partitions):
    messages, subscriptions = world
    found = match(frame(spark, messages), frame(spark, subscriptions), plan=plan, partitions=partitions)
    check(found, expected(messages, subscriptions))


def test_it_is_a_transformation(spark, world):
    messages, subscriptions = world
    options = {"index": "scan", "vocabulary": Vocabulary()}
    found = frame(spark, messages).transform(match_against(frame(spark, subscriptions), **options))
    check(found, hub_of(subscriptions).publish_many(messages).to_table())


def test_columns_nobody_asks_for_are_not_made(spark, world):
    messages, subscriptions = world
    found = match(frame(spark, messages), frame(spark, subscriptions)).select("subscription_id").toArrow()
    assert expected(messages, subscriptions).num_rows == found.num_rows


def test_without_seq_messages_are_numbered(spark, world):
    messages, subscriptions = world
    found = match(frame(spark, messages.drop_columns(["seq"])), frame(spark, subscriptions)).toArrow()
    wanted = expected(messages, subscriptions)
    pair = [(name, "ascending") for name in ("subscription_id", "message_id")]
    for name in ("subscription_id", "message_id", "score", "time"):
        assert wanted.sort_by(pair)[name].to_pylist() == found.sort_by(pair)[name].to_pylist()
    key = ("step", "arrival", "change", "subscription_id")
    assert found.num_rows == found.group_by(key).aggregate([]).num_rows


def test_bad_messages_are_left_out_and_can_be_had(spark):
    rows = [
        ("a", "tea", 1.0, 1.0, 1),
        (None, "tea", 1.0, 1.0, 2),
        ("c", "tea", float("nan"), 1.0, 3),
        ("d", "tea", 1.0, None, 4),
    ]
    messages = spark.createDataFrame(rows, "id string, text string, x double, y double, seq int")
    subscriptions = spark.createDataFrame([("s", "tea")], "id string, query string")
    found = match(messages, subscriptions, delivery_ids=True).collect()
    assert [("s", "a", "1:1:+:s")] == [(row.subscription_id, row.message_id, row.delivery_id) for row in found]
    refused = sorted(rejected_messages(messages).collect())
    assert [(2, None, "id"), (3, "c", "x"), (4, "d", "y")] == [(row.seq, row.id, row.field) for row in refused]
    assert "x is nan; expected a finite number" == refused[1].reason


def test_bad_subscriptions_are_warned_of_or_collected(spark):
    messages = spark.createDataFrame([("a", "tea", 1.0, 1.0)], "id string, text string, x double, y double")
    subscriptions = spark.createDataFrame([("s", "tea"), ("t", "(tea"), ("u", "tea AND")], "id string, query string")
    with pytest.warns(UserWarning, match=r"^2 of 3 subscriptions cannot be used, the first with id t: "):
        found = match(messages, subscriptions)
    assert 1 == found.count()
    rejected = Rejected()
    match(messages, subscriptions, rejected=rejected)
    assert ["t", "u"] == [row.id for row in rejected]


class TestMistakes:
    """One line each, before a job runs."""

    MESSAGES = "id string, text string, lon double, lat double"
    SUBSCRIPTIONS = "id string, kind string, query string, lon double, lat double, radius_m double"

    def given(self, spark, messages=MESSAGES, subscriptions=SUBSCRIPTIONS):
        return spark.createDataFrame([], messages), spark.createDataFrame([], subscriptions)

    @pytest.mark.parametrize(
        ("messages", "complaint"),
        [
            (
                "id string, lon double, lat double",
                "messages: there is no column text or terms; there are: id, lon, lat; rename one: withColumnRenamed",
            ),
            ("text string, lon double, lat double", "messages: there is no column id"),
            ("id string, text string, lon double", "messages: there is no column lat"),
            (
                "id string, text string, lon string, lat double",
                "messages: column lon is of type string; expected numbers",
            ),
            (
                "id double, text string, lon double, lat double",
                "messages: column id is of type double; expected text or",
            ),
            (
                "id string, text string, x double, y double",
                "column lon tells the earth and column x a plane; rename one: withColumnRenamed",
            ),
            (MESSAGES + ", seq string", "messages: column seq is string; expected integers"),
        ],
    )
    def test_of_messages(self, spark, messages, complaint):
        with pytest.raises(InvalidColumns) as caught:
            match(*self.given(spark, messages))
        assert str(caught.value).startswith(complaint)
        assert "--" not in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_of_subscriptions(self, spark):
        with pytest.raises(InvalidColumns, match="subscriptions: there is no column id"):
            match(*self.given(spark, subscriptions="query string"))
        with pytest.raises(InvalidColumns, match="subscriptions: column query is of type int32; expected text"):
            match(*self.given(spark, subscriptions="id string, query int"))

    def test_of_options(self, spark, tmp_path):
        given = self.given(spark)
        with pytest.raises(InvalidInput, match="plan is 'magic'; expected one of hash"):
            match(*given, plan="magic")
        with pytest.raises(InvalidInput, match="partitions are given without a plan"):
            match(*given, partitions=3)
        with pytest.raises(InvalidInput, match="max_distance is -1"):
            match(*given, max_distance=-1)
        (tmp_path / "file").touch()
        with pytest.raises(InvalidInput, match="is not empty; give a new folder"):
            match(*given, store=tmp_path)
        with pytest.raises(InvalidColumns, match="space is 'moon'"):
            match(*given, space="moon")

    def test_top_k_needs_an_order(self, spark):
        messages, _ = self.given(spark)
        subscriptions = spark.createDataFrame([("s", "topk", "tea", 1.0, 1.0, None)], self.SUBSCRIPTIONS)
        with pytest.raises(NotSupported, match=r"^subscription 's' is of kind topk.* nearcast match --engine spark"):
            match(messages, subscriptions)


def test_a_stream_is_matched_batch_by_batch(spark, world, tmp_path):
    messages, subscriptions = world
    pq.write_table(messages, tmp_path / "messages.parquet")
    stream = spark.readStream.schema(spark.createDataFrame(messages).schema).parquet(str(tmp_path))
    given = frame(spark, subscriptions)
    with pytest.raises(NotSupported, match="no vocabulary can be learned from it; give vocabulary="):
        match(stream, given)
    with pytest.raises(NotSupported, match="a stream without a column seq"):
        match(stream.drop("seq"), given)
    found = match(stream, given, vocabulary=Vocabulary(), plan="trigger")
    query = found.writeStream.format("memory").queryName("found").trigger(availableNow=True)
    assert query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination(PATIENCE_S)
    check(spark.table("found"), hub_of(subscriptions).publish_many(messages).to_table())


def test_nothing_matches_nothing(spark):
    messages = spark.createDataFrame([], "id long, text string, lon double, lat double")
    subscriptions = spark.createDataFrame([], "id long, query string")
    for plan in (None, "trigger"):
        found = match(messages, subscriptions, plan=plan)
        assert [] == found.collect()
        assert "bigint" == dict(found.dtypes)["subscription_id"]


def test_importing_it_loads_no_spark():
    import subprocess
    import sys

    script = "import sys, nearcast.spark; sys.exit('pyspark' in sys.modules or 'pandas' in sys.modules)"
    assert 0 == subprocess.run([sys.executable, "-c", script], check=False).returncode


def test_the_names_are_functions():
    """Not the modules of their names."""
    assert all(callable(getattr(nearcast.spark, name)) for name in nearcast.spark.__all__)
