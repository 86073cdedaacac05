"""Memory that allocators keep goes back to the system, once there is much of it."""

import gc
import platform
import subprocess
import sys
import weakref

import numpy as np
import pytest

from nearcast.server.free_memory import FreeMemory, resident_bytes

#: Arrays of this size lie in the heap, where one that is in use keeps all before it.
ARRAY_BYTES, N_ARRAYS = 100_000, 3_000


class Linked:
    """An object that may point at another."""


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not tell how much memory is resident")
def test_what_was_freed_goes_back_to_the_system_once_it_is_much():
    """Of 300 MB that a burst needed at least half are given back; without a burst nothing is done."""
    memory = FreeMemory()
    assert not memory.look()
    burst = [np.ones(ARRAY_BYTES, np.uint8) for _ in range(N_ARRAYS)]
    kept = burst[::100]
    del burst
    before = resident_bytes()
    assert memory.look()
    assert resident_bytes() < before - ARRAY_BYTES * N_ARRAYS // 2
    assert not memory.look()
    assert all(each[-1] == 1 for each in kept)


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not tell how much memory is resident")
def test_what_a_burst_leaves_goes_back_although_it_was_looked_at_meanwhile():
    """A look in the middle of it finds nothing to give back; a minute later there is another."""
    memory = FreeMemory()
    burst = [np.ones(ARRAY_BYTES, np.uint8) for _ in range(N_ARRAYS)]
    assert memory.look()
    kept = burst[::100]
    del burst
    before = resident_bytes()
    memory._again -= 1_000
    assert memory.look()
    assert resident_bytes() < before - ARRAY_BYTES * N_ARRAYS // 2
    memory._again -= 1_000
    assert not memory.look(), "once is enough"
    assert all(each[-1] == 1 for each in kept)


BURST_OF_THREADS = """
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from nearcast.allocator import use_one_allocator
from nearcast.server.free_memory import FreeMemory, resident_bytes


def burst(n):
    return [pa.array(range(n)).cast(pa.string()) for _ in range(1_000)]


use_one_allocator()
memory, before = FreeMemory(), resident_bytes()
with ThreadPoolExecutor(8) as threads:
    tables = list(threads.map(burst, [1_000] * 32))
    full = resident_bytes()
    tables.clear()
    memory.look()
    print(pa.default_memory_pool().bytes_allocated(), (full - resident_bytes()) / (full - before))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not tell how much memory is resident")
def test_what_threads_allocated_goes_back_while_they_live():
    """Arrow's tables, too, which a server makes in its threads: in a process of their own, whose allocator is set."""
    command = [sys.executable, "-c", BURST_OF_THREADS]
    allocated, share = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()
    assert (allocated, float(share) > 0.7) == ("0", True), share


LARGE_BESIDE_SMALL = """
import numpy as np

from nearcast.allocator import use_one_allocator
from nearcast.server.free_memory import resident_bytes

use_one_allocator()
before, kept = resident_bytes(), []
del (first := [np.ones(8 << 20, np.uint8)])[:]  # from here on glibc would take such from its heap
for _ in range(40):
    large = [np.ones(4 << 20, np.uint8) for _ in range(10)]
    kept.append(np.ones(64 << 10, np.uint8))
    del large
print(sum(each.nbytes for each in kept), resident_bytes() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another malloc")
def test_large_arrays_go_back_when_they_are_freed_whatever_lies_between():
    """Nobody has to look: what is left is what is kept."""
    command = [sys.executable, "-c", LARGE_BESIDE_SMALL]
    kept, grown = map(int, subprocess.run(command, capture_output=True, check=True, text=True).stdout.split())
    assert grown < kept + (8 << 20)


def test_cycles_of_objects_are_collected_now_and_then():
    """A server leaves full collections to this: half a second each would come every few seconds."""
    memory, cycle = FreeMemory(), Linked()
    cycle.other = cycle
    for _ in range(3):  # into the old generation
        gc.collect()
    seen = weakref.ref(cycle)
    del cycle
    memory._collected -= 1_000
    memory.look()
    assert seen() is None
