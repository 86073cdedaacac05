"""What workers hold between batches: of every stream of a session, and no more than they need."""

import numpy as np
import pytest

from nearcast import Hub
from nearcast.pipeline.batch.router import Router
from nearcast.pipeline.copies import detector
from nearcast.pipeline.store import state_cache
from nearcast.pipeline.store.state_cache import RecentByStore
from nearcast.pipeline.store.store import Store
from nearcast.pipeline.worker import tasks
from nearcast.plans import ANY_CELL, ANY_WORD, Keys, Routes
from nearcast.text import Vocabulary
from support.file_stream import FileStream, as_rows
from support.streams import Oracle, World, moment

HERE = {"x": 0.0, "y": 0.0}


def test_two_streams_in_one_process_keep_their_routes_and_vocabularies(tmp_path, monkeypatch):
    """Batch by batch in turn, each opens its plan and its vocabulary once."""
    opened = []
    for owner in (Router, Vocabulary):
        real = owner.open.__func__
        noted = classmethod(lambda cls, folder, real=real: opened.append(str(folder)) or real(cls, folder))
        monkeypatch.setattr(owner, "open", noted)
    first = [{"id": 1, "kind": "topk", "query": "w1", "k": 1, "max_distance": 5.0, **HERE}, {"id": 2, "query": "w2"}]
    streams = [FileStream(tmp_path / name, first) for name in "ab"]
    files = [{"messages-a": [{"id": n, "text": "w1 w2", "time": moment(n), **HERE}]} for n in range(4)]
    for stream in streams:
        stream.run(0, files[0])
    opened.clear()
    for batch in range(1, 4):
        for stream in streams:
            stream.run(batch, files[batch])
    assert [] == opened


def test_a_router_looks_through_its_routes_once_after_each_growth(monkeypatch):
    """Whether every message goes everywhere is asked in each task, and the table is as large as the stream."""
    looks, real = [], Routes.is_everywhere
    monkeypatch.setattr(Routes, "is_everywhere", property(lambda routes: looks.append(1) or real.fget(routes)))
    router = Router(None, Routes(2))
    assert [False, False] == [router.is_everywhere, router.is_everywhere]
    for partition, expected in ((0, False), (1, True)):
        word, cell = np.array([ANY_WORD], np.int32), np.array([ANY_CELL], np.int32)
        router.grow(Keys(word, cell, np.array([partition], np.int32)))
        assert [expected, expected] == [router.is_everywhere, router.is_everywhere]
    router.grow(Keys(word, cell, np.array([0], np.int32)), (1,))
    assert not router.is_everywhere
    assert 4 == len(looks)


def test_a_cache_by_store_holds_the_last_values_of_the_last_stores(monkeypatch):
    monkeypatch.setattr(state_cache, "_MOST_STORES", 2)
    cache, made = RecentByStore(2), []

    def get(store, key):
        return cache.get(Store(store), key, lambda: made.append(store + key) or store + key)

    assert ["/a1", "/a2", "/a1", "/a3", "/a1"] == [get("/a", key) for key in "12131"]
    assert ["/a1", "/a2", "/a3"] == made  # 1 was used since 2 was
    for store, key in (("/b", "1"), ("/a", "3"), ("/c", "1"), ("/a", "3"), ("/b", "1")):
        get(store, key)
    assert ["/b1", "/c1", "/b1"] == made[3:]


@pytest.mark.parametrize("plan", ["prefix", "keyword"])
def test_copies_that_are_replaced_over_and_over_leave_no_slots_behind(tmp_path, monkeypatch, plan):
    """The detector numbers its slots anew, and detects what it did."""
    monkeypatch.setattr(detector, "SPARE_SLOTS", 2)
    world, ids = World(7, kinds=("topk",)), list(range(1, 7))
    first = [world.subscription(id_) for id_ in ids]
    oracle = Oracle(Hub("plane", window=9))
    oracle.begin(first)
    stream = FileStream(tmp_path, first, plan=plan, partitions=3, window=9)
    for batch in range(8):
        files = world.batch(4, 0, ids)
        changes = [{"op": "subscribe", **world.subscription(id_)} for id_ in ids]
        files["changes-a"] = [{name: value for name, value in row.items() if name != "expires"} for row in changes]
        assert as_rows(oracle.run(files)) == stream.run(batch, files), f"batch {batch}"
    known = [tasks._cache.look(stream.pipeline.store, number) for number in range(3)]
    held = [each.partition.detector for each in known if len(each.partition.detector)]
    assert held
    for each in held:
        assert each.index.n_slots <= 2 * len(ids) + 2 + len(ids)
        assert len(each._number) <= 3 * len(ids) * 3 // 2
