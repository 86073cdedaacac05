"""A stream places its top-k subscriptions again once thresholds have risen, and delivers what a hub delivers."""

import shutil
from functools import partial

import pytest
import test_rebalance
from test_rebalance import BreakingRunner, Broken, Stream

from nearcast.pipeline.driver import rebalance
from nearcast.pipeline.driver.rebalance import balance_after, has_risen, needed_share
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.store.manifest_entries import LoadBalance
from nearcast.pipeline.worker.tasks import StepResult
from nearcast.window import Window
from support.streams import WORDS, World

SPOTS, MESSAGES = 24, 160
#: The batch in which it is counted first what thresholds need.
COUNTED = 4


class Town(World):
    """Subscriptions and messages at a few spots far apart: who has a full list needs only what is near."""

    def place(self):
        r, spot = self.random, self.random.randrange(SPOTS)
        return {"x": 200.0 * (spot % 6) + r.uniform(-5, 5), "y": 200.0 * (spot // 6) + r.uniform(-5, 5)}

    def subscription(self, id_):
        words = {"query": self.words(1, 1)[0], "text_weight": 0.5, "max_distance": 60.0}
        return {"id": id_, "kind": "topk", "k": 1} | words | self.place()

    def words(self, low, high):
        return self.random.sample(WORDS[:2], self.random.randint(max(low, 1), min(high, 2)))


@pytest.fixture
def town(monkeypatch):
    """Let streams be made of towns, lists be short, and it be counted soon what thresholds need."""
    monkeypatch.setattr(rebalance, "_COUNTED_FROM", COUNTED)
    monkeypatch.setattr(test_rebalance, "World", Town)
    monkeypatch.setattr(
        test_rebalance, "PipelineSettings", partial(PipelineSettings, index="trigger:buffer=kmax,kmax=4")
    )


def stream_of(folder, plan="trigger", partitions=4, messages=MESSAGES):
    """Return a stream that has just counted what thresholds need, and the tuples of that batch."""
    stream = Stream(folder, 5, plan, partitions, Window.of(400), ("topk",), n=60)
    for _ in range(COUNTED):
        stream.run(stream.files(messages, 0))
    return stream, tuples_of(stream, messages)


def tuples_of(stream, messages=MESSAGES):
    """Run a batch, compare it with the hub's, and return how many messages were sent to partitions."""
    files = stream.files(messages, 0)
    report = stream.pipeline.run(stream.batch, stream.given(files))
    stream.check(files, report)
    return report.tuples


def test_thresholds_that_have_risen_place_subscriptions_again(tmp_path, town):
    """The batch after the count begins with a plan learned anew, which sends fewer messages; that is done once.

    Whichever job ends that batch, it places alike when it comes again, and writes the same bytes.
    """
    stream, before = stream_of(tmp_path / "stream")
    first = stream.manifest()
    assert first.balance.needed < 0.5
    kept = [stream.checkpoint, stream.folder / "out"]
    for folder in kept:
        shutil.copytree(folder, tmp_path / folder.name)
    files, lines = stream.files(MESSAGES, 0), set()
    given = stream.given(files)
    for job in (1, 2, 3):
        stream.restart(BreakingRunner(after=job))
        with pytest.raises(Broken):
            stream.pipeline.run(stream.batch, given)
        lines.add(stream.manifest().plan.line)
    stream.restart()
    report = stream.pipeline.run(stream.batch, given)
    stream.check(files, report)
    second = stream.manifest()
    assert {first.plan.line} == lines
    assert second.rebalance.id == f"thresholds-{COUNTED}"
    assert second.plan.line != first.plan.line
    assert (second.plan.name, second.plan.partitions) == ("trigger", 4)
    assert report.tuples < 0.75 * before
    broken = written(stream)
    assert [name for name in broken if name.startswith(f"part-{COUNTED + 1:08d}")]
    for folder in kept:
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / folder.name, folder)
    stream.restart()
    stream.pipeline.run(COUNTED + 1, given)
    assert broken == written(stream)
    line = stream.manifest().plan.line
    stream.restart()
    for _ in range(COUNTED):
        stream.run(stream.files(MESSAGES, 0))
    assert stream.manifest().plan.line == line
    assert stream.manifest().batch == 2 * COUNTED + 1


def written(stream):
    """Return the bytes of what was delivered, by name."""
    return {path.name: path.read_bytes() for path in (stream.folder / "out").glob("part-*")}


@pytest.mark.parametrize(("plan", "partitions", "messages"), [("hash", 2, 40), ("prefix", 2, 40), ("trigger", 2, 4)])
def test_where_thresholds_route_nothing_or_messages_are_few_nobody_is_placed_again(
    tmp_path, town, plan, partitions, messages
):
    """Plans that send messages everywhere or to copies do not count, and a handful of messages tells nothing."""
    stream, _ = stream_of(tmp_path, plan, partitions, messages)
    assert stream.manifest().balance.needed is None
    stream.run(stream.files(messages, 0))
    assert stream.manifest().rebalance is None


def test_the_share_that_is_needed_counts_all_partitions():
    """It is known only if every partition counted, and pairs are enough to tell."""

    def results(*counts):
        return [StepResult("delta", None, None, 0, 0, 0.0, needed) for needed in counts]

    assert needed_share(results((300, 900), (200, 100))) == 0.5
    assert needed_share(results((300, 900), None)) is None
    assert needed_share(results((300, 400), (200, 100))) is None
    assert not has_risen(None)
    assert not has_risen(balance_after(None, [1.0]))
    assert not has_risen(balance_after(None, [1.0], 0.5))
    assert has_risen(balance_after(None, [1.0], 0.4))
    assert not has_risen(balance_after(LoadBalance((1.0,), 3, 0.4), [1.0]))
