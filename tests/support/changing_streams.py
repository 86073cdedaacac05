"""Streams with many changes: ids that come once and often, bad rows between, restarts; a hub beside them."""

import pyarrow as pa
import pyarrow.parquet as pq

from nearcast import Hub, Vocabulary
from nearcast.pipeline.driver.batch_source import BatchSource
from nearcast.pipeline.driver.directory import _COLUMNS
from nearcast.pipeline.driver.pipeline import Pipeline
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.sinks import sink_of
from nearcast.pipeline.store.store import Store
from nearcast.pipeline.worker.tasks import forget_all
from nearcast.tables import Rejected, subscriptions_table
from support.streams import COLUMNS, Oracle, moment, values_in, write_files


def mixed_changes(world, n, once, often):
    """Return changes of ids that come once and of a few that come often, with bad rows between."""
    r, rows = world.random, []
    for _ in range(n):
        kind = r.random()
        id_ = once.pop() if kind < 0.6 and once else r.choice(often)
        row = world.change([id_])
        if kind > 0.95:
            row = {"op": "unsubscribe", "id": 10_000 + r.randint(0, 2), "time": row["time"]}
        elif row["op"] == "subscribe" and r.random() < 0.2:
            row["expires"] = moment(world.seconds - r.choice([0, 1, 5, -2]))
        rows.append(row)
        if r.random() < 0.2 and row["op"] == "unsubscribe":
            rows.append({"op": "subscribe", "time": row["time"]} | world.subscription(row["id"]))
    return rows


class ChangingStream:
    """A pipeline over files in a folder, beside a hub that is fed row by row."""

    def __init__(self, folder, settings, first, runner=None):
        self.folder, self.settings = folder, settings
        self.store = Store(str(folder / "K"))
        self.oracle = Oracle(Hub("plane", window=settings.window))
        self.oracle.begin(first)
        self.driver = self.opened(runner)
        table = subscriptions_table(first, settings.space, rejected=Rejected())
        self.driver.begin(table, Vocabulary().snapshot())
        self.rejected = 0

    def opened(self, runner=None):
        sink = sink_of(str(self.folder / "out"), self.store)
        return Pipeline(self.store, self.settings, runner or LocalRunner(), sink)

    def restart(self, runner=None):
        """Go on as a new driver does, with workers that know nothing."""
        forget_all()
        self.driver = self.opened(runner)
        assert self.driver.resume()

    def given(self, batch, files):
        folder = self.folder / f"batch-{batch}"
        folder.mkdir(exist_ok=True)
        paths = write_files(folder, files)
        return [BatchSource("changes" if "changes" in name else "messages", name, str(paths[name])) for name in files]

    def run(self, batch, files):
        """Run a batch; its deliveries must be those of the hub."""
        expected = [tuple(getattr(d, name) for name in COLUMNS) for d in self.oracle.run(files)]
        self.rejected += self.driver.run(batch, self.given(batch, files)).rejected
        assert sorted(self.delivered(batch), key=str) == sorted(expected, key=str), f"batch {batch}"

    def delivered(self, batch):
        parts = sorted((self.folder / "out").glob(f"part-{batch:08d}-*.parquet"))
        return [values_in(row) for part in parts for row in pq.read_table(part).to_pylist()]


def described_ids(directory, ids):
    """Return what a directory says of each id, whatever its places are."""
    places = directory.places(pa.array(ids))
    columns = {name: getattr(directory, name) for name in _COLUMNS}
    return {
        id_: None if place < 0 else {name: column[place].item() for name, column in columns.items()}
        for id_, place in zip(ids, places.tolist(), strict=True)
    }
