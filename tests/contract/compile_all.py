"""A program: compile the kernels of all indexes before the tests do, each once, on as many cores as it is told.

Two workers of pytest that start together would both compile what both need first, which is nearly everything.
"""

import multiprocessing
import sys
import tempfile
import time
from pathlib import Path

from contract.conftest import SPECS_BY_KINDS
from contract.kernel_mix import work
from contract.worlds import EARTH, PLANE
from nearcast.indexes import available

#: What takes longest goes first, so that nobody is left with it at the end.
LONGEST_FIRST = ("trigger", "ap-tree", "fast", "stamp", "skype")


def compile_index(name):
    """Do all that an index does, with every mix of kinds it matches; return how long that took."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for kinds, specs in SPECS_BY_KINDS.items():
            of_name = [spec for spec in specs if spec.partition(":")[0] == name]
            for space in (EARTH, PLANE) if of_name else ():
                work(of_name[-1], space, kinds, Path(folder) / f"{'-'.join(kinds)}-{space.kind}")
    return name, time.perf_counter() - began


def main(jobs):
    names = [info.name for info in available() if info.name != "scan"]
    names.sort(key=lambda name: LONGEST_FIRST.index(name) if name in LONGEST_FIRST else len(LONGEST_FIRST))
    compile_index("scan")  # what all of them share
    with multiprocessing.get_context("spawn").Pool(jobs, maxtasksperchild=1) as pool:
        for name, seconds in pool.imap_unordered(compile_index, names):
            sys.stdout.write(f"compiled {name}: {seconds:.0f} s\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
