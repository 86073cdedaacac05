"""A stream from files on embedded Spark: files arrive in a folder, deliveries come out, a restart goes on.

Run it: python examples/stream_from_files.py (needs the extra: pip install 'nearcast[spark]')
"""

import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import nearcast.spark as ns

WISHES = pa.table(
    {
        "id": ["anna", "bert"],
        "query": ["ramen", "coffee OR ramen"],
        "west": [13.30, 13.42],
        "south": [52.45, 52.45],
        "east": [13.42, 13.50],
        "north": [52.55, 52.55],
    }
)
MORNING = [
    {"id": "m1", "text": "Ramen for breakfast", "lon": 13.40, "lat": 52.50, "time": "2026-05-01T08:00:00Z"},
    {"id": "m2", "text": "Coffee!", "lon": 13.45, "lat": 52.50, "time": "2026-05-01T08:05:00Z"},
]
EVENING = [{"id": "m3", "text": "The last ramen", "lon": 13.42, "lat": 52.50, "time": "2026-05-01T20:00:00Z"}]


def arrive(posts: Path, name: str, rows: list[dict]) -> None:
    """Put a file of JSON lines into the folder. It gets its name when it is complete."""
    unfinished = posts / f".{name}"
    unfinished.write_text("".join(json.dumps(row) + "\n" for row in rows))
    unfinished.rename(posts / name)


def work_off(folder: Path) -> int:
    """Run the stream over what has arrived since the last time, and return how many deliveries there are by now."""
    running = ns.stream(
        folder / "posts", WISHES, out=folder / "deliveries", checkpoint=folder / "state", partitions=2, once=True
    )
    running.wait()
    return pq.read_table(folder / "deliveries").num_rows


def main() -> None:
    """Stream a morning, then an evening: the second start goes on from the checkpoint of the first."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        posts = folder / "posts"
        posts.mkdir()
        arrive(posts, "morning.jsonl", MORNING)
        print("deliveries after the morning:", work_off(folder))
        arrive(posts, "evening.jsonl", EVENING)
        print("deliveries after the evening:", work_off(folder))

        deliveries = pq.read_table(folder / "deliveries").to_pylist()
        for row in sorted(deliveries, key=lambda row: (row["time"], row["subscription_id"])):
            print(f"{row['time']:%H:%M}", row["subscription_id"], "gets", row["message_id"])


if __name__ == "__main__":
    main()
