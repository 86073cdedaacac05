"""`nearcast bench spark`: aims of the project beside what a run measured, with the size they are stated for."""

import pytest

from nearcast.bench.spark.aims import aims_of
from nearcast.bench.spark.soak import _files_below, told

STREAM = {"ratio": 0.8, "tiny_batches": 150, "tiny_batch_ms_late": 260.0, "worker_private_mb": [400.0, 20.0]}


def verdicts(about, results):
    return {each["figure"]: (each["is_met"], each["is_of_size"]) for each in aims_of(about, results)}


def test_aims_of_boolean_subscriptions():
    about = {"kind": "within", "subscriptions": 1_000_000, "batch": 50_000}
    topic = {"messages_per_s_without_broker": 99_000.0, "changes_per_s_without_broker": 51_000.0}
    found = verdicts(about, {"stream": STREAM, "match": {"ratio": 0.84}, "topic": topic})
    assert found == {
        "stream of local": (True, True),
        "batch match of local": (False, True),
        "ten messages": (False, True),
        "private memory of a worker": (True, False),
        "messages from Kafka to Parquet": (False, True),
        "changes from Kafka": (True, True),
    }
    assert "batch match of local" not in verdicts(about, {"stream": STREAM})


@pytest.mark.parametrize(("window", "is_of_size"), [("1000000", True), ("100000", False), ("15m", False)])
def test_aims_of_topk_by_window_mode(window, is_of_size):
    about = {"kind": "topk", "subscriptions": 1_000_000, "batch": 1_000, "window": window, "window_mode": "shared"}
    found = verdicts(about, {"local": {}, "stream": STREAM, "stream_host": {**STREAM, "ratio": 0.6}})
    expected = {"stream of hub, window shared": (True, is_of_size), "stream of hub, window host": (False, is_of_size)}
    assert found == expected


def test_a_sample_of_a_soak_counts_files(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one").write_bytes(b"x" * 2_000_000)
    (tmp_path / "two").write_bytes(b"")
    sample = {"seconds": 61.2, "driver_mb": 1.0, "jvm_mb": 2.0, "workers_mb": 3.0, **_files_below(tmp_path)}
    assert (sample["state_mb"], sample["state_files"]) == (2.0, 2)
    line = told({**sample, "batches": 4, "messages_done": 5, "messages_given": 6})
    assert "state 2.0 MB in 2 files, 4 batches, 5 of 6 messages" in line
