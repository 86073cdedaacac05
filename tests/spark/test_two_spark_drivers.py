"""Two processes of `nearcast stream` on one checkpoint: the first ends and says which process has taken over."""

import re

import pytest
from test_spark_faults import MINUTES, N_BATCHES, Faulty

from support.spark_files import contents


@pytest.mark.skipif(not MINUTES, reason="two more Javas to start: make test-faults")
def test_a_second_process_takes_the_stream_over(spark, tmp_path):
    faulty = Faulty(spark, tmp_path)
    faulty.make_clean()
    faulty.restore()
    first = faulty.process(tmp_path / "first", is_endless=True)
    last = faulty.out / f"part-{N_BATCHES - 1:08d}-0000.parquet"
    try:
        assert first.wait_for(last.exists), first.said()
        second = faulty.process(tmp_path / "second")
        assert second.wait() in (0, 3), second.said()
        # The first one is still there, and this would be its next batch.
        faulty.inbox.add({"messages-a": [{"id": 10**6, "text": "w1", "x": 1.0, "y": 1.0}]})
        first.wait_for(lambda: False)
    finally:
        was_running = first.kill()
    assert not was_running
    (line,) = [line for line in first.said().splitlines() if "taken over" in line]
    assert re.match(rf"nearcast: .* was taken over by process {second.process.pid} on \S+, started \S+Z; this", line)
    faulty.run()
    found = contents(faulty.out)
    assert {name: data for name, data in found.items() if name in faulty.clean} == faulty.clean
