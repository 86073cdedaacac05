"""A disk that remembers what was synced, and what a power cut at any sync may leave of a folder.

Contents count once their file was synced, names once their folder was. What was not synced may be there, be missing or
be torn: sectors of 512 bytes are old or new, each for itself. SQLite's files come through a VFS, others by `os.fsync`.
"""

import os
import random
import shutil
import stat
import threading
from contextlib import contextmanager
from pathlib import Path

import apsw

_SECTOR = 512
#: What a power cut leaves: only what was synced; all names, but contents as synced; all names, and torn contents.
WAYS = ("nothing more", "names", "torn")


class PowerCuts:
    """Takes an image of a folder in each way whenever something was just synced, and the next thing not yet.

    Of the many files of a snapshot, which nothing names yet, one in twenty will do.
    """

    def __init__(self, root, note):
        #: Images with what `note` returned at that moment: (way, note, {path: bytes, None for a folder}).
        self.images = []
        self._root, self._note = root, note
        self._contents, self._names = {}, {_inode(root): {}}
        self._lock, self._chance = threading.RLock(), random.Random(18)
        self._seen, self._n_synced = set(), 0

    @contextmanager
    def recording(self, monkeypatch):
        """Record syncs; the root itself is on disk."""
        disk, fsync = _RecordingDisk(self), os.fsync

        def recorded(descriptor):
            fsync(descriptor)
            self.synced(Path(f"/proc/self/fd/{descriptor}").readlink())

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", recorded)
            try:
                yield self
                self.cut()
            finally:
                disk.unregister()

    def synced(self, path):
        """Note that a file or a folder was synced, after images of what a cut just before would leave."""
        if not path.is_relative_to(self._root):
            return
        with self._lock:
            self._n_synced += 1
            if "files-" not in str(path) or self._n_synced % 20 == 0:
                self.cut()
            if path.is_dir():
                self._names[_inode(path)] = {each.name: _inode(each) for each in path.iterdir()}
            else:
                self._contents[_inode(path)] = path.read_bytes()

    def cut(self):
        """Take an image in each way."""
        note = self._note()
        for way in WAYS:
            image = dict(self._durable(_inode(self._root), "") if way == WAYS[0] else self._named(way))
            key = (way if way == "torn" else "", note, frozenset(image.items()))
            if key not in self._seen:
                self._seen.add(key)
                self.images.append((way, note, image))

    def _durable(self, folder, path):
        """Yield what hangs together by names that were synced."""
        for name, inode in self._names[folder].items():
            if inode in self._names or inode[1]:
                yield f"{path}{name}", None
                yield from self._durable(inode, f"{path}{name}/") if inode in self._names else ()
            else:
                yield f"{path}{name}", self._contents.get(inode, b"")

    def _named(self, way):
        """Yield all names there are."""
        for parent, folders, files in os.walk(self._root):
            for name in folders:
                yield Path(parent, name).relative_to(self._root).as_posix(), None
            for name in files:
                path = Path(parent, name)
                try:
                    content = self._contents.get(_inode(path), b"")
                    yield (
                        path.relative_to(self._root).as_posix(),
                        self._torn(content, path.read_bytes()) if way == "torn" else content,
                    )
                except FileNotFoundError:  # renamed by another thread just now
                    continue

    def _torn(self, old, new):
        """Return the new content, of which some sectors that differ are still as they were."""
        parts = []
        for at in range(0, len(new), _SECTOR):
            was, now = old[at : at + _SECTOR], new[at : at + _SECTOR]
            parts.append(now if was == now or self._chance.random() < 0.5 else was.ljust(len(now), b"\0")[: len(now)])
        return b"".join(parts)


def _inode(path):
    found = path.stat()
    return found.st_ino, stat.S_ISDIR(found.st_mode)


@contextmanager
def restored(image, folder):
    """Write an image as a folder, for a while."""
    folder.mkdir()
    for name, content in sorted(image.items()):
        if content is None:
            (folder / name).mkdir(exist_ok=True)
        else:
            (folder / name).write_bytes(content)
    yield folder
    shutil.rmtree(folder)


class _RecordingDisk(apsw.VFS):
    def __init__(self, cuts):
        super().__init__("recording", "unix", makedefault=True)
        self.cuts = cuts

    def xOpen(self, name, flags):  # noqa: N802  SQLite's name
        return _RecordingFile(self.cuts, name, flags)


class _RecordingFile(apsw.VFSFile):
    def __init__(self, cuts, name, flags):
        super().__init__("unix", name, flags)
        self.cuts, self.path = cuts, Path(name if isinstance(name, str) else name.filename())
        self.is_new = bool(flags[0] & apsw.SQLITE_OPEN_WAL)

    def xSync(self, flags):  # noqa: N802
        super().xSync(flags)
        self.cuts.synced(self.path)
        if self.is_new:  # SQLite's file system for Unix syncs the folder with the first sync of a WAL
            self.is_new = False
            self.cuts.synced(self.path.parent)
