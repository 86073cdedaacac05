"""A partition reads its own messages and subscriptions, and finds the homes of candidates by one sort a batch."""

import random

import numpy as np
import pyarrow as pa
import pytest

from nearcast import Hub
from nearcast.geo import Space
from nearcast.pipeline.batch.inputs import BatchInputs, read_inputs
from nearcast.pipeline.batch.order import MessageSequence
from nearcast.pipeline.batch.segments import MessageSegment
from nearcast.pipeline.copies import home_slots
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.store.manifest_entries import BatchFiles
from nearcast.pipeline.worker import tasks
from nearcast.tables import Rejected
from nearcast.text.words import WordTable
from nearcast.topk import keeper
from support.file_stream import FileStream, as_rows
from support.streams import Oracle, World

FILES = BatchFiles(0, (), None, None, None, 0, 0)


def segment_of(first, texts):
    rows = [{"id": first + at, "text": text, "x": float(at), "y": 0.0} for at, text in enumerate(texts)]
    settings = PipelineSettings(Space.plane())
    return MessageSegment.encoded(pa.Table.from_pylist(rows), settings, WordTable(), source="a", rejected=Rejected())


def as_values(segment):
    """Return the messages of a segment with their words as strings, whatever numbers these have."""
    messages, words = segment.messages, [*segment.words.to_pylist(), None]
    texts = [
        [words[term] for term in messages.terms[low:high]]
        for low, high in zip(messages.term_start[:-1], messages.term_start[1:], strict=True)
    ]
    return list(
        zip(messages.ids.to_pylist(), texts, messages.box.tolist(), messages.steps, messages.clock, strict=True)
    )


@pytest.mark.modes
@pytest.mark.small
@pytest.mark.parametrize("sources", [1, 3])
@pytest.mark.parametrize("is_as_laid", [True, False])
def test_messages_of_some_rows_are_those_of_the_whole_batch(sources, is_as_laid):
    """With no other words than theirs, in the order of the batch, whatever the order of the sources is."""
    rng = random.Random(sources)
    texts = [[" ".join(rng.choices("abcdefgh", k=rng.randint(0, 3))) for _ in range(7)] for _ in range(sources)]
    segments = tuple(segment_of(10 * at, each) for at, each in enumerate(texts))
    n = 7 * sources
    order = np.arange(n) if is_as_laid else np.array(rng.sample(range(n), n - 2))
    step, clock = np.arange(len(order)) + 100, np.arange(len(order)) * 7
    inputs = BatchInputs(FILES, segments, MessageSequence(order, np.arange(len(order)), step, clock), None, None)
    whole = as_values(inputs.segment)
    for _ in range(20):
        rows = np.sort(rng.sample(range(len(order)), rng.randint(0, len(order)))).astype(np.int64)
        own = inputs.of_rows(rows)
        assert [whole[row] for row in rows] == as_values(own)
        if len(rows) < len(order):
            used = {word for _, words, *_ in as_values(own) for word in words}
            assert used == set(own.words.to_pylist())


PLACES = [{"x": float(at), "y": float(at)} for at in range(12)]
FIRST = [{"id": at, "query": f"w{at}", "radius": 1.0, **place} for at, place in enumerate(PLACES)]


def test_without_a_window_no_partition_copies_the_whole_batch(tmp_path):
    stream = FileStream(tmp_path, FIRST, plan="trigger", partitions=3, window=None)
    messages = [{"id": at, "text": f"w{at}", **place} for at, place in enumerate(PLACES)]
    changes = [{"op": "unsubscribe", "id": 0, "time": "2026-01-01T00:00:00Z"}]  # else the batch would not be recorded
    stream.run(0, {"messages-a": messages[::2], "messages-b": messages[1::2], "changes-a": changes})
    store, manifest = stream.pipeline.store, stream.pipeline.state.manifest
    inputs = read_inputs(store, manifest.batches[-1])
    assert 12 == len(inputs)
    assert "segment" not in vars(inputs)


def test_a_partition_learns_the_words_of_its_own_subscriptions(tmp_path):
    stream = FileStream(tmp_path, FIRST, plan="location", partitions=3, window=9)
    stream.run(0, {"changes-a": [{"op": "subscribe", **row, "query": f"own{row['id']}"} for row in FIRST]})
    states = [tasks._cache.look(stream.pipeline.store, number).partition.state for number in range(3)]
    for state in states:
        here = {f"own{id_}" for id_ in range(12) if state.ids.slot(id_) >= 0}
        assert 0 < len(here) < 12
        assert here == {word for word in state.words.words().to_pylist() if word.startswith("own")}


@pytest.mark.parametrize("plan", ["prefix", "keyword"])
def test_homes_are_sorted_once_a_batch_and_found_while_they_change(tmp_path, monkeypatch, plan):
    """Over many portions of messages, with subscriptions that come, go and are replaced in between."""
    monkeypatch.setattr(keeper, "BATCH", 3)
    sorted_, real = [], home_slots.HomeSlots.__init__
    monkeypatch.setattr(home_slots.HomeSlots, "__init__", lambda self, state: sorted_.append(1) or real(self, state))
    world, ids = World(5, kinds=("within", "topk")), list(range(1, 15))
    first = [world.subscription(id_) for id_ in ids[:9]]
    oracle = Oracle(Hub("plane", window=20))
    oracle.begin(first)
    stream = FileStream(tmp_path, first, plan=plan, partitions=3, window=20)
    for batch in range(3):
        sorted_.clear()
        files = world.batch(20, 8, ids)
        assert as_rows(oracle.run(files)) == stream.run(batch, files), f"batch {batch}"
        assert 1 <= len(sorted_) <= 3
