"""A pipeline over files, without Spark: each batch is written to a folder, run in this process, and read back."""

import json

from nearcast import Vocabulary
from nearcast.geo import Space
from nearcast.pipeline.driver.batch_source import BatchSource
from nearcast.pipeline.driver.pipeline import Pipeline
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.sinks import sink_of
from nearcast.pipeline.store.store import Store
from nearcast.tables import Rejected, subscriptions_table
from nearcast.window import Window
from support.streams import write_files


class FileStream:
    """A stream on a plane that begins with these subscriptions."""

    def __init__(self, folder, rows, *, plan="trigger", partitions=2, window="10s", parts=0):
        self.folder, self.reports = folder, []
        self.settings = PipelineSettings(
            Space.plane(),
            plan=plan,
            partitions=partitions,
            window=None if window is None else Window.of(window),
            window_parts=parts,
        )
        self.pipeline = self.opened()
        table = subscriptions_table(rows, self.settings.space, rejected=Rejected())
        self.pipeline.begin(table, Vocabulary().snapshot())

    def opened(self):
        """Return a pipeline as another process would open it."""
        store = Store(str(self.folder / "K"))
        return Pipeline(store, self.settings, LocalRunner(), sink_of(str(self.folder / "out.jsonl"), store))

    def run(self, batch, files, **clock):
        """Run a batch, {name: rows} as `World.batch` makes it; return what it delivers as `as_rows` does."""
        folder = self.folder / f"batch-{batch}"
        folder.mkdir(parents=True, exist_ok=True)
        paths = write_files(folder, files)
        given = [BatchSource(name.partition("-")[0], name, str(path)) for name, path in paths.items()]
        self.reports.append(self.pipeline.run(batch, given, **clock))
        parts = sorted((self.folder / "out.jsonl").glob(f"part-{batch:08d}-*"))
        rows = [json.loads(line) for part in parts for line in part.read_text().splitlines()]
        return sorted((row["delivery_id"], row["change"], row["score"], row["rank"]) for row in rows)


def as_rows(deliveries):
    """Return the deliveries of a hub, sorted, in the columns that tell them apart."""
    return sorted((each.delivery_id, each.change, each.score, each.rank) for each in deliveries)
