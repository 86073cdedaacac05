"""Random streams whose messages live and whose subscriptions move, and what a hub fed in the same order delivers."""

import random

import pyarrow.parquet as pq
import pytest

from nearcast import Hub, Vocabulary, delivery_id
from nearcast.engine.lifetime import Lifetime
from nearcast.geo import Space
from nearcast.pipeline.driver.batch_source import BatchSource
from nearcast.pipeline.driver.pipeline import Pipeline
from nearcast.pipeline.driver.rebalance import ask
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.sinks import sink_of
from nearcast.pipeline.store.store import Store
from nearcast.pipeline.worker.tasks import forget_all
from nearcast.tables import Rejected, subscriptions_table
from nearcast.window import Window
from support.streams import COLUMNS, Oracle, World, moment, net, write_files

KINDS = ("within", "similar", "topk")


class MovingWorld(World):
    """Messages of which some say when they expire; changes of which most are reports of places."""

    def subscription(self, id_):
        row = super().subscription(id_)
        if self.random.random() < 0.2:
            row["min_move_m" if self.earth else "min_move"] = 2e6 if self.earth else 2.0
        return row

    def change(self, ids):
        row, r = super().change(ids), self.random
        if r.random() < 0.5:
            row = {"op": "move", "id": row["id"], "time": row["time"]} | self.place()
        if row["op"] == "move" and r.random() < 0.2:
            row = {"op": "move", "id": row["id"], "time": row["time"]} | self.region()
        if row["op"] == "move" and r.random() < 0.2:
            del row["time"]
        elif row["op"] == "move" and r.random() < 0.1:
            row["time"] = moment(self.seconds - 5)
        return row

    def message(self):
        row, r = super().message(), self.random
        if r.random() < 0.5:
            row["expires"] = moment(self.seconds + r.choice([1, 2, 3, 5, 8]))
        if r.random() < 0.1:
            row["time"] = moment(self.seconds - 6)
        return row


class StepByStep(Oracle):
    """A hub that is fed row by row; moves are reports with a time, to points and to regions."""

    def run(self, files, told=(), beat=None):
        told = self._numbered(told)
        for _, is_message, _, _, row in sorted(self._in_order(files), key=lambda each: each[:4]):
            told += self._numbered(self._publish(row) if is_message else self._change(row))
        assert beat is None
        return net(told) if self.hub.lifetime is None else [delivery for _, delivery in told]

    def _change(self, row):
        if row["op"] != "move":
            return super()._change(row)
        found = self.hub.move_many([{name: value for name, value in row.items() if name != "op"}])
        self.rejected += len(found.rejected)
        return list(found)


def fed(hub: Hub, rows):
    """Return a hub's oracle that has begun with these subscriptions."""
    oracle = StepByStep(hub)
    oracle.begin(rows)
    return oracle


def values_of(row):
    """Return a row of deliveries in `COLUMNS`; the id of a delivery is made of its key where the row has none."""
    name = row.get("delivery_id")
    if name is None:
        name = delivery_id(row["step"], row["arrival"], row["change"], row["subscription_id"])
    return tuple((row | {"delivery_id": name})[each] for each in COLUMNS)


class LivingStream:
    """A pipeline over files in a folder, which may be started anew and fail in the middle of a batch."""

    def __init__(self, folder, settings, rows, *, sample=None, rebalance_above=None):
        self.folder, self.settings, self.rebalance_above = folder, settings, rebalance_above
        self.store = Store(str(folder / "K"))
        self.pipeline = self.opened()
        table = subscriptions_table(rows, settings.space, rejected=Rejected())
        assert not len(self.pipeline.begin(table, Vocabulary().snapshot(), sample=sample))

    def opened(self):
        sink = sink_of(str(self.folder / "out"), self.store)
        return Pipeline(self.store, self.settings, LocalRunner(), sink, rebalance_above=self.rebalance_above)

    def start_anew(self):
        forget_all()
        self.pipeline = self.opened()
        assert self.pipeline.resume()

    def run(self, batch, files, beat=None):
        """Return the report of a batch, and its deliveries by part."""
        folder = self.folder / f"batch-{batch}"
        folder.mkdir(exist_ok=True)
        paths = write_files(folder, files)
        kinds = {name: "messages" if name.startswith("messages") else "changes" for name in files}
        given = [BatchSource(kinds[name], name, str(path)) for name, path in paths.items()]
        report = self.pipeline.run(batch, given, beat=beat)
        parts = [pq.read_table(path) for path in sorted((self.folder / "out").glob(f"part-{batch:08d}-*"))]
        return report, [[values_of(row) for row in part.to_pylist()] for part in parts]

    def fail(self, batch, files):
        """Fail when some partitions have run the batch and others have not."""
        self.pipeline.runner = Failing()
        with pytest.raises(RuntimeError, match="out of luck"):
            self.run(batch, files)
        self.start_anew()


class Failing(LocalRunner):
    def map(self, task, payloads, **more):
        super().map(task, payloads[:1], **more)
        raise RuntimeError("out of luck")


def settings_of(plan, partitions, lifetime, *, window=None, tell_expiry=False, earth=False, parts=0):
    return PipelineSettings(
        Space.earth() if earth else Space.plane(),
        plan=plan,
        partitions=partitions,
        window=None if window is None else Window.of(window),
        window_parts=parts,
        lifetime=None if lifetime is None else Lifetime.of(lifetime),
        tell_expiry=tell_expiry,
    )


def rows_of(deliveries):
    return [tuple(getattr(each, name) for name in COLUMNS) for each in deliveries]


def check(folder, seed, settings, *, batches=6, size=10, faults=0.0, reweigh=0.0, rebalance=None):
    """Compare a stream with a hub: every row, in the order of each subscription and of steps."""
    earth = settings.space.is_earth
    rng = random.Random(seed)
    world = MovingWorld(seed, kinds=KINDS if settings.window else KINDS[:2], earth=earth)
    ids = list(range(1, 11))
    first = [world.subscription(id_) for id_ in ids[:7]]
    hub = Hub(
        "earth" if earth else "plane",
        window=settings.window,
        lifetime=settings.lifetime,
        tell_expiry=settings.tell_expiry,
    )
    oracle, stream = fed(hub, first), LivingStream(folder, settings, first)
    rejected = 0
    for batch in range(batches):
        files = world.batch(rng.randint(0, size), rng.choice([0, 3, size]), ids)
        told = []
        if rebalance is not None and batch == batches // 2:
            ask(stream.store, stream.pipeline.state.manifest, *rebalance)
        if rng.random() < faults:
            stream.start_anew()
            if files:
                stream.fail(batch, files)
        if rng.random() < reweigh:
            words = Vocabulary()
            words.learn_tokens([[f"w{i}"] for i in range(8) for _ in range(rng.choice([1, 2, 9]))])
            stream.pipeline.use_vocabulary(words)
            told = list(hub.use_vocabulary(words))
        expected = rows_of(oracle.run(files, told))
        if rng.random() < faults:
            forget_all()
        report, parts = stream.run(batch, files)
        rejected += report.rejected
        delivered = [row for part in parts for row in part]
        assert sorted(expected, key=str) == sorted(delivered, key=str), f"batch {batch}"
        for part in parts:
            places = [expected.index(row) for row in part]
            assert sorted(places) == places, f"batch {batch}: order"
    assert oracle.rejected == rejected
    assert stream.pipeline.state.manifest.next_step == hub._state.next_step
    return stream, hub
