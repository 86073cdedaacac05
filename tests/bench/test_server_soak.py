"""`nearcast bench server --soak`: a server under a steady load, and the verdict about what grew."""

import json

import pytest

from nearcast.bench.server.soak import run_soak, summary
from nearcast.bench.server.workload import ServerSizes


def sample(at, private=100.0, disk=50.0, dropped=0, gaps=0):
    """Return what was seen in a second."""
    sizes = {"rss_mb": 300.0, "private_mb": private, "disk_mb": disk}
    return {"seconds": float(at), **sizes, "dropped": dropped, "gaps": gaps, "messages": at}


def test_a_soak_tells_memory_disk_and_what_was_dropped(nearcast, tmp_path):
    """Each sample has the sizes and the counters, everything was asked for, and nothing is left behind."""
    options = ["--soak", 0.05, "--rate", 30, "--subscriptions", 200, "--subscribers", 20, "--batch", 10]
    status, out, err = nearcast("bench", "server", *options, "--folder", tmp_path, "--json", tmp_path / "soak.json")
    report = json.loads((tmp_path / "soak.json").read_text())

    assert 0 == status
    assert f"minutes: {report['results']['verdict']}" in out
    assert "nearcast bench server --soak 0.05 --rate 30 --subscriptions 200" in report["workload"]["command"]
    assert err.count("nearcast: soak:") == len(report["samples"])
    last = report["samples"][-1]
    assert all(last[name] > 0 for name in ("rss_mb", "private_mb", "disk_mb", "messages", "changes", "moves"))
    assert last["rss_mb"] >= last["private_mb"]
    assert (0, 0) == (last["dropped"], last["gaps"])
    assert ["soak.json"] == [path.name for path in tmp_path.iterdir()]


def test_an_interrupt_ends_a_soak_with_what_was_seen(tmp_path):
    """The samples until then are returned, the server ends, and its folder goes."""
    said = []

    def say(line):
        said.append(line)
        if len(said) == 3:
            raise KeyboardInterrupt

    sizes = ServerSizes(subscriptions=20, subscribers=5, batch=10)
    samples = run_soak(sizes, 120, 20, seed=1, folder=tmp_path, say=say)
    assert (2, "interrupted") == (len(samples), said[-1])
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("grows", "told"),
    [
        ({}, "memory and disk are flat"),
        ({"private": 1.0}, "private grew"),
        ({"disk": 1.0}, "disk grew"),
        ({"private": 1.0, "disk": 1.0}, "private and disk grew"),
    ],
)
def test_growth_of_the_second_half_is_told(grows, told):
    """What a soak gains while it warms up is no growth; what it still gains later is."""
    early = [sample(at, private=at, disk=at) for at in range(20)]
    late = [
        sample(at, private=100 + grows.get("private", 0) * at, disk=50 + grows.get("disk", 0) * at)
        for at in range(20, 40)
    ]
    found = summary([*early, *late])
    assert found["verdict"].startswith(told)
    assert found["is_flat"] is (not grows)
    assert found["verdict"].endswith("0 dropped")


def test_what_was_dropped_is_in_the_verdict():
    """Events that were let go before they were acknowledged, and gaps that readers were told of."""
    assert summary([sample(at, dropped=3, gaps=2) for at in range(9)])["verdict"].endswith("5 dropped")
    late = [{**sample(at, dropped=3, gaps=2), "round_s": 612} for at in range(9)]
    assert summary(late)["verdict"].endswith("5 dropped; readers took 612 s to come round")
    assert "too short to tell" == summary([sample(1)])["verdict"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--soak", "0"), "--soak 0.0: give minutes"),
        (("--rate", "3"), "--rate is for a --soak"),
        (("--soak", "1", "--only", "lines"), "leave out --only"),
    ],
)
def test_options_that_do_not_go_together_are_refused(nearcast, options, told):
    """In one line, before anything is made."""
    status, _, err = nearcast("bench", "server", *options)
    assert 2 == status
    assert told in err
