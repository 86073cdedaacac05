"""A program: compile the tests and the kernels of all indexes before tests are run, each once, on JOBS cores.

Two workers of pytest that start together would both compile what both need first, which is nearly everything. Kernels
of our own indexes are compiled for bounds checks as well. Usage: python -m contract.compile_all JOBS CACHE
"""

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba

from contract.conftest import SPECS_BY_KINDS
from contract.kernel_mix import work
from contract.worlds import EARTH, PLANE
from nearcast.indexes import DEFAULT_INDEX, available
from nearcast.warmup import rehearsals

#: Folders of kernels, and how those in them are compiled.
MODES = {"jit": {}, "bounds": {"NUMBA_BOUNDSCHECK": "1"}}
#: What takes longest goes first, so that nobody is left with it at the end.
LONGEST_FIRST = ("trigger", "ap-tree", "fast", "stamp", "skype")


def compile_index(name):
    """Do all that an index does, with every mix of kinds it matches; with the default one also all that hubs do.

    Those that keep live messages in their own structure do that, too.
    """
    with tempfile.TemporaryDirectory() as folder:
        for kinds, specs in SPECS_BY_KINDS.items():
            of_name = [spec for spec in specs if spec.partition(":")[0] == name]
            for space in (EARTH, PLANE) if of_name else ():
                work(of_name[-1], space, kinds, Path(folder) / f"{'-'.join(kinds)}-{space.kind}")
    for rehearsal in rehearsals([name]):
        if is_rehearsed(name, rehearsal.title):
            rehearsal.run()


def is_rehearsed(name, title):
    """Tell whether tests need the kernels that a rehearsal calls beyond those of `work`."""
    if name == DEFAULT_INDEX:
        return "plans" not in title or not numba.config.BOUNDSCHECK  # tests of plans run compiled alone
    return title.startswith(f"{name}, live messages")


def compile_apart(mode, name, cache):
    """Compile the kernels of an index in a process of its own."""
    began = time.perf_counter()
    environment = os.environ | MODES[mode] | {"NEARCAST_CACHE_DIR": str(Path(cache) / mode)}
    subprocess.run([sys.executable, "-m", "contract.compile_all", name], env=environment, check=True)
    sys.stdout.write(f"compiled {name} ({mode}): {time.perf_counter() - began:.0f} s\n")
    sys.stdout.flush()


def compile_tests():
    """Let pytest read all tests, whose bytecode, with their assertions rewritten, the workers then find."""
    subprocess.run([sys.executable, "-m", "pytest", "--collect-only", "-q"], stdout=subprocess.DEVNULL, check=True)


def main(jobs, cache):
    names = [info.name for info in available() if info.name != "scan"]
    names.sort(key=lambda name: LONGEST_FIRST.index(name) if name in LONGEST_FIRST else len(LONGEST_FIRST))
    shared = [("jit", "scan"), ("bounds", "scan")]  # what all of them use
    others = [("bounds", DEFAULT_INDEX), *(("jit", name) for name in names)]
    with ThreadPoolExecutor(jobs) as pool:
        tests = pool.submit(compile_tests)
        for some in (shared, others):
            list(pool.map(lambda each: compile_apart(*each, cache), some))
        tests.result()


if __name__ == "__main__":
    if len(sys.argv) == 2:
        compile_index(sys.argv[1])
    else:
        main(int(sys.argv[1]), sys.argv[2])
