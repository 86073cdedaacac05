"""What the processes of a Spark session take: CPU time and memory of this process and of all below it, from /proc."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
ROLES = ("driver", "jvm", "workers")


@dataclass(frozen=True)
class Process:
    """A process: what it is to the session, its CPU seconds with those of children that ended, its resident bytes.

    The driver is this process, workers are Python below the JVM: those that run tasks and the one they are forked from.
    """

    pid: int
    role: str
    cpu_s: float
    rss: int


def processes() -> list[Process]:
    """Return this process and all below it; those that end meanwhile are left out."""
    below: dict[int, list[int]] = defaultdict(list)
    stats: dict[int, list[str]] = {}
    names: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with suppress(OSError):
            # The name stands in brackets and may hold anything.
            head, _, tail = (folder / "stat").read_text().rpartition(")")
            pid = int(folder.name)
            stats[pid], names[pid] = tail.split(), head.partition("(")[2]
            below[int(stats[pid][1])].append(pid)
    return list(_below(os.getpid(), "driver", below, stats, names))


def _below(
    pid: int, role: str, below: dict[int, list[int]], stats: dict[int, list[str]], names: dict[int, str]
) -> Iterator[Process]:
    ticks = [int(each) for each in stats[pid][11:15]]
    yield Process(pid, role, sum(ticks) / _TICKS_PER_S, int(stats[pid][21]) * _PAGE)
    for child in below[pid]:
        # A child of the JVM is at first a copy of it, named after one of its threads, and no worker.
        of_child = role
        if role == "jvm" and names[child].startswith("python"):
            of_child = "workers"
        elif names[child] == "java":
            of_child = "jvm"
        yield from _below(child, of_child, below, stats, names)


def cpu_seconds() -> dict[str, float]:
    """Return the CPU seconds so far by role, with `all`."""
    found = dict.fromkeys(ROLES, 0.0)
    for process in processes():
        found[process.role] += process.cpu_s
    return found | {"all": sum(found.values())}


def resident() -> dict[str, int]:
    """Return the resident bytes by role; pages that processes share count for each of them."""
    found = dict.fromkeys(ROLES, 0)
    for process in processes():
        found[process.role] += process.rss
    return found


def private() -> dict[str, int]:
    """Return by role the bytes that processes have to themselves."""
    found = dict.fromkeys(ROLES, 0)
    for process in processes():
        found[process.role] += private_bytes(process.pid) or 0
    return found


def private_of_workers() -> list[int]:
    """Return the bytes that each Python worker has to itself, the largest first."""
    found = [private_bytes(process.pid) for process in processes() if process.role == "workers"]
    return sorted((each for each in found if each is not None), reverse=True)


def private_bytes(pid: int) -> int | None:
    """Return the memory that a process shares with no file and no other process, None where the system does not tell.

    Pages of mapped files, which the system takes back when it wants to, are not among it.
    """
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return None
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("Private_Dirty", "Private_Hugetlb")))
