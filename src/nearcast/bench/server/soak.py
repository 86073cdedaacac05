"""A server under a steady load for minutes or hours: its memory, the disk that its folder takes, and what it dropped.

Events are let go after a retention that is short beside the soak, so that all that is kept reaches its size in the
first half; growth in the second half is what has no end.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

from nearcast.bench.growth import growth_of
from nearcast.bench.server.data_folders import make_folder
from nearcast.bench.server.server_process import ServerProcess, memory_bytes
from nearcast.bench.server.soak_load import READ_PER_S, SoakLoad
from nearcast.bench.server.workload import ServerSizes
from nearcast.bench.spark.processes import private_bytes
from nearcast.errors import NearcastError

#: The share of the soak that says nothing about growth.
WARM_SHARE = 1 / 2
#: What must not grow.
SIZES = ("private_mb", "disk_mb")
#: Samples of a soak, and seconds between two at least; the part of it for which events are kept, and seconds at most.
_SAMPLES, _EVERY_S = 120, 1.0
_RETENTIONS, _MOST_KEPT_S = 8, 300.0
#: Events are kept for so many rounds of the readers at least: a shared machine may take that much longer for one.
_ROUNDS_KEPT = 3
#: Bytes of inputs between two snapshots: at least so many, and so many for each subscription. The log reaches back to
#: the older of two snapshots, so a soak must see several.
_LOG_BYTES, _LOG_BYTES_EACH = 1 << 20, 8
#: Counters of /metrics that tell of events that were lost to somebody.
_DROPPED = {"nearcast_outbox_dropped_unacknowledged": "dropped", 'nearcast_dropped_total{reason="retention"}': "gaps"}
_METRIC = re.compile(r"^(\S+) ([0-9.eE+-]+)$", re.MULTILINE)

Sample = dict[str, Any]


def run_soak(
    sizes: ServerSizes,
    seconds: float,
    messages_per_s: int,
    *,
    seed: int,
    folder: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> list[Sample]:
    """Return what was seen now and then; an interrupt ends the soak, and what was seen until then is returned."""
    with tempfile.TemporaryDirectory(prefix="nearcast-soak-", dir=folder) as own:
        say(f"making {sizes.subscriptions:,} subscriptions")
        data = make_folder(Path(own) / "data", sizes, seed)
        server = ServerProcess(data, _settings(sizes, seconds))
        stopped = Event()
        load = SoakLoad(server.port, sizes, messages_per_s, seed)
        feeder = Thread(target=load.run, args=(stopped,), name="nearcast soak", daemon=True)
        feeder.start()
        try:
            return _watched(server, data, load, feeder, seconds, say)
        finally:
            stopped.set()
            feeder.join()
            server.end()


def _settings(sizes: ServerSizes, seconds: float) -> dict[str, Any]:
    round_s = sizes.subscribers / READ_PER_S  # in which every subscriber is read once
    kept = max(1.0, min(seconds / _RETENTIONS, _MOST_KEPT_S), _ROUNDS_KEPT * round_s)
    return {
        "hub.retention_age": f"{kept:.0f}s",
        "limits.key_hours": kept / 3600,
        "hub.snapshot_bytes": max(_LOG_BYTES, _LOG_BYTES_EACH * sizes.subscriptions),
    }


def _watched(
    server: ServerProcess, data: Path, load: SoakLoad, feeder: Thread, seconds: float, say: Callable[[str], None]
) -> list[Sample]:
    samples: list[Sample] = []
    every = max(_EVERY_S, seconds / _SAMPLES)
    try:
        while load.rounds < SoakLoad.LOOPS:  # the first calls may wait for the compiler
            _pause(_EVERY_S / 10, load, feeder)
        began = time.monotonic()
        while (since := time.monotonic() - began) < seconds:
            _pause(min(every, seconds - since), load, feeder)
            seen = {"seconds": round(time.monotonic() - began, 1), **_looked_at(server, data), **load.done}
            samples.append(seen)
            say(told(seen))
    except KeyboardInterrupt:
        say("interrupted")
    return samples


def _pause(seconds: float, load: SoakLoad, feeder: Thread) -> None:
    """Wait; raise if nothing is asked of the server any more."""
    time.sleep(seconds)
    if not feeder.is_alive():
        raise NearcastError(f"the server answers no more ({load.failure}); there is no verdict")


def told(sample: Sample) -> str:
    """Return a sample as a line."""
    memory = ", ".join(f"{name} {sample[f'{name}_mb']:,.1f} MB" for name in ("rss", "private", "disk"))
    lost = f"{sample['dropped']:,} dropped, {sample['gaps']:,} in gaps"
    return f"soak: {sample['seconds']:,.0f} s, {memory}, {lost}, {sample['messages']:,} messages"


def _looked_at(server: ServerProcess, data: Path) -> Sample:
    """Return memory, disk and counters as they are now."""
    memory = {"rss": memory_bytes(server.pid), "private": private_bytes(server.pid), "disk": _disk_bytes(data)}
    found: Sample = {f"{name}_mb": None if size is None else round(size / 1e6, 2) for name, size in memory.items()}
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics") as answer:
        metrics = dict(_METRIC.findall(answer.read().decode()))
    return found | {name: round(float(metrics[metric])) for metric, name in _DROPPED.items()}


def _disk_bytes(folder: Path) -> int:
    """Return what the files below a folder take; those that go meanwhile are left out."""
    found = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                found += (Path(parent) / name).stat().st_blocks * 512
    return found


def summary(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return how memory and disk grew in the second half, in MB an hour, and whether that is flat and none dropped."""
    found: dict[str, Any] = {"samples": len(samples), **(samples[-1] if samples else {})}
    growth = growth_of(samples, SIZES, WARM_SHARE)
    if growth is None:
        return found | {"is_flat": None, "verdict": "too short to tell"}
    found |= {**growth.per_hour, "is_flat": not growth.grown}
    return found | {"verdict": _verdict(found, [name.removesuffix("_mb") for name in growth.grown])}


def _verdict(found: dict[str, Any], grown: list[str]) -> str:
    rates = ", ".join(f"{name.removesuffix('_mb')} {found.get(f'{name}_per_hour', 0):+,.1f} MB/h" for name in SIZES)
    flat = f"{' and '.join(grown)} grew" if grown else "memory and disk are flat"
    lost = found["dropped"] + found["gaps"]
    slow = f"; readers took {found['round_s']:,} s to come round" if lost and found.get("round_s") else ""
    return f"{flat} ({rates} in the second half), {lost:,} dropped{slow}"
