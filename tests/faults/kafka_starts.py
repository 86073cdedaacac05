"""Starts a stream from topics to a topic several times in one session: python kafka_starts.py FOLDER.

`starts` in that folder is a pickled list; each sends records and runs the stream to their end, or begins as after a
crash before the note of what was sent. What each start complained of, with the whole traceback, and how many records
there were after it is put into `ends.json`.
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
    ends = []
    for start in given["starts"]:
        for (topic, partition), rows in start["records"].items():
            topics.send(topic, rows, partition)
        if start.get("forgets"):
            (folder / "K/nearcast/published.json").unlink()
        complaint = None
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
        except Exception as error:  # noqa: BLE001 - the test looks at it
            complaint = {"says": str(error), "traceback": traceback.format_exc()}
        ends.append({"complaint": complaint, "sent": topics.count("deliveries")})
    (folder / "ends.json").write_text(json.dumps(ends))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
