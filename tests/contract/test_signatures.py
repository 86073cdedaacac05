"""One compilation per kernel: arrays have one type wherever they come from."""

import json
import os
import sys

import numba
import pytest

from support.waiting import run

pytestmark = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")

EXPECTED = {
    "nearcast.indexes.scan._score_rows",
    "nearcast.indexes.scan._score_topk_rows",
    "nearcast.indexes.scan._try_clauses",
    "nearcast.indexes.shared.scores.own_amounts",
    "nearcast.indexes.trigger.search.search_segment",
    "nearcast.indexes.trigger.delta.search_delta",
    "nearcast.indexes.trigger.delta.search_scored_delta",
    "nearcast.indexes.trigger.segment._spread",
    "nearcast.indexes.trigger.background_merge._hand_over",
    "nearcast.indexes.shared.gather.merge_found",
}


def test_every_kernel_is_compiled_once(tmp_path):
    """Every kernel a mix of work calls has one signature; a second costs seconds at run time and memory for ever.

    Messages come in arrays of our own, then in read-only ones, as Arrow lends them.
    """
    done = run(
        [sys.executable, "-m", "contract.kernel_mix", str(tmp_path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert 0 == done.returncode, done.stderr
    counts = json.loads(done.stdout)
    assert set(counts) >= EXPECTED
    assert {} == {name: n for name, n in counts.items() if n != 1}
