"""Starts a stream from topics to a topic several times in one session: python kafka_starts.py FOLDER.

`starts` in that folder is a pickled list; each sends records and runs the stream to their end. What each start
complained of, with the whole traceback, is put into `complaints.json`.
"""

import json
import pickle
import sys
import traceback
from pathlib import Path

from nearcast.geo import Space
from nearcast.spark.session import session
from nearcast.spark.stream import stream
from nearcast.tables import Rejected, subscriptions_table
from support.kafka_broker import Topics
from support.waiting import PATIENCE_S


def main(folder):
    given = pickle.loads((folder / "starts").read_bytes())
    spark = session("local[2]", settings={"spark.jars": given["jars"]})
    topics, address = Topics(given["plain"]), f"kafka://{given['servers']}"
    complaints = []
    for start in given["starts"]:
        for (topic, partition), rows in start["records"].items():
            topics.send(topic, rows, partition)
        try:
            running = stream(
                f"{address}/messages",
                subscriptions_table(given["subscriptions"], Space.plane(), rejected=Rejected()),
                changes=f"{address}/changes",
                out=f"{address}/deliveries",
                checkpoint=folder / "K",
                window=9,
                clock="event",
                space="plane",
                partitions=2,
                once=True,
                kafka_options=start["options"],
                spark=spark,
            )
            assert running.wait(PATIENCE_S)
            complaints.append(None)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            complaints.append({"says": str(error), "traceback": traceback.format_exc()})
    (folder / "complaints.json").write_text(json.dumps(complaints))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
