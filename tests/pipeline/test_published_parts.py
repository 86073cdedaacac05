"""Parts that readers take away as soon as they see them: no restart is blocked, and nothing comes twice."""

import pytest

from faults.small_stream import SmallStream
from nearcast.pipeline.sinks import FileSink
from nearcast.pipeline.store.store import Store


class DriverKilled(Exception):
    """What stands for the end of a driver."""


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """What a driver delivers that nobody disturbs."""
    return SmallStream(tmp_path_factory.mktemp("clean"), batches=3, messages=5).clean()


@pytest.fixture
def stream(tmp_path):
    return SmallStream(tmp_path, batches=3, messages=5)


def killed_after(monkeypatch, name, times=1):
    """Let drivers end when a call of the store was made so often that puts parts, or the note of them, in place."""
    method, left = getattr(Store, name), [times]

    def dying(store, *given, **more):
        result = method(store, *given, **more)
        concerns = name == "move" or "published" in str(given[0])
        if concerns and store.root.endswith("out"):
            left[0] -= 1
            if not left[0]:
                raise DriverKilled
        return result

    monkeypatch.setattr(Store, name, dying)


@pytest.mark.parametrize(("moment", "taken"), [("put", 0), ("move", 0), ("move", 1), ("move", 2)])
def test_parts_that_are_taken_away_before_the_driver_has_finished(stream, clean, monkeypatch, moment, taken):
    """Killed when it has noted what it publishes, or has published it: what readers took they have, the rest comes."""
    driver = stream.started()
    stream.run(driver, 0)
    with monkeypatch.context() as patched:
        killed_after(patched, moment)
        with pytest.raises(DriverKilled):
            stream.run(driver, 1)
    parts = sorted(stream.out.glob("part-00000001-*"))
    assert len(parts) == (2 if moment == "move" else 0)
    read = {path.name: path.read_bytes() for path in parts[:taken]}
    for path in parts[:taken]:
        path.unlink()
    stream.run(stream.started())
    assert not set(read) & set(stream.delivered())
    assert read | stream.delivered() == clean


def test_every_part_is_taken_away_at_once_and_the_driver_restarts_after_every_batch(stream, clean):
    read = {}
    for batch in range(3):
        stream.run(stream.started(), batch)
        for path in stream.out.glob("part-*"):
            assert path.name not in read
            read[path.name] = path.read_bytes()
            path.unlink()
    stream.started()
    assert read | stream.delivered() == clean


def test_notes_are_kept_for_the_last_batch_only(stream):
    stream.run(stream.started(), 1)
    second = stream.started()
    stream.run(second)
    notes = [path.name for path in (stream.out / "_staging").iterdir()]
    assert notes == [f"published-00000002-e{second.store.epoch}.json"]


def test_a_late_note_of_an_older_driver_hides_nothing(stream, clean):
    """It says what an earlier batch published, and takes nothing from what a later one notes."""
    first = stream.started()
    stream.run(first, 0)
    outputs = [each for each in first.state.manifest.outputs if not each.get("is_rejected")]
    second = stream.started()
    stream.run(second)
    FileSink(str(stream.out)).publish(0, outputs)
    for path in stream.out.glob("part-*"):
        path.unlink()
    stream.started()
    assert set(stream.delivered()) == {name for name in clean if not name.startswith("part-")}
