"""A small stream over files, run by drivers without Spark: whoever drives it, the output is that of a clean run."""

import shutil
from pathlib import Path

from nearcast import Vocabulary
from nearcast.engine.lifetime import Lifetime
from nearcast.geo import Space
from nearcast.pipeline.driver.batch_source import BatchSource
from nearcast.pipeline.driver.pipeline import Pipeline
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.sinks import RejectedSink, sink_of
from nearcast.pipeline.store.store import Store
from nearcast.tables import Rejected, subscriptions_table
from nearcast.window import Window
from support.life_streams import MovingWorld
from support.spark_files import contents
from support.streams import World, write_files

IDS = list(range(1, 13))


class SmallStream:
    """The input of a stream in a folder, and where its drivers keep their state and deliver to."""

    def __init__(
        self,
        folder,
        *,
        seed=7,
        plan="trigger",
        partitions=2,
        batches=4,
        window=9,
        messages=8,
        changes=3,
        lifetime=None,
        window_parts=0,
        kinds=("within", "similar", "topk"),
    ):
        self.folder = Path(folder)
        self.settings = PipelineSettings(
            Space.plane(),
            plan=plan,
            partitions=partitions,
            window=None if window is None else Window.of(window),
            window_parts=window_parts,
            lifetime=None if lifetime is None else Lifetime.of(lifetime),
            tell_expiry=lifetime is not None,
        )
        world = World(seed, kinds=kinds) if lifetime is None else MovingWorld(seed)
        self.subscriptions = [world.subscription(id_) for id_ in IDS[:8]]
        self.given = [self._written(batch, world.batch(messages, changes, IDS)) for batch in range(batches)]
        self.checkpoint, self.out = self.folder / "K", self.folder / "out"

    def _written(self, batch, files):
        folder = self.folder / "inbox" / str(batch)
        if not folder.exists():
            folder.mkdir(parents=True)
            write_files(folder, files)
        kinds = {name: name.partition("-")[0] for name in files}
        return [BatchSource(kinds[name], f"{batch}/{name}", str(folder / f"{name}.jsonl")) for name in files]

    def driver(self, runner=None, **options):
        """Return a driver that has not begun."""
        store = Store(str(self.checkpoint))
        sink = sink_of(str(self.out), store)
        return Pipeline(store, self.settings, runner or LocalRunner(), sink, RejectedSink(str(self.out)), **options)

    def started(self, **options):
        """Return a driver that has begun the stream, or goes on with it."""
        driver = self.driver(**options)
        if not driver.resume():
            self.begin(driver)
        return driver

    def begin(self, driver):
        """Let a driver begin the stream."""
        table = subscriptions_table(self.subscriptions, self.settings.space, rejected=Rejected())
        driver.begin(table, Vocabulary().snapshot())

    def run(self, driver, last=None):
        """Let a driver run what there is, or up to a batch."""
        for batch in range(driver.state.manifest.batch + 1, len(self.given) if last is None else last + 1):
            driver.run(batch, self.given[batch])

    def clean(self):
        """Return what a driver delivers that nobody disturbs, and begin anew."""
        self.run(self.started())
        found = contents(self.out)
        self.clear()
        return found

    def clear(self):
        """Remove the state and the output."""
        shutil.rmtree(self.checkpoint, ignore_errors=True)
        shutil.rmtree(self.out, ignore_errors=True)

    def delivered(self):
        """Return what readers see."""
        return contents(self.out)
