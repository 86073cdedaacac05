"""The window of a host while workers race for it, are killed, and run out of disk: what is read is always whole."""

import errno
import os
import random
import shutil
import signal
import sys
import traceback
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_pipeline import Stream

from nearcast.errors import IncompatibleStore
from nearcast.geo import Space
from nearcast.pipeline.host_window import arena, arena_storage, host_window
from nearcast.pipeline.host_window.arena import Arena
from nearcast.pipeline.host_window.arena_storage import ColumnFiles, FolderStorage, MemoryStorage
from nearcast.pipeline.host_window.host_window import HostWindow, SearchRecord, forget_arenas, view_of
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.worker.tasks import forget_all
from nearcast.text.words import WordTable
from nearcast.topk.window.blocks import BlockIndex
from nearcast.topk.window.registry import LiveRows, WindowQueries
from nearcast.topk.window.scan import ScanWindowIndex
from nearcast.window import Window
from support.streams import moment
from support.waiting import wait_until

BATCHES = 5


class NotingRunner(LocalRunner):
    """Keeps the window and the files that steps were given."""

    def __init__(self):
        self.windows = []

    def map(self, task, payloads, **options):
        if task.__name__ == "step_batch":
            self.windows.append((payloads[0].window, payloads[0].files))
        return super().map(task, payloads, **options)


def messages(rng, n, at):
    words = ["tea", "ramen", "beer", "soup", "jazz", "rain", f"only-{at}"]
    return [
        {
            "id": at + i,
            "text": " ".join(rng.choices(words, k=3)),
            "x": rng.randint(0, 4),
            "y": 0,
            "time": moment((at + i) // 10),
        }
        for i in range(n)
    ]


@pytest.fixture
def windows(tmp_path, monkeypatch):
    """A window and the files of a batch, for each batch of a stream; no process has seen them."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(BlockIndex, "TAIL", 4)
    monkeypatch.setattr(BlockIndex, "MOST", 16)
    forget_all()
    settings = PipelineSettings(Space.plane(), window=Window.of(30), window_parts=1, window_by_host=True)
    stream = Stream(
        tmp_path, settings, [{"id": 1, "query": "tea", "kind": "topk", "k": 2, "x": 0, "y": 0, "max_distance": 9}]
    )
    stream.pipeline.runner = runner = NotingRunner()
    rng = random.Random(4)
    for batch in range(BATCHES):
        stream.run(batch, {"messages-a": messages(rng, 10 + batch, batch * 20)})
    forget_arenas()
    shutil.rmtree(folder_of(runner.windows[0][0]))
    yield runner.windows
    forget_all()


def folder_of(ref):
    """Return the folder of a window on this host."""
    forget_arenas()
    arena_ = host_window._arena_of(ref)
    forget_arenas()
    return arena_._storage._folder


def content(view):
    """Return the messages of a view; whatever its index finds is what `scan` finds among them."""
    index, table, state = view.index, view.table, view.state
    held = index.messages(np.arange(state.floor, state.next_row))
    n, weight = len(table), np.ones(len(table))
    scan = ScanWindowIndex(index.space, index.by_time)._made_of(state.floor, [held], weight)
    one = np.ones(n)
    queries = WindowQueries(
        np.arange(n + 1), np.arange(n, dtype=np.int32), one, np.zeros((n, 2)), one * 0.5, one * 9, one
    )
    alive, most = LiveRows(state.floor, state.next_row, arena.NO_TIME), np.full(n, 6, np.int32)
    for expected, found in zip(scan.best(queries, most, alive)[:3], index.best(queries, most, alive)[:3], strict=True):
        assert expected.tolist() == found.tolist()
    said = [
        sorted((table.word(int(held.word[i])), int(held.count[i])) for i in range(*held.word_start[at : at + 2]))
        for at in range(len(held.box))
    ]
    return state.floor, state.next_row, state.now, said, held.box.tolist(), held.length.tolist(), held.time.tolist()


def expected_of(windows):
    """Return what each batch's window holds, each made by itself, in memory."""
    return [content(Arena(MemoryStorage(), ref).view(ref, files)) for ref, files in windows]


def forked(work):
    """Do work in a child process; return the process."""
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
        os._exit(0)
    except BaseException:  # noqa: BLE001 - the parent asks for the code alone
        traceback.print_exc(file=sys.__stderr__)
        os._exit(1)


def ended(pid):
    """Wait for a process; return its code, or the negative signal that ended it."""
    _, status = wait_until(lambda: (found := os.waitpid(pid, os.WNOHANG))[0] and found)
    return os.waitstatus_to_exitcode(status)


class KillingCalls:
    """Counts the calls that change files, and kills this process at one of them; of a write half was done by then."""

    def __init__(self, at):
        self.at, self.n = at, 0

    def patch(self):
        for owner, name in (
            (os, "pwrite"),
            (os, "ftruncate"),
            (Path, "write_bytes"),
            (Path, "replace"),
            (Path, "unlink"),
            (Path, "mkdir"),
            (shutil, "rmtree"),
        ):
            setattr(owner, name, self.counted(name, getattr(owner, name)))

    def counted(self, name, real):
        def call(*given, **options):
            self.n += 1
            if self.n == self.at:
                if name == "pwrite":
                    real(given[0], given[1][: len(given[1]) // 2], given[2])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*given, **options)

        return call


@pytest.mark.parametrize(
    ("begin", "end", "limits", "every"),
    [
        (-1, 1, {}, 5),
        (2, 3, {}, 1),
        (2, 4, {"_SPARE_BYTES": 0}, 3),
        (2, 4, {"SPARE_WORDS": -1000}, 6),
    ],
    ids=["new", "append", "compact", "rebuild"],
)
def test_a_writer_that_is_killed_anywhere_leaves_what_was_there(
    windows, tmp_path, monkeypatch, begin, end, limits, every
):
    expected, folder = expected_of(windows), folder_of(windows[0][0])
    for limit, spare in limits.items():
        monkeypatch.setattr(arena, limit, spare)
    for ref, files in windows[: begin + 1]:
        view_of(ref, files)
    forget_arenas()
    shutil.copytree(folder, tmp_path / "before")

    def work(at):
        KillingCalls(at).patch()
        view_of(*windows[end])

    for at in range(1, 10_000, every):
        code = ended(forked(lambda at=at: work(at)))
        assert code in (0, -signal.SIGKILL)
        for batch in (end, max(begin, 0), end):
            forget_arenas()
            assert expected[batch] == content(view_of(*windows[batch])[1]), (at, batch)
        forget_arenas()
        assert len(list(folder.glob("g-*"))) == 1 or code != 0
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "before", folder)
        if code == 0:
            break
    assert at > 10 * every


def test_processes_race_for_every_batch_and_one_of_them_writes_it(windows, tmp_path):
    expected, folder = expected_of(windows), folder_of(windows[0][0])

    def work():
        for (ref, files), whole in zip(windows, expected, strict=True):
            assert whole == content(view_of(ref, files)[1])

    children = [forked(work) for _ in range(4)]
    assert [0] * 4 == [ended(child) for child in children]
    (generation,) = folder.glob("g-*")
    names = sorted(path.name for path in (generation / "states").iterdir())
    assert BATCHES == len(names)
    assert BATCHES - 1 == int(names[-1].partition("-")[0])


def test_what_a_state_names_is_never_written_again(windows, tmp_path):
    """A second attempt at a batch, of another driver, begins where the first did and goes behind it."""
    expected = expected_of(windows)
    views = [view_of(*window)[1] for window in windows[:3]]
    ref, files = windows[2]
    store = ref.store
    other = store.unique("sequences", 2, suffix=".arrow")
    other = store.put_summed(other, lambda path: shutil.copyfile(store.local(files.sequence), path)).name
    again = replace(files, sequence=other)
    forget_arenas()
    second = view_of(ref, again)[1]
    assert second.state.places != views[2].state.places
    assert expected[2] == content(second)
    forget_arenas()
    last = view_of(*windows[3])[1]
    for whole, view in zip([*expected[:4], expected[2]], [*views, last, second], strict=True):
        assert whole == content(view)
    begins, ends = last.state.places[-1].begins, second.state.ends
    assert all(begin >= end for begin, end in zip(begins, ends, strict=False))


def test_a_full_disk_leaves_each_process_with_a_window_of_its_own(windows, monkeypatch):
    expected, real, n = expected_of(windows), ColumnFiles.write, 0

    def write(self, *given):
        nonlocal n
        n += 1
        if n == 40:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(self, *given)

    view_of(*windows[0])
    monkeypatch.setattr(ColumnFiles, "write", write)
    with pytest.warns(RuntimeWarning, match="No space left on device.*this process holds its own"):
        found = [content(view_of(*window)[1]) for window in windows[1:]]
    assert expected[1:] == found
    monkeypatch.setattr(ColumnFiles, "write", real)
    forget_arenas()  # another process, when there is room again, finds nothing half written
    assert expected[1:] == [content(view_of(*window)[1]) for window in windows[1:]]


def test_a_damaged_state_is_not_read(windows):
    expected, folder = expected_of(windows), folder_of(windows[0][0])
    view_of(*windows[1])
    forget_arenas()
    (path,) = folder.glob("g-*/states/*")
    path.write_bytes(path.read_bytes().replace(b'"floor": ', b'"floor": 1'))
    with pytest.warns(RuntimeWarning, match="cannot be shared by the workers of this host"):
        view = view_of(*windows[1])[1]
    assert expected[1] == content(view)


def test_a_host_without_a_folder_to_share(windows, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    with pytest.warns(RuntimeWarning, match="cannot be shared by the workers of this host"):
        view = view_of(*windows[1])[1]
    assert expected_of(windows)[1] == content(view)


def test_a_folder_that_is_taken_away_under_its_readers(windows):
    expected, folder = expected_of(windows), folder_of(windows[0][0])
    before = view_of(*windows[1])[1]
    shutil.rmtree(folder)
    assert expected[2] == content(view_of(*windows[2])[1])
    assert expected[1] == content(before)
    assert folder.exists()


def test_who_comes_late_does_not_tear_down_what_others_share(windows, monkeypatch):
    monkeypatch.setattr(arena_storage, "_KEPT_STATES", 2)
    expected = expected_of(windows)
    for window in windows:
        view_of(*window)
    current = host_window._arena_of(windows[0][0])._storage.current()
    assert expected[1] == content(view_of(*windows[1])[1])
    assert current == host_window._arena_of(windows[0][0])._storage.current()


def test_a_folder_of_somebody_else_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
    with pytest.raises(PermissionError, match="belongs to another user"):
        FolderStorage(tmp_path)


def test_a_record_that_does_not_fit_its_batch_is_refused():
    window = HostWindow(Space.plane(), False, WordTable(), 0)
    one, none = np.ones(1), np.zeros(0, np.int64)
    queries = WindowQueries(np.zeros(2, np.int64), none.astype(np.int32), none * 1.0, np.zeros((1, 2)), one, one, one)
    alive, n = LiveRows(0, 0, arena.NO_TIME), np.ones(1, np.int32)
    record = SearchRecord("best", np.zeros(2, np.int64), none, none * 1.0, np.zeros(1, np.int64))
    window.begin_replay([record, record])
    assert not len(window.best(queries, n, alive).row)
    with pytest.raises(IncompatibleStore, match=r"noted as another \(best, 1\)"):
        window.at_least(queries, one, alive)
    window.begin_replay([])
    with pytest.raises(IncompatibleStore, match="is not noted"):
        window.best(queries, n, alive)
    window.begin_replay([record])
    with pytest.raises(IncompatibleStore, match="1 searches of the window more are noted"):
        window.end_replay()
