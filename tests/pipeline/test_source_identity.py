"""A batch that comes again: the same sources are skipped, others are refused by name, and nothing vanishes."""

import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from faults.small_stream import SmallStream
from nearcast.errors import FileMissing, IncompatibleStore
from nearcast.geo import Space
from nearcast.pipeline.driver import source_identity
from nearcast.pipeline.driver.batch_source import BatchSource
from nearcast.pipeline.driver.source_identity import KEPT_SOURCES, check_again, identities_of, sources_after
from nearcast.pipeline.file_match import FileMatch
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.store.manifest import Manifests
from nearcast.pipeline.store.store import Store
from nearcast.tables import Rejected
from nearcast.text import Vocabulary
from nearcast.window import Window
from support.manifests import small_manifest

TWO_MOMENTS = "the states of Spark and of nearcast are of two moments; bring back both halves of the checkpoint from"


@pytest.fixture
def stream(tmp_path):
    return SmallStream(tmp_path, batches=3, messages=4, changes=1)


def refused(driver, batch, given):
    """Run a batch that must be refused, and return the line; the driver can go on after it."""
    state, there = driver.state.manifest, sorted(Path(driver.store.root).rglob("*"))
    with pytest.raises(IncompatibleStore, match=TWO_MOMENTS) as error:
        driver.run(batch, given)
    assert "\n" not in str(error.value)
    assert driver.state.manifest == state
    assert sorted(Path(driver.store.root).rglob("*")) == there
    return str(error.value)


def test_the_same_sources_are_skipped_for_every_batch_that_is_remembered(stream):
    driver = stream.started()
    stream.run(driver)
    before = stream.delivered()
    for again in (driver, stream.started()):
        assert [again.run(batch, stream.given[batch]) for batch in range(3)] == [None] * 3
    assert stream.delivered() == before


def test_other_files_under_an_old_number_are_refused_by_name(stream):
    """As after Spark's half of a checkpoint was restored from an older copy: these files would vanish."""
    driver = stream.started()
    stream.run(driver, 1)
    new = stream.given[2]
    line = refused(driver, 1, new)
    assert f"batch 1 was committed to {driver.store.root} with {len(stream.given[1])} sources" in line
    assert f"and comes again with {min(each.path for each in new)}, which was not among them" in line
    assert "comes again with" in refused(driver, 0, new)
    assert "comes again without" in refused(driver, 1, stream.given[1][:1])
    stream.run(driver)


def test_a_file_that_was_written_again_is_another_one(stream):
    driver = stream.started()
    stream.run(driver, 0)
    path = Path(stream.given[0][0].path)
    os.utime(path, (1, 1))
    assert f"{path} was another one then" in refused(driver, 0, stream.given[0])


def test_after_a_batch_that_failed_the_driver_says_so(stream):
    """It does not say that there is no stream; after `resume` the batch can be run."""
    driver = stream.started()
    stream.run(driver, 0)
    path = Path(stream.given[1][0].path)
    path.rename(path.with_suffix(".away"))
    with pytest.raises(FileMissing):
        driver.run(1, stream.given[1])
    path.with_suffix(".away").rename(path)
    with pytest.raises(IncompatibleStore, match=r"^batch 1 of \S+ was not finished; call resume to go on"):
        driver.run(1, stream.given[1])
    assert driver.resume()
    stream.run(driver)


def test_a_file_that_was_taken_away_since_is_not_missed(stream):
    """When Spark runs the batch again it lists a file and finds nothing; all that is given has been delivered."""
    driver = stream.started()
    stream.run(driver, 0)
    gone, *rest = stream.given[0]
    Path(gone.path).unlink()
    assert driver.run(0, rest) is None
    assert driver.run(0, [replace(gone, is_gone=True), *rest]) is None
    stream.run(driver)


@pytest.mark.parametrize("is_read", [True, False])
def test_a_file_that_was_gone_then_may_be_there_now(stream, is_read):
    """Spark did not see it, and our reader did or did not: as the batch comes again, Spark does."""
    file, *rest = stream.given[0]
    driver, path = stream.started(), Path(file.path)
    driver.skip_missing_files = True
    if not is_read:
        path.rename(path.with_suffix(".away"))
    report = driver.run(0, [replace(file, is_gone=True), *rest])
    if not is_read:
        assert report.rejected == 1
        path.with_suffix(".away").rename(path)
    before = stream.delivered()
    again = stream.started()
    assert again.run(0, stream.given[0]) is None
    assert again.run(0, [replace(file, is_gone=True), *rest]) is None
    assert f"comes again without {path}" in refused(again, 0, rest)
    assert stream.delivered() == before
    stream.run(again)


def test_sizes_and_times_that_a_source_tells_are_used():
    """A file of another place is known by what Spark says of it."""
    one = BatchSource("messages", "a", "s3a://bucket/a", n_bytes=10, modified=5)
    assert identities_of([one]) == {"messages file s3a://bucket/a": "10 5"}
    assert identities_of([one]) != identities_of([replace(one, n_bytes=11)])
    assert identities_of([one]) != identities_of([replace(one, modified=6)])


def rows(*lines, span=None):
    positions = pa.array(range(len(lines)), pa.int64())
    table = pa.table({"position": positions, "line": pa.array(lines, pa.string())})
    return BatchSource("messages", "topic/00000", rows=table, span=span)


def test_rows_are_known_by_their_offsets_and_their_content():
    """Offsets put records in order; rows without may come in any."""
    same = identities_of([rows("a", "b", span="3-4")])
    assert identities_of([rows("a", "b", span="3-4")]) == same
    for other in (("a", "b", "5-6"), ("a", "c", "3-4"), ("b", "a", "3-4"), ("a", "3-4"), ("a", "a", "b", "3-4")):
        assert identities_of([rows(*other[:-1], span=other[-1])]) != same
    assert identities_of([rows("a", "b")]) == identities_of([rows("b", "a")])
    assert identities_of([rows("a", "b")]) != identities_of([rows("a", "a", "b")])
    plain = BatchSource("messages", "messages", rows=pa.table({"id": [1, 2]}))
    assert identities_of([plain]) != identities_of([replace(plain, rows=pa.table({"id": [1, 3]}))])


def test_rows_of_a_topic_under_an_old_number_are_refused(stream):
    driver = stream.started()
    text = '{"id": 1, "text": "w1", "x": 1.0, "y": 1.0}'
    driver.run(0, [rows(text, span="0-0")])
    assert driver.run(0, [rows(text, span="0-0")]) is None
    assert "topic/00000 was another one then" in refused(driver, 0, [rows(text, span="1-1")])


def test_rows_of_a_topic_are_no_file_that_was_taken_away(stream):
    """Spark's half is a batch behind, and only the clock moved on: the same offsets come with the next number."""
    driver = stream.started()
    driver.run(0, [rows('{"id": 1, "text": "w1", "x": 1.0, "y": 1.0}', span="0-0")])
    assert "comes again without topic/00000" in refused(driver, 0, [])


def test_a_batch_older_than_what_is_remembered_is_refused():
    manifest = small_manifest(0)
    for batch in range(KEPT_SOURCES + 2):
        now = {f"messages rows {batch}": "1 1"}
        manifest = replace(manifest, batch=batch, sources=sources_after(manifest, batch, now), last_sources=now)
    assert len(manifest.sources) == KEPT_SOURCES
    given = BatchSource("messages", "1", n_bytes=1, modified=1)
    with pytest.raises(
        IncompatibleStore, match=f"batch 1 comes again, and K has long gone on to batch 33: {TWO_MOMENTS}"
    ):
        check_again(manifest, 1, [given], "K")
    check_again(manifest, 2, [replace(given, source="2")], "K")


def test_no_sources_are_noted_where_no_batch_comes_again(tmp_path):
    """A match of files runs once: nothing looks at the rows for it."""
    run = FileMatch(PipelineSettings(Space.plane(), window=Window.of(9)), LocalRunner(), tmp_path, lambda *_: None)
    people = pa.table({"id": [1], "kind": ["topk"], "k": [1], "query": ["w1"], "x": [0.0], "y": [0.0]})
    posts = pa.table({"id": [1], "text": ["w1"], "x": [1.0], "y": [1.0]})
    run.run_in_order(people, iter([posts]), Vocabulary(), Rejected(), write=lambda _: None)
    manifest = Manifests(Store(tmp_path / "K")).last()
    assert (0, {}) == (manifest.batch, manifest.last_sources)


def test_names_of_sources_are_no_files_of_the_store(stream, monkeypatch):
    """A file that is named as the store names its own is neither missed nor kept."""
    odd = "deltas/00000000-0000-e1-1f2e3d4c.npz"
    monkeypatch.setattr(source_identity, "identities_of", lambda _: {odd: odd})
    monkeypatch.setattr("nearcast.pipeline.driver.pipeline.identities_of", lambda _: {odd: odd})
    driver = stream.started()
    stream.run(driver, 0)
    assert odd not in driver.manifests.files_in_use(driver.state.manifest)
    assert driver.run(0, []) is None
