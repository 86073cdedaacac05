"""The living town of `nearcast demo`: its streets, its people, and all of it as a process, on a terminal and off."""

import contextlib
import os
import re
import subprocess
import sys
import threading

import httpx2
import numpy as np
import pytest

from nearcast.demo.event_tally import EventTally
from nearcast.demo.flaky_receiver import FlakyReceiver
from nearcast.demo.people import HOOKED, townspeople
from nearcast.demo.streets import grid_streets
from nearcast.demo.walk import StreetWalk, metres_between
from support.waiting import PATIENCE_S, run, wait_until

_SMALL = ["demo", "--engine", "local", "--subscriptions", "100", "--messages", "100"]
#: Ctrl-C reaches those only whose session has the terminal for its own.
_TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)
_ADDRESS = re.compile(r"Watch it at (http://127\.0\.0\.1:\d+)/")


@pytest.fixture
def streets():
    return grid_streets(np.random.default_rng(1))


def test_every_crossing_leads_on(streets):
    """A street goes both ways, and nobody is caught in a dead end."""
    for crossing, ends in enumerate(streets.neighbours):
        assert len(set(ends)) == len(ends) >= 2
        assert all(crossing in streets.neighbours[each] for each in ends)


def test_walkers_keep_to_streets(streets):
    """Each place lies between two crossings that a street joins, and each step is as long as it should be."""
    walk = StreetWalk(streets, 40, np.random.default_rng(2))
    pairs = [(a, b) for a, ends in enumerate(streets.neighbours) for b in ends if a < b]
    before = walk.place
    for _ in range(200):
        place = walk.go(30.0)
        off = min(_detour_m(place, streets.crossings[a], streets.crossings[b]) for a, b in pairs)
        assert off < 0.1
        assert metres_between(before, place) < 30.1
        before = place


def _detour_m(place, one, other):
    return metres_between(one, place) + metres_between(place, other) - metres_between(one, other)


def test_people_have_all_kinds_of_subscriptions(streets):
    """Some hundred of them; ids are unique; the webhook is somebody's."""
    people = townspeople(streets, np.random.default_rng(3))
    wishes = [each for person in people for each in person.subscriptions]
    assert len({each["id"] for each in wishes}) == len(wishes) >= 100
    assert {"within", "similar", "topk"} == {each.get("kind", "within") for each in wishes}
    assert HOOKED in {person.name for person in people}
    assert 5 < sum(person.walks for person in people) < 15


def test_what_has_not_come_is_missing():
    """Each of the three is missed until it came."""
    receiver = FlakyReceiver()
    tally = EventTally(receiver)
    assert 3 == len(tally.missing())
    tally.counts.update(["match", "exit"])
    assert ["a webhook accepted after it was refused"] == tally.missing()
    receiver.n_mended = 1
    assert [] == tally.missing()


def test_the_town_lives_and_ends_without_a_terminal(tmp_path):
    """It checks over sockets that events came, ends with 0, and leaves no folder behind.

    Walkers hurry: until one of them enters or leaves a place takes half a minute otherwise.
    """
    code = (
        "from nearcast.cli import main; from nearcast.demo import town_life;"
        f"town_life._STEP_M = 400.0; main({[*_SMALL, '--seconds', '1']})"
    )
    done = run([sys.executable, "-c", code], env=_environment(tmp_path))
    assert (0, "") == (done.returncode, done.stderr), done.stdout
    assert "Three messages that arrived" in done.stdout
    address = _ADDRESS.search(done.stdout)[1]
    assert re.search(r"events: [1-9]\d* match.*[1-9]\d* of them accepted later", done.stdout)
    assert [] == list(tmp_path.iterdir())
    with pytest.raises(httpx2.TransportError):
        httpx2.get(address + "/healthz", trust_env=False)


def test_ctrl_c_on_a_terminal_ends_the_town(tmp_path):
    """It stays until then, serves its streets meanwhile, ends with 0, and leaves no process or folder behind."""
    with _on_terminal(["-m", "nearcast", *_SMALL], tmp_path) as (process, written, keyboard):
        shown = wait_until(
            lambda: _ADDRESS.search(written()), is_alive=lambda: process.poll() is None, about=lambda: written()[-2000:]
        )
        found = httpx2.get(shown[1] + "/page/overlay.geojson", trust_env=False, timeout=PATIENCE_S).json()
        assert {"Polygon", "MultiLineString"} == {each["geometry"]["type"] for each in found["features"]}
        os.write(keyboard, b"\x03")
        assert 0 == process.wait(PATIENCE_S), written()[-2000:]
        with pytest.raises(ProcessLookupError):
            os.killpg(process.pid, 0)
    assert [] == list(tmp_path.iterdir())


def test_without_the_server_one_line_says_so(tmp_path):
    """The demo is then what it was, and ends with 0."""
    code = f"import sys; sys.modules['uvicorn'] = None; from nearcast.cli import main; main({_SMALL})"
    done = run([sys.executable, "-c", code], env=_environment(tmp_path))
    assert (0, "") == (done.returncode, done.stderr)
    assert "The living town needs the server: pip install 'nearcast[server]'" == done.stdout.splitlines()[-1]


def _environment(folder):
    """Return an environment in which temporary folders are made in `folder`."""
    return {**os.environ, "TMPDIR": str(folder)}


@contextlib.contextmanager
def _on_terminal(command, folder):
    """Run Python in a session of its own on a real terminal; yields it, what it wrote, and the keyboard."""
    keyboard, terminal = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", _TAKE_TERMINAL, *command],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**_environment(folder), "TERM": "xterm", "COLUMNS": "200"},
        start_new_session=True,
    )
    os.close(terminal)
    parts = []
    reader = threading.Thread(target=_read, args=(keyboard, parts), daemon=True)
    reader.start()
    try:
        yield process, lambda: _plain(b"".join(parts)), keyboard
    finally:
        process.kill()
        process.wait()
        reader.join(PATIENCE_S)
        os.close(keyboard)


def _read(terminal, parts):
    """Read until the other side is closed, so that writing to it never waits."""
    with contextlib.suppress(OSError):
        while part := os.read(terminal, 65536):
            parts.append(part)


def _plain(written):
    """Return what was written without the sequences that move and colour."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written.decode(errors="replace"))
