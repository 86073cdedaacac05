"""The commits in an SQLite WAL file, listed from its frame headers, to tell damage from a torn tail.

SQLite ends a WAL at the first frame whose checksum is wrong, and drops what follows without a word. After a crash that
is the tail of one transaction, which nobody was told about. Where commits of two transactions follow, the first of them
was on disk before the second began: then acknowledged inputs would be lost. The format: sqlite.org/walformat.html.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from nearcast.saved_files.contents import damaged

_HEADER, _FRAME = 32, 24


@dataclass(frozen=True)
class WalFrames:
    """The numbers, from 1 on, of the frames of a WAL that end a transaction of its present generation."""

    path: Path
    commits: tuple[int, ...] = ()
    #: Whether the header is damaged, and frames stand behind it: SQLite would read none of them.
    has_lost_header: bool = False

    @classmethod
    def of(cls, database: Path) -> WalFrames:
        """Return the frames of the WAL beside a database, none where there is no WAL."""
        path = database.with_name(f"{database.name}-wal")
        if not path.exists() or path.stat().st_size < _HEADER + _FRAME:
            return cls(path)
        with path.open("rb") as file:
            header = file.read(_HEADER)
            page_bytes, salts = struct.unpack(">I", header[8:12])[0], header[16:24]
            if not _is_sound(header):
                return cls(path, has_lost_header=True)
            commits, number = [], 0
            while len(frame := file.read(_FRAME)) == _FRAME:
                number += 1
                if frame[8:16] == salts and frame[4:8] != bytes(4):
                    commits.append(number)
                file.seek(page_bytes, 1)
        return cls(path, tuple(commits))

    def check(self, n_read: int, *, is_synced: bool = True) -> None:
        """Raise `IncompatibleStore` if SQLite, which read this many frames, left out a transaction before the last.

        Unless each transaction `is_synced`, a power cut may leave any of those since the last sync: the first one that
        is not whole ends the log.
        """
        if self.has_lost_header:
            raise damaged(str(self.path), "its header is not what was written")
        if is_synced and sum(number > n_read for number in self.commits) > 1:
            raise damaged(str(self.path), f"frame {n_read + 1} is not what was written, and commits follow it")


def _is_sound(header: bytes) -> bool:
    """Tell whether the checksum of a WAL header is right."""
    (magic,) = struct.unpack(">I", header[:4])
    if magic & ~1 != 0x377F0682:
        return False
    words = struct.unpack(">6I" if magic & 1 else "<6I", header[:24])
    first = second = 0
    for one, two in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + two + first) & 0xFFFFFFFF
    return struct.pack(">2I", first, second) == header[24:32]
