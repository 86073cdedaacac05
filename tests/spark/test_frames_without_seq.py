"""A streaming DataFrame without a column `seq`: its rows come in Spark's own order."""

import json
from collections import Counter

from nearcast import Hub
from nearcast.spark.stream import stream
from nearcast.tables import Rejected, subscriptions_table
from support.waiting import PATIENCE_S

SUBSCRIPTIONS = [
    {"id": 1, "kind": "within", "query": "tea", "x": 1.0, "y": 1.0, "radius": 5.0},
    {"id": 2, "kind": "topk", "query": "tea", "k": 20, "x": 1.0, "y": 1.0, "max_distance": 9.0},
]


def test_rows_of_a_frame_without_seq_are_all_matched_once(spark, tmp_path):
    """Partitions number their rows themselves; rows of one file keep their order, and a bad one is rejected."""
    (tmp_path / "rows").mkdir()
    messages = [{"id": n, "text": "tea", "x": 1.0 + n / 100, "y": 1.0} for n in range(30)]
    messages[7]["y"] = None
    for part in range(3):
        lines = [json.dumps(each) for each in messages[part * 10 : part * 10 + 10]]
        (tmp_path / "rows" / f"{part}.json").write_text("\n".join(lines))
    frame = spark.readStream.schema("id long, text string, x double, y double").json(str(tmp_path / "rows"))
    handed = []
    running = stream(
        frame,
        subscriptions_table(SUBSCRIPTIONS, Hub("plane").space, rejected=Rejected()),
        out=lambda deliveries, _: handed.append(deliveries.toArrow().to_pylist()),
        checkpoint=tmp_path / "K",
        window=50,
        space="plane",
        partitions=2,
        once=True,
        spark=spark,
    )
    assert running.wait(PATIENCE_S)
    (found,) = handed
    good = [each["id"] for each in messages if each["y"] is not None]
    within = [(row["step"], row["message_id"]) for row in found if row["subscription_id"] == 1]
    assert Counter(good) == Counter(id_ for _, id_ in within)
    assert len(within) == len({step for step, _ in within})
    for part in range(3):
        ids = [id_ for _, id_ in sorted(within) if id_ // 10 == part]
        assert sorted(ids) == ids
    (rejected,) = (tmp_path / "K" / "_rejected").glob("part-*")
    assert ["7"] == [json.loads(line)["id"] for line in rejected.read_text().splitlines()]
