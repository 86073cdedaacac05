"""Sinks that hand batches over note that: a start repeats a batch only after a crash before the note."""

import json

import pytest
from test_sinks import deliveries
from test_store import run_python

from nearcast.errors import IncompatibleStore
from nearcast.pipeline.sinks import after_commit, sink_of
from nearcast.pipeline.store.manifest import Manifests
from nearcast.pipeline.store.store import Store
from support.manifests import small_manifest

N_BATCHES = 2


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch):
    """Let functions get tables, also where another test has a session in this process."""
    monkeypatch.setattr(after_commit, "_session_or_none", lambda: None)


def stream(root):
    """Hand batches of two partitions over to a log, going on from whatever is there."""
    store = Store(root / "K")
    log = root / "log"

    def append(table, batch):
        with log.open("a") as file:
            file.write(json.dumps([batch, table["delivery_id"].to_pylist()]) + "\n")

    sink, manifests = sink_of(append, store), Manifests(store)
    last = manifests.last()
    manifests.sweep([last] if last else [], at_start=True)
    sink.sweep(last.outputs if last else [])
    if last:
        sink.publish(last.batch, last.outputs)
    for batch in range(last.batch + 1 if last else 0, N_BATCHES):
        staged = [sink.stager.stage(batch, p, [deliveries(10 * batch + p, 10 * batch + p + 3)]) for p in range(2)]
        last = small_manifest(batch, outputs=tuple(staged))
        manifests.commit(last)
        sink.publish(batch, staged)
        manifests.sweep([last])


def logged(root):
    """Return what was handed over, in order: batch and ids."""
    log = root / "log"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def test_a_start_repeats_nothing_that_was_handed_over(tmp_path):
    for _ in range(3):
        stream(tmp_path)
        assert [*range(N_BATCHES)] == [batch for batch, _ in logged(tmp_path)]


def test_a_crash_at_any_operation_loses_nothing_and_repeats_at_most_the_batch_under_way(tmp_path):
    (tmp_path / "clean").mkdir()
    stream(tmp_path / "clean")
    clean = logged(tmp_path / "clean")
    (tmp_path / "crashed").mkdir()
    code = "import sys, test_store as s, test_published_notes as t; print(s.crash_everywhere(t.stream, sys.argv[1], 3))"
    ran = run_python(code, tmp_path / "crashed")
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 50
    repeats = 0
    for root in (tmp_path / "crashed").iterdir():
        before = logged(root)
        stream(root)
        after = logged(root)
        assert before == after[: len(before)]
        repeated = len(after) - len(clean)
        assert repeated in (0, 1)
        # What comes twice is the batch that was handed over last before the crash, with the same ids.
        assert clean == before[: len(before) - repeated] + after[len(before) :]
        stream(root)
        assert after == logged(root)
        repeats += repeated
    assert repeats > 0, "no crash fell between handing over and noting"


def test_what_was_staged_and_is_lost_is_told(tmp_path):
    store = Store(tmp_path / "K")
    got = []
    sink = sink_of(lambda _, batch: got.append(batch), store)
    outputs = [sink.stage(4, 0, [deliveries(0, 3)])]
    store.delete([outputs[0]["staged"]])
    with pytest.raises(IncompatibleStore, match=r"K/staged/00000004-.* is lost: 3 rows of batch 4 .* to function yet"):
        sink.publish(4, outputs)
    assert [] == got


def test_a_note_that_cannot_be_read_repeats_a_batch(tmp_path):
    store = Store(tmp_path / "K")
    got = []
    outputs = []
    for _ in range(2):
        sink = sink_of(lambda _, batch: got.append(batch), store)
        outputs = outputs or [sink.stage(4, 0, [deliveries(0, 3)])]
        sink.publish(4, outputs)
        (tmp_path / "K/published.json").write_text('["cut o')
    assert [4, 4] == got


def test_the_console_is_told_once(tmp_path, capsys):
    store = Store(tmp_path / "K")
    outputs = [sink_of("console", store).stage(1, 0, [deliveries(0, 2)])]
    for _ in range(2):
        sink_of("console", store).publish(1, outputs)
    assert 2 == len(capsys.readouterr().out.splitlines())


def test_memory_is_filled_at_every_start(tmp_path):
    """What the last process held in memory is gone."""
    store = Store(tmp_path / "K")
    outputs = [sink_of("memory", store).stage(1, 0, [deliveries(0, 2)])]
    for _ in range(2):
        sink = sink_of("memory", store)
        sink.publish(1, outputs)
        assert 2 == sink.to_table().num_rows
