"""What a town needs is compiled meanwhile: all kinds of events happen once, and no process is left behind."""

import io
import subprocess

import pytest
from rich.console import Console

from nearcast.demo import town_kernels
from nearcast.durable import DurableHub


def test_everything_happens_once(monkeypatch):
    """Each kind of subscription is made, messages reach some, and walkers move: what the town will do."""
    seen = {"kinds": set(), "deliveries": 0, "moves": 0}

    def subscribe(hub, given, **options):
        seen["kinds"].add(given.get("kind", "within"))
        return real["subscribe"](hub, given, **options)

    def publish_many(hub, messages):
        found = real["publish_many"](hub, messages)
        seen["deliveries"] += len(found)
        return found

    def move_subscriber(hub, name, place):
        seen["moves"] += 1
        return real["move_subscriber"](hub, name, place)

    watched = {"subscribe": subscribe, "publish_many": publish_many, "move_subscriber": move_subscriber}
    real = {name: getattr(DurableHub, name) for name in watched}
    for name, call in watched.items():
        monkeypatch.setattr(DurableHub, name, call)
    town_kernels.main()
    assert {"within", "similar", "topk"} == seen["kinds"]
    assert seen["deliveries"] > 0
    assert seen["moves"] > 0


@pytest.mark.parametrize("fails", [False, True])
def test_the_process_ends_with_the_evening(monkeypatch, fails):
    """It is waited for, in one line; where the evening fails it is ended at once."""
    for name in ("NUMBA_DISABLE_JIT", "NEARCAST_CACHE"):
        monkeypatch.delenv(name, raising=False)
    started = []
    real = subprocess.Popen
    patience = "60" if fails else "1"

    def sleeper(_, **options):
        started.append(real(["sleep", patience], **options))
        return started[0]

    monkeypatch.setattr(town_kernels.subprocess, "Popen", sleeper)
    console = Console(file=io.StringIO())
    try:
        with town_kernels.compiling(console):
            if fails:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert started[0].poll() is not None
    assert (0 if fails else 1) == console.file.getvalue().count("compiling kernels of the town")


def test_nothing_is_started_where_nothing_is_compiled(monkeypatch):
    """Interpreted kernels, or ones that are not kept, need no other process."""
    monkeypatch.setattr(town_kernels.subprocess, "Popen", None)
    for name, value in (("NUMBA_DISABLE_JIT", "1"), ("NEARCAST_CACHE", "0")):
        monkeypatch.setenv(name, value)
        with town_kernels.compiling(Console(file=io.StringIO())):
            pass
        monkeypatch.delenv(name)
