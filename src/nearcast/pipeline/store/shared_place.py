"""A folder on a network file system: what is to be mapped is copied to this host first.

A local file that is deleted lives on for whoever has mapped it. On NFS and its like it does not when another host
deletes it: the next page that is read fails, and the process is killed by SIGBUS.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from nearcast.pipeline.store.host_cache import HostCache
from nearcast.pipeline.store.local_place import CONTENTS, LocalPlace, read_contents

_MOUNTS = Path("/proc/self/mountinfo")
#: Types of file systems that other hosts write to. One in user space may be such, but for the root of a container.
_NETWORK = re.compile(
    r"nfs\d*|cifs|smb\d*|smbfs|ceph|lustre|gpfs|beegfs|gfs2?|ocfs2|glusterfs|afs|9p|virtiofs|fuse(\.(?!fuse-overlayfs).*)?"
)


class SharedPlace(LocalPlace):
    """A folder that other hosts may delete files of while this one has them mapped."""

    #: What another host has put it must settle itself.
    _settles_for_all = False

    def __init__(self, root: str, cache: str | None):
        super().__init__(root)
        self._cache = HostCache(cache)

    def local(self, name: str) -> Path:
        """Return where the file or folder was copied to, now or before."""
        path = super().local(name)
        if not path.is_dir():
            stat = path.stat()
            version = f"{stat.st_size} {stat.st_mtime_ns}".encode()
            return self._cache.copy_of(str(path), version, lambda target: shutil.copyfile(path, target))
        version = (path / CONTENTS).read_bytes()
        files = [*read_contents(version, f"{path}/{CONTENTS}"), CONTENTS]
        return self._cache.copy_of(str(path), version, lambda target: _copy_files(path, target, files))

    def let_go(self, path: Path) -> bool:
        """Forget a copy; tell that it can be made again."""
        self._cache.let_go(path)
        return True


def _copy_files(folder: Path, target: Path, files: list[str]) -> None:
    for name in files:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / name, target / name)


def is_on_network(path: str) -> bool:
    """Tell whether a path lies on a file system that other hosts share, as far as the system says so."""
    try:
        mounts = _MOUNTS.read_text()
    except OSError:
        return False
    return _NETWORK.fullmatch(_type_of(os.path.realpath(path), mounts)) is not None


def _type_of(path: str, mounts: str) -> str:
    """Return the type of the file system that a path lies on: of the mounts above it the deepest, the last if equal."""
    found, depth = "", -1
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        point = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), before.split()[4])
        is_above = path == point or path.startswith(point.rstrip("/") + "/")
        if is_above and len(point) >= depth:
            found, depth = after.split()[0], len(point)
    return found
