"""Settings for all tests: no deadlines on shared machines, failures that can be replayed; and running commands."""

import functools
import os
import signal
import sys
from typing import NamedTuple

import pytest
import typer.main
from hypothesis import HealthCheck, settings

from nearcast.cli import _console, main
from support.maven import NOT_TESTED
from support.spark_session import spark
from support.work_units import WorkUnits, place_in_line

__all__ = ["spark"]

IS_INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
#: Calls that Numba does not look at are looked at here, in this process and in those it starts.
os.environ["NEARCAST_CHECK_CALLS"] = "1"
HAS_BOUNDS_CHECKS = os.environ.get("NUMBA_BOUNDSCHECK", "0") not in ("", "0")

settings.register_profile(
    "nearcast",
    deadline=None,
    print_blob=True,
    derandomize=bool(os.environ.get("CI")),
    max_examples=8 if IS_INTERPRETED else 10 if HAS_BOUNDS_CHECKS else 25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("nearcast")


def pytest_configure(config):
    """Let processes of tests be interrupted, and interpreted kernels divide as compiled ones do: to inf, unwarned.

    A shell without job control starts what runs in the background with SIGINT ignored, and children inherit that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if IS_INTERPRETED:
        config.addinivalue_line("filterwarnings", "ignore:overflow encountered:RuntimeWarning")


def pytest_ignore_collect(collection_path, config):
    """Pass over files without a test that runs in a slow mode: to import them all takes longer than to look."""
    if config.option.markexpr.startswith("modes") and collection_path.name.startswith("test_"):
        return True if ".modes" not in collection_path.read_text() else None
    return None


def pytest_collection_modifyitems(items):
    """Put the tests in the order in which `WorkUnits` shall hand them out."""
    items.sort(key=lambda item: place_in_line(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Share the tests out among workers by our units, in the order of collection."""
    config.option.loadscopereorder = False
    return WorkUnits(config, log)


def pytest_terminal_summary(terminalreporter):
    """Say in one line each what could not be tested for want of jars or programs: nobody reads reasons of skips."""
    skipped = {
        str(each.longrepr[2]) for each in terminalreporter.getreports("skipped") if isinstance(each.longrepr, tuple)
    }
    for reason in sorted(skipped):
        if NOT_TESTED in reason:
            terminalreporter.write_line(reason.removeprefix("Skipped: "), red=True, bold=True)


@pytest.fixture(scope="session", autouse=True)
def _quick_sync():
    """Let nothing wait for the disk: what is synced survives a power cut, and no test makes one."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", os.fstat)  # complains about a closed file all the same
        yield


@pytest.fixture(scope="session", autouse=True)
def _commands_made_once():
    """Make the parsers of all commands once: that takes longer than most of the commands that tests run."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(typer.main, "get_command", functools.cache(typer.main.get_command))
        yield


class Result(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The one line on stderr."""
        (line,) = self.err.splitlines()
        return line


@pytest.fixture
def nearcast(capsys, monkeypatch):
    """Run a command in this process, without the lines of progress that a slow machine would add."""
    monkeypatch.setattr(_console, "_EVERY_S", float("inf"))
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    monkeypatch.setattr("sys.unraisablehook", sys.unraisablehook)

    def run(*arguments):
        with pytest.raises(SystemExit) as left:
            main([str(each) for each in arguments])
        return Result(left.value.code, *capsys.readouterr())

    yield run
    for number, handler in before.items():
        signal.signal(number, handler)
