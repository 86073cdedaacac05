"""The pipeline without Spark: every kind and plan, any number of partitions and any batches, against a hub."""

import random

import pyarrow.parquet as pq
import pytest

from nearcast import Hub, Vocabulary
from nearcast.geo import Space
from nearcast.sliding import Window
from nearcast.spark.pipeline import Given, Pipeline
from nearcast.spark.runner import LocalRunner
from nearcast.spark.settings import Settings
from nearcast.spark.sinks import sink_of
from nearcast.spark.store import Store
from nearcast.spark.tasks import forget_all
from nearcast.tables import Rejected, subscriptions_table
from streams import COLUMNS, Oracle, World, write_files

PLANS = ("hash", "location", "keyword", "prefix", "space-first", "keyword-first", "trigger")


class Stream:
    """A pipeline over files in a folder."""

    def __init__(self, folder, settings, rows, vocabulary=None):
        self.folder, self.settings = folder, settings
        self.store = Store(str(folder / "K"))
        self.vocabulary = vocabulary or Vocabulary()
        self.pipeline = self.opened()
        table = subscriptions_table(rows, settings.space, rejected=Rejected())
        assert not len(self.pipeline.begin(table, self.vocabulary.snapshot()))
        self.seen = 0

    def opened(self):
        sink = sink_of(str(self.folder / "out"), self.store)
        return Pipeline(self.store, self.settings, LocalRunner(), sink)

    def run(self, batch, files):
        folder = self.folder / f"batch-{batch}"
        folder.mkdir(exist_ok=True)
        paths = write_files(folder, files)
        given = [
            Given("messages" if name.startswith("messages") else "changes", name, str(path))
            for name, path in paths.items()
        ]
        report = self.pipeline.run(batch, given)
        return report, self.parts(batch)

    def parts(self, batch):
        """Return the part files of a batch as tables."""
        return [pq.read_table(path) for path in sorted((self.folder / "out").glob(f"part-{batch:08d}-*.parquet"))]


def in_order(tables):
    """Return the rows of the parts of a batch, by step; the order within a step is that of a part."""
    rows = [row for table in tables for row in table.to_pylist()]
    return [tuple(row[name] for name in COLUMNS) for row in rows]


def as_rows(deliveries):
    return [tuple(getattr(d, name) for name in COLUMNS) for d in deliveries]


def settings_of(plan, partitions, *, window, earth=False, index="trigger"):
    space = Space.earth() if earth else Space.plane()
    return Settings(space, plan=plan, partitions=partitions, window=window, index=index)


def check(tmp_path, seed, plan, partitions, window, kinds, *, earth=False, forget=0.0, index="trigger", batches=6):
    rng = random.Random(seed)
    world = World(seed, kinds=kinds, earth=earth)
    ids = list(range(1, 13))
    first = [world.subscription(id_) for id_ in ids[:8]]
    hub = Hub("earth" if earth else "plane", window=window)
    oracle = Oracle(hub)
    oracle.begin(first)
    stream = Stream(tmp_path, settings_of(plan, partitions, window=window, earth=earth, index=index), first)
    rejected = 0
    for batch in range(batches):
        files = world.batch(rng.randint(0, 12), rng.choice([0, 0, 2, 5]), ids)
        expected = as_rows(oracle.run(files))
        if rng.random() < forget:
            forget_all()
        report, tables = stream.run(batch, files)
        rejected += report.rejected
        assert sorted(in_order(tables), key=str) == sorted(expected, key=str), f"batch {batch}"
        for table in tables:
            rows = in_order([table])
            places = [expected.index(row) for row in rows]
            assert places == sorted(places)
    assert rejected == oracle.rejected
    return stream


@pytest.mark.parametrize("partitions", [1, 2, 4, 7])
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("kinds", [("within",), ("similar",), ("topk",), ("within", "similar", "topk")], ids="+".join)
def test_a_stream_delivers_what_a_hub_does(tmp_path, plan, partitions, kinds):
    seed = len(plan) * 31 + partitions * 7 + len(kinds)
    by_count = seed % 2
    window = None if kinds in (("within",), ("similar",)) else Window.of(9 if by_count else "5s")
    check(tmp_path, seed, plan, partitions, window, kinds, earth=bool(seed % 3 == 0), forget=0.3)
