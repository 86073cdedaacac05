"""The index `trigger` searches hundreds of messages at a time for scored rows: how many changes no answer."""

import random

import pytest

from contract.worlds import EARTH, PLANE, SMALL, random_place, random_similar, random_wanted, random_word
from nearcast.indexes import create
from nearcast.indexes.trigger import batch_match
from nearcast.indexes.trigger.scratch import SCORED_CHUNK
from nearcast.testing import IndexActor

SPACES = pytest.mark.parametrize("space", [EARTH, PLANE], ids=["earth", "plane"])


class ChunkLog:
    """How many messages each chunk has that is searched for scored rows."""

    def __init__(self, monkeypatch):
        self.sizes, self._search = [], batch_match._search_scored_chunk
        monkeypatch.setattr(batch_match, "_search_scored_chunk", self._note)

    def _note(self, held, batch, *rest):
        self.sizes.append(len(batch.order))
        return self._search(held, batch, *rest)

    def taken(self):
        sizes, self.sizes = self.sizes, []
        return sizes


def world(space, n_messages, n_wanted=40):
    """Return `trigger` and `scan` with the same subscriptions, some in segments and some in the delta, and messages."""
    rng = random.Random(7)
    said = [([random_word(rng) for _ in range(5)], random_place(rng, space)) for _ in range(n_messages)]
    wanted = [random_similar(rng, space, said) for _ in range(n_wanted)]
    actors = [IndexActor(create(spec, space)) for spec in (SMALL, "scan")]
    for actor in actors:
        actor.insert(wanted[:-5])
        actor.settle()
        actor.insert(wanted[-5:])
    return *actors, said


@SPACES
def test_chunks_of_any_size_answer_as_scan_does(space, monkeypatch):
    """The first call cannot know how many answers there will be; the next ones take as many messages as may be."""
    trigger, scan, said = world(space, SCORED_CHUNK + 88)
    expected, chunks = scan.match(said), ChunkLog(monkeypatch)
    assert len(expected.slots) > len(said)
    assert trigger.match(said) == expected
    assert chunks.taken() == [64] * 9 + [24]
    assert trigger.match(said) == expected
    assert chunks.taken() == [SCORED_CHUNK, 88]
    assert trigger.match(said[:100]) == scan.match(said[:100])
    assert chunks.taken() == [100]


def test_many_answers_make_small_chunks(monkeypatch):
    """The hits of a chunk are all in memory at once."""
    trigger, scan, said = world(PLANE, 400)
    expected, chunks = scan.match(said), ChunkLog(monkeypatch)
    monkeypatch.setattr(batch_match, "_ANSWERS_AT_A_TIME", len(expected.slots) // 2 + 1)
    assert trigger.match(said) == expected
    assert chunks.taken() == [64] * 6 + [16]
    assert trigger.match(said) == expected
    assert chunks.taken() == [200, 200]
    monkeypatch.setattr(batch_match, "_ANSWERS_AT_A_TIME", 1)
    for _ in range(2):
        assert trigger.match(said) == expected
    assert chunks.taken()[-7:] == [64] * 6 + [16]


def test_threads_share_a_batch_that_one_chunk_could_hold(monkeypatch):
    trigger, scan, said = world(PLANE, 300)
    expected, chunks = scan.match(said), ChunkLog(monkeypatch)
    trigger.match(said)
    chunks.taken()
    assert trigger.index.match(trigger.messages(said), threads=2) == expected
    assert chunks.taken() == [150, 150]


@SPACES
def test_a_batch_that_is_one_chunk_answers_in_the_order_of_its_messages(space, monkeypatch):
    """It is searched cell by cell; slots of all kinds, those of polygons too, go to the list of their message."""
    rng = random.Random(11)
    said = [([random_word(rng) for _ in range(5)], random_place(rng, space)) for _ in range(100)]
    wanted = random_wanted(rng, space, 60, ("within", "similar"), said)
    trigger, scan = (IndexActor(create(spec, space)) for spec in (SMALL, "scan"))
    for actor in (trigger, scan):
        actor.insert(wanted)
        actor.settle()
    expected = scan.match(said)
    assert len(expected.slots) > len(said)
    assert 0 < (expected.score < 1.0).sum() < len(expected.slots)
    trigger.match(said)
    chunks = ChunkLog(monkeypatch)
    assert trigger.match(said) == expected
    assert chunks.taken() == [100]
