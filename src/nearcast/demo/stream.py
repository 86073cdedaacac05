"""The evening as a stream: files of messages arrive, Spark matches them batch by batch, part files come out."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from nearcast.demo.city import City
    from nearcast.spark.batch_progress import BatchProgress

#: Files the evening comes in; each is a batch of the stream.
FILES = 10


def has_spark() -> bool:
    """Tell whether the extra `spark` is installed."""
    return find_spec("pyspark") is not None


def stream_evening(
    city: City, say: Callable[[str], None], show: Callable[[BatchProgress], None]
) -> tuple[pa.Table, float]:
    """Let the evening go through a stream; return what it delivered, and how long its batches after the first took."""
    from nearcast.spark.session import session, warm
    from nearcast.spark.stream import stream

    say("starting Spark in this process")
    spark = session()
    say("compiling, the first time only")
    warm(spark)
    seconds: list[float] = []

    def note(progress: BatchProgress) -> None:
        seconds.append(progress.report.seconds)
        show(progress)

    with tempfile.TemporaryDirectory(prefix="nearcast-demo-") as place:
        folder = Path(place)
        (folder / "messages").mkdir()
        say("storing subscriptions")
        running = stream(
            folder / "messages",
            city.subscriptions,
            out=folder / "deliveries",
            checkpoint=folder / "checkpoint",
            sample=city.messages.slice(0, 1000),
            trigger="0 seconds",
            spark=spark,
            on_batch=note,
        )
        say("streaming")
        _post(city.messages, folder / "messages", seconds, running.wait)
        running.stop()
        parts = sorted((folder / "deliveries").glob("part-*.parquet"))
        reached = pa.concat_tables([pq.read_table(path) for path in parts])
    return reached, sum(seconds[1:])


def _post(messages: pa.Table, folder: Path, seconds: list[float], wait: Callable[[float], bool]) -> None:
    """Put the messages into the folder, one file after the other as the batches before are done."""
    step = -(-messages.num_rows // FILES)
    for number, first in enumerate(range(0, messages.num_rows, step)):
        hidden = folder / f".{number:03d}.parquet"
        pq.write_table(messages.slice(first, step), hidden)
        hidden.rename(folder / f"{number:03d}.parquet")
        began = time.monotonic()
        while len(seconds) <= number and time.monotonic() - began < 300:
            wait(0.05)
