"""Drivers that disturb each other: stopped at any file operation, paused, killed with -9, with a flaky disk.

`make test` tries a few moments, `make test-faults` goes on for FAULT_MINUTES.
"""

import os
import random
import sys
from pathlib import Path

import pytest

from faults.rounds import MINUTES
from support.waiting import run

TESTS = Path(__file__).parents[1]


def program(name, *arguments, **options):
    """Run a program of the folder `faults` to its end, interpreted: its processes then begin at once."""
    path = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
    env = os.environ | {"PYTHONPATH": path, "NUMBA_DISABLE_JIT": "1"}
    return run([sys.executable, "-W", "ignore", "-m", f"faults.{name}", *map(str, arguments)], env=env, **options)


@pytest.mark.parametrize("every", [131] if not MINUTES else [random.randint(8, 16)])
def test_a_driver_that_is_stopped_before_any_file_operation_while_another_takes_over(tmp_path, every):
    """Whatever the older one was about to do, the output is that of a clean run, and it names the newer one."""
    ran = program("interleaved_drivers", tmp_path, every)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 4 * every


def test_drivers_that_are_paused_killed_and_given_a_flaky_disk_at_random(tmp_path):
    """Every part is read once, with the bytes of a clean run; who lost the stream says who has it."""
    seed = random.randrange(1_000_000) if MINUTES else 3
    shown = {"capture_output": False, "timeout": None} if MINUTES else {}
    ran = program("random_drivers", tmp_path, MINUTES * 60, seed, **shown)
    assert ran.returncode == 0, ran.stderr
