"""Drivers of a stream with a lifetime that are paused, killed with -9 and given a flaky disk."""

import os
import sys
from pathlib import Path

from support.waiting import run

TESTS = Path(__file__).parents[1]
#: Streams of even seeds have a lifetime.
SEED = 4


def test_messages_that_live_outlive_their_drivers(tmp_path):
    """Every part is read once, with the bytes of a clean run: what lives is found again from snapshots and segments."""
    path = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
    env = os.environ | {"PYTHONPATH": path, "NUMBA_DISABLE_JIT": "1"}
    program = [sys.executable, "-W", "ignore", "-m", "faults.random_drivers", str(tmp_path), "0", str(SEED)]
    ran = run(program, env=env)
    assert 0 == ran.returncode, ran.stderr
