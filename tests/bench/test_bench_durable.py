"""`nearcast bench durable`: three hubs take the same messages."""

import json


def test_durable_hubs_are_timed_beside_one_in_memory(nearcast, tmp_path):
    """All three have figures, subscribers resume, nothing is left behind, and the report names its command."""
    sizes = ["--subscriptions", 300, "--subscribers", 20, "--batches", 2, "--batch", 20, "--matches", 5]
    given = [*sizes, "--folder", tmp_path, "--json", tmp_path / "durable.json"]
    status, out, *_ = nearcast("bench", "durable", *given)
    report = json.loads((tmp_path / "durable.json").read_text())

    assert 0 == status
    assert "nearcast bench durable --subscriptions 300" in report["command"]
    assert ["memory", "log", "outbox"] == list(report["messages_per_s"])
    assert all(name in out for name in report["messages_per_s"])
    assert (40, True) == (report["messages"], report["deliveries"] > 40)
    assert report["resume_ms"]["median"] <= report["resume_ms"]["largest"]
    assert [0.8, 5.0] == [each["aim"] for each in report["aims"]]
    assert [report["share_of_memory"]["log"], report["singles_per_fsync"]] == [each["value"] for each in report["aims"]]
    assert all(each["figure"] in " ".join(out.split()) for each in report["aims"])
    assert 1 <= report["singles_per_fsync"]
    assert ["durable.json"] == [path.name for path in tmp_path.iterdir()]
