"""Columns that grow at the end and are dropped at the front: what is in use stays, the rest takes no memory."""

import os
import random
from pathlib import Path

import numpy as np
import pytest

from nearcast.topk.window import column_queue
from nearcast.topk.window.column_queue import ColumnQueue


def queue_of(first=0):
    return ColumnQueue(first, number=np.zeros(0, np.int64), pair=np.zeros((0, 2), np.int32))


def added(queue, n):
    numbers = np.arange(queue.end, queue.end + n)
    queue.add(number=numbers, pair=np.stack([numbers, -numbers], axis=1).astype(np.int32))


@pytest.mark.parametrize("large", [1 << 12, 1 << 20])
def test_what_is_in_use_is_what_was_added(monkeypatch, large):
    """Through growing, cutting and dropping, in arrays of pages and in small ones."""
    monkeypatch.setattr(column_queue, "_LARGE", large)
    rng, queue = random.Random(3), queue_of(7)
    for _ in range(400):
        added(queue, rng.choice([1, 30, 700, 3000]))
        if rng.random() < 0.2:
            queue.cut(rng.randint(queue.first, queue.end))
        if rng.random() < 0.6:
            queue.drop(rng.randint(queue.first, queue.end))
        expected = np.arange(queue.first, queue.end)
        assert np.array_equal(expected, queue["number"])
        assert np.array_equal(-expected, queue["pair"][:, 1])
        assert queue.nbytes >= 16 * len(expected)


MEMORY = Path("/proc/self/smaps_rollup")


def private_bytes():
    lines = MEMORY.read_text().splitlines()
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith(("Private_Dirty", "Private_Clean")))


@pytest.mark.skipif(not MEMORY.exists(), reason="the system does not tell")
def test_a_queue_that_slides_takes_the_memory_of_what_is_in_use():
    """Its arrays are twice as long and more, and all of them has been written."""
    before, queue, live = private_bytes(), ColumnQueue(row=np.zeros((0, 64))), 100_000
    step = np.ones((5_000, 64))
    for _ in range(200):
        queue.add(row=step)
        queue.drop(max(queue.first, queue.end - live))
    used = live * 512
    assert len(queue.arrays["row"]) * 512 > 1.9 * used
    assert private_bytes() - before < 1.3 * used
    assert used <= queue.nbytes < 1.2 * used


def test_a_process_that_is_forked_off_does_not_write_into_ours():
    queue = ColumnQueue(row=np.zeros((0, 64)))
    queue.add(row=np.ones((5_000, 64)))
    child = os.fork()
    if not child:
        queue["row"][:] = 2.0
        os._exit(0)
    os.waitpid(child, 0)
    assert (queue["row"] == 1.0).all()
