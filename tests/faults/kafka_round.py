"""A stream from a topic to a topic: python kafka_round.py SERVER PACKAGE FOLDER; prints what is in the second one."""

import json
import sys
from pathlib import Path

from nearcast.geo import Space
from nearcast.spark.session import session
from nearcast.spark.stream import stream
from nearcast.tables import Rejected, subscriptions_table
from support.waiting import PATIENCE_S


def main(server, package, folder):
    settings = {"spark.jars.packages": package, "spark.jars.ivy": str(folder / "ivy")}
    spark = session("local[2,4]", settings=settings)
    inputs = json.loads((folder / "inputs.json").read_text())
    for rows in inputs["batches"]:
        # One partition and one task: records come in the order of rows.
        values = spark.createDataFrame([(json.dumps(row),) for row in rows], "value string").coalesce(1)
        values.write.format("kafka").option("kafka.bootstrap.servers", server).option("topic", "messages").save()
        running = stream(
            f"kafka://{server}/messages",
            subscriptions_table(inputs["subscriptions"], Space.plane(), rejected=Rejected()),
            out=f"kafka://{server}/deliveries",
            checkpoint=folder / "K",
            window=9,
            clock="event",
            space="plane",
            partitions=2,
            once=True,
            spark=spark,
        )
        assert running.wait(PATIENCE_S)
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", server).option("subscribe", "deliveries")
    found = reader.load().selectExpr("cast(key as string) key", "cast(value as string) value").collect()
    (folder / "found.json").write_text(json.dumps([[row.key, json.loads(row.value)] for row in found]))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
