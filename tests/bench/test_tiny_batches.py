"""Tiny batches of `nearcast bench spark`: as many as asked for, behind those that warm up."""

import pytest

from nearcast.bench.data.workloads import generated
from nearcast.bench.spark.data import TINY_MEASURED, TINY_WARM, stream_workload


@pytest.mark.parametrize(("asked", "measured"), [(None, TINY_MEASURED), (3, 3)])
def test_as_many_tiny_batches_as_asked_for(tmp_path, asked, measured):
    given = stream_workload(
        generated(kind="within", subscriptions=20, messages=40),
        tmp_path / "messages",
        kind="within",
        batch=20,
        files_per_batch=1,
        n_tiny=asked,
    )
    assert TINY_WARM + measured == len(given.tiny)
