"""The window of a host beside other windows: of streams begun anew or restored, of tasks that come late, of threads."""

import os
import random
import shutil
import threading
import time
import warnings
from dataclasses import replace

import pytest
import test_host_window_faults as faults
from test_host_window_faults import content, expected_of, folder_of, messages
from test_pipeline import Stream

from nearcast.errors import StoreUnavailable
from nearcast.geo import Space
from nearcast.pipeline.divided_window.window_part import WindowPart
from nearcast.pipeline.driver.pipeline import Pipeline
from nearcast.pipeline.host_window import arena, arena_storage, host_window
from nearcast.pipeline.host_window.arena import Arena
from nearcast.pipeline.host_window.arena_storage import FolderStorage, MemoryStorage
from nearcast.pipeline.host_window.host_window import forget_arenas, view_of
from nearcast.pipeline.preparation.prepared_store import prepare
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.sinks import sink_of
from nearcast.pipeline.store.host_cache import HostCache
from nearcast.pipeline.store.store import Store
from nearcast.text import Vocabulary
from nearcast.text.words import WordTable
from nearcast.topk.window.blocks.mapped import MappedBlocks
from nearcast.window import Window

windows = faults.windows


@pytest.fixture
def own_windows(monkeypatch):
    """The windows that tasks have built by themselves, in memory."""
    made = []

    class NotedStorage(MemoryStorage):
        def __init__(self):
            made.append(self)
            super().__init__()

    monkeypatch.setattr(host_window, "MemoryStorage", NotedStorage)
    return made


def generation(ref):
    """Return the name of the generation that the workers of the host share."""
    return host_window._arena_of(ref)._storage.current()


def as_another_attempt(ref, files):
    """Return the files of a batch as another attempt at it has them: no state is known by them."""
    store = ref.store
    name = store.unique("sequences", files.batch, suffix=".arrow")
    return replace(
        files, sequence=store.put_summed(name, lambda path: shutil.copyfile(store.local(files.sequence), path)).name
    )


def test_a_process_has_a_window_for_each_stream_at_a_place(windows):
    ref, files = windows[2]
    short = replace(ref, settings=replace(ref.settings, window=Window.of(3)))
    whole, fewer = (content(Arena(MemoryStorage(), each).view(each, files)) for each in (ref, short))
    assert whole != fewer
    for _ in range(2):
        assert whole == content(view_of(ref, files)[1])
        assert fewer == content(view_of(short, files)[1])
    earth = replace(ref, settings=replace(ref.settings, space=Space.earth()))
    again = replace(ref, stream_id="another")
    assert len({folder_of(each) for each in (ref, short, earth, again)}) == 4


def test_a_stream_begun_anew_at_the_same_place_meets_nothing_of_the_old_one(tmp_path, monkeypatch, own_windows):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    settings = PipelineSettings(Space.plane(), window=Window.of(30), window_parts=1, window_by_host=True)
    row = {"id": 1, "query": "tea", "kind": "topk", "k": 2, "x": 0, "y": 0, "max_distance": 9}
    streams = []
    for n in (3, 1):
        rng = random.Random(4)
        stream = Stream(tmp_path, settings, [row])
        for batch in range(n):
            changes = [{"op": "subscribe", **row, "id": 10 * len(streams) + batch + 2, "time": faults.moment(0)}]
            stream.run(batch, {"messages-a": messages(rng, 10, batch * 20), "changes-a": changes})
        streams.append(stream.pipeline.state.manifest.stream_id)
        for folder in ("K", "out", *(f"batch-{batch}" for batch in range(n))):
            shutil.rmtree(tmp_path / folder)
    assert len(set(streams)) == 2
    assert not own_windows


def test_streams_begun_with_one_prepared_store_have_ids_of_their_own(tmp_path):
    (tmp_path / "raw.jsonl").write_text('{"id": 1, "query": "tea", "kind": "within", "max_distance": 9}\n')
    settings = PipelineSettings(Space.plane())
    prepare([tmp_path / "raw.jsonl"], tmp_path / "prepared", settings, LocalRunner())
    found = set()
    for name in ("a", "b"):
        store = Store(str(tmp_path / name))
        pipeline = Pipeline(store, settings, LocalRunner(), sink_of(str(tmp_path / f"{name}-out"), store))
        pipeline.begin_from(str(tmp_path / "prepared" / "nearcast"))
        found.add(pipeline.state.manifest.stream_id)
    assert len(found - {""}) == 2


def test_a_restored_stream_shares_its_window_again(windows, monkeypatch, own_windows):
    """What an older epoch left for later batches is nobody's any more."""
    monkeypatch.setattr(arena_storage, "_KEPT_STATES", 2)
    expected = expected_of(windows)
    for window in windows:
        view_of(*window)
    ref, files = windows[1]
    before = generation(ref)
    restored = replace(ref, store=ref.store.in_epoch(ref.store.epoch + 1))
    assert expected[1] == content(view_of(restored, files)[1])
    assert before != generation(ref)
    assert not own_windows


def test_who_comes_late_compacts_nothing_that_others_need(windows, monkeypatch, own_windows):
    expected = expected_of(windows)
    for window in windows:
        view_of(*window)
    before = generation(windows[0][0])
    monkeypatch.setattr(arena, "_SPARE_BYTES", -(1 << 40))
    ref, files = windows[1]
    late = as_another_attempt(ref, files)
    assert expected[1] == content(view_of(ref, late)[1])
    assert before == generation(ref)
    assert not own_windows
    forget_arenas()
    assert expected[4] == content(view_of(*windows[4])[1])
    assert before == generation(ref)


@pytest.mark.parametrize("why", ["a vocabulary", "old words"])
def test_who_comes_late_rebuilds_nothing_that_others_need(windows, monkeypatch, own_windows, why):
    expected = expected_of(windows)
    for window in windows:
        view_of(*window)
    ref, files = windows[1]
    before, late = generation(ref), as_another_attempt(ref, files)
    if why == "a vocabulary":
        late = replace(late, vocabulary=ref.vocabulary)
    else:
        monkeypatch.setattr(Arena, "_has_old_words", lambda *_: True)
    assert expected[1] == content(view_of(ref, late)[1])
    assert before == generation(ref)
    assert len(own_windows) == (why == "a vocabulary")


def test_a_file_that_is_missing_for_a_moment_leaves_the_window_shared(windows):
    expected = expected_of(windows)
    ref, files = windows[1]
    view_of(*windows[0])
    path = ref.store.local(files.sequence)
    path.rename(path.with_name("away"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(StoreUnavailable):
            view_of(ref, files)
        path.with_name("away").rename(path)
        found, view = view_of(ref, files)
    assert expected[1] == content(view)
    assert isinstance(found._storage, FolderStorage)


def test_a_window_in_memory_is_kept_when_it_could_be_searched(windows, monkeypatch):
    """If that fails, too, it is not the folder of the host that is at fault."""

    def unreachable(*_):
        raise OSError("no network")

    ref, files = windows[1]
    with monkeypatch.context() as patch:
        patch.setattr(Arena, "view", unreachable)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(OSError, match="no network"):
                view_of(ref, files)
    assert isinstance(view_of(ref, files)[0]._storage, FolderStorage)


def test_a_folder_swept_while_its_lock_is_taken_is_made_again(tmp_path, monkeypatch):
    cache = HostCache(str(tmp_path))
    folder = cache.folder_for("window")
    storage = FolderStorage(folder)
    with storage.locked():
        assert (folder / "lock").exists()
    os.utime(folder, (0, 0))
    real, swept = os.utime, []

    def utime(path, *given):
        if path == folder and not swept:
            swept.append(path)
            cache._forget_unused()
            assert not folder.exists()
        real(path, *given)

    monkeypatch.setattr(os, "utime", utime)
    with storage.locked():
        cache._forget_unused()
        assert (folder / "lock").exists()
    assert swept


def test_threads_of_a_process_share_what_it_has_mapped(windows, monkeypatch):
    ref, found, real = windows[0][0], [], FolderStorage
    other = threading.Thread(target=lambda: found.append(host_window._arena_of(ref)))

    def slow(folder):
        if other.ident is None:
            other.start()
            while other.is_alive() and not host_window._arenas_lock.locked():
                time.sleep(0.001)
        return real(folder)

    monkeypatch.setattr(host_window, "FolderStorage", slow)
    found.append(host_window._arena_of(ref))
    other.join()
    assert found[0] is found[1]
    assert list(host_window._arenas.values()) == found[:1]


def test_others_search_while_a_window_is_saved(windows, tmp_path, monkeypatch):
    """Words that they add meanwhile are not saved."""
    ref, files = windows[2]
    ref = replace(ref, history=(*ref.history, files))
    found, view = view_of(ref)
    n_words, real = len(view.table), MappedBlocks.save

    def search():
        if found.lock.acquire(blocking=False):
            view.table.ids_of([f"new-{i}" for i in range(1000)], add=True)
            found.lock.release()

    def save(self, folder):
        thread = threading.Thread(target=search)
        thread.start()
        thread.join()
        real(self, folder)

    monkeypatch.setattr(MappedBlocks, "save", save)
    folder = tmp_path / "saved"
    folder.mkdir()
    found.save(view, ref, folder)
    assert n_words + 1000 == len(view.table)
    assert n_words == len(WordTable.open(folder / "words"))
    vocabulary = Vocabulary.open(ref.store.local(ref.vocabulary))
    assert WindowPart.open(ref.settings, 0, vocabulary, folder).next_row == view.state.next_row
