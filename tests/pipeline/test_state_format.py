"""Checkpoints and prepared stores of another format are refused by name, before anything of them is unpickled."""

import json
import pickle

import pytest

from nearcast.errors import IncompatibleStore
from nearcast.geo import Space
from nearcast.pipeline.driver.batch_source import BatchSource
from nearcast.pipeline.driver.pipeline import Pipeline
from nearcast.pipeline.driver.rebalance import ask_checkpoint
from nearcast.pipeline.preparation.prepared_store import about_prepared, prepare
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.sinks import sink_of
from nearcast.pipeline.store import pickles
from nearcast.pipeline.store.checkpoint_report import inspect_checkpoint
from nearcast.pipeline.store.state_format import STATE_FORMAT
from nearcast.pipeline.store.store import Store
from nearcast.saved_files.contents import signed
from support.streams import World

SETTINGS = PipelineSettings(Space.plane(), partitions=2)
#: As a version with other modules would have written it.
OF_MISSING_MODULE = b"cnearcast.spark.registering\nRegistered\n."
OTHERS = (1, STATE_FORMAT - 1, STATE_FORMAT + 1, "x")


def written(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def pipeline_of(checkpoint):
    store = Store(str(checkpoint / "nearcast"))
    return Pipeline(store, SETTINGS, LocalRunner(), sink_of(str(checkpoint.parent / "out"), store))


@pytest.fixture
def prepared(tmp_path):
    """A prepared store."""
    world = World(5, kinds=("within",), with_times=False)
    raw = written(tmp_path / "people.jsonl", [world.subscription(f"s{i}") for i in range(6)])
    prepare([raw], tmp_path / "store", SETTINGS, LocalRunner())
    return tmp_path / "store"


@pytest.fixture
def checkpoint(prepared, tmp_path):
    """The checkpoint of a stream of one batch, with a change of which a pickle was left."""
    world = World(6, kinds=("within",), with_times=False)
    pipeline = pipeline_of(tmp_path / "K")
    pipeline.begin_from(str(prepared / "nearcast"))
    new = written(tmp_path / "c.jsonl", [{"op": "subscribe", **world.subscription("new")}])
    pipeline.run(0, [BatchSource("changes", "changes", new)])
    return tmp_path / "K"


def with_format(head, found):
    """Give the head of a store another format, with the digest of its content where the format has one."""
    content = {key: value for key, value in json.loads(head.read_bytes()).items() if key != "digest"} | {
        "format": found
    }
    head.write_bytes(json.dumps(content).encode() if found == 1 else signed(content))


def without_pickles(folder, monkeypatch):
    """Let pickles name a module that is gone, and let no one try."""
    found = list(folder.rglob("*.pickle"))
    for path in found:
        path.write_bytes(OF_MISSING_MODULE)

    def never(*_, **__):
        raise AssertionError("a pickle was read")

    monkeypatch.setattr(pickle, "load", never)
    monkeypatch.setattr(pickle, "loads", never)
    return found


@pytest.mark.parametrize(
    "use",
    [
        lambda folder: pipeline_of(folder).resume(),
        lambda folder: ask_checkpoint(str(folder), None, 3),
        lambda folder: inspect_checkpoint(str(folder)),
    ],
    ids=["stream", "rebalance", "inspect"],
)
def test_a_checkpoint_of_another_format_is_refused_before_a_pickle_is_read(checkpoint, monkeypatch, use):
    """Older and newer ones: the error tells what was found, what is expected and what to do."""
    assert without_pickles(checkpoint, monkeypatch)
    for found in OTHERS:
        for head in (checkpoint / "nearcast" / "manifests").iterdir():
            with_format(head, found)
        expected = f"00000000.json has format {found!r}, this version reads {STATE_FORMAT}; go on with the version"
        with pytest.raises(IncompatibleStore, match=expected) as error:
            use(checkpoint)
        assert "\n" not in str(error.value)


def test_a_prepared_store_of_another_format_is_refused_before_a_pickle_is_read(prepared, tmp_path, monkeypatch):
    """By its own head, and by the manifest of the state in it."""
    without_pickles(prepared, monkeypatch)
    (manifest,) = (prepared / "nearcast" / "manifests").iterdir()
    for found in OTHERS:
        with_format(prepared / "prepared.json", found)
        expected = f"has format {found!r}, this version reads {STATE_FORMAT}"
        with pytest.raises(IncompatibleStore, match=rf"prepared.json {expected}; prepare the data again"):
            about_prepared(prepared)
        with_format(manifest, found)
        with pytest.raises(IncompatibleStore, match=rf"{manifest.name} {expected}"):
            pipeline_of(tmp_path / "K").begin_from(str(prepared / "nearcast"))


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (b"", "no format number"),
        *((b"nearcast %d\n" % found, f"format {found}") for found in (STATE_FORMAT - 1, STATE_FORMAT + 1)),
    ],
    ids=["of format 2", "older", "newer"],
)
def test_a_pickle_of_another_format_is_refused_unread(tmp_path, monkeypatch, head, said):
    """A pickle carries its number before the pickle itself; those of format 2 carried none."""
    path = tmp_path / "x.pickle"
    path.write_bytes(head + OF_MISSING_MODULE)
    monkeypatch.setattr(pickle, "load", None)
    with pytest.raises(IncompatibleStore, match=rf"x.pickle has {said}, this version reads {STATE_FORMAT}; go on"):
        pickles.read(path)


def test_a_pickle_comes_back(tmp_path):
    """What was written is read, from the file or from its content."""
    pickles.write(tmp_path / "x.pickle", {"a": [1, None]})
    assert {"a": [1, None]} == pickles.read(tmp_path / "x.pickle")
    assert {"a": [1, None]} == pickles.loads((tmp_path / "x.pickle").read_bytes(), "x")
