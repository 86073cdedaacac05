"""Lists of the files of a saved folder with the size and CRC-32 of each, and JSON files that carry their own digest.

Reads and writes the heads of saved hubs, stores and checkpoints: the small file that names all others. The checks are
against damage (a bad disk, a cut-off copy), not against forgery: CRC-32 reads more than 1 GB a second and is in the
standard library, a cryptographic hash of the data would take two to three times as long.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from nearcast.errors import IncompatibleStore, StoreUnavailable

#: Up to this many bytes the contents of a folder are verified unless told otherwise: about a second of work.
VERIFY_BYTES = 1 << 30
_PIECE = 1 << 22
_DIGEST = '"digest": "'
_DIGEST_LENGTH = 32
#: What may follow the digest: the end of the JSON object, as `signed` writes it.
_ENDS = (b'"}', b'"\n}\n')


class FileSum(NamedTuple):
    """The size of a file in bytes and its CRC-32 in hexadecimal; no CRC-32 where an older version noted none."""

    size: int
    crc: str | None


Contents = dict[str, FileSum]


def sum_of(path: Path) -> FileSum:
    """Return the size and the CRC-32 of a file."""
    size = crc = 0
    with path.open("rb", buffering=0) as file:
        while piece := file.read(_PIECE):
            size += len(piece)
            crc = zlib.crc32(piece, crc)
    return FileSum(size, f"{crc:08x}")


def sum_of_bytes(data: bytes) -> FileSum:
    """Return the size and the CRC-32 of the content of a file."""
    return FileSum(len(data), f"{zlib.crc32(data):08x}")


def files_within(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files of a folder and its subfolders, by name relative to it."""
    for parent, folders, files in os.walk(folder):
        folders.sort()
        for file in sorted(files):
            path = Path(parent, file)
            yield path.relative_to(folder).as_posix(), path


def contents_of(folder: Path) -> Contents:
    """Return the sums of all files of a folder and its subfolders."""
    return {name: sum_of(path) for name, path in files_within(folder)}


def contents_from(listed: Any, called: str) -> Contents:
    """Return contents as JSON holds them: {name: [size, crc]}, or {name: size} of older versions."""
    try:
        pairs = {name: each if isinstance(each, list) else [each, None] for name, each in listed.items()}
        return {name: FileSum(int(size), crc) for name, (size, crc) in pairs.items()}
    except (AttributeError, TypeError, ValueError):
        raise IncompatibleStore(f"{called} is damaged: its list of files cannot be read") from None


def check_contents(folder: Path, contents: Contents, verify: bool | None = None, *, called: str | None = None) -> None:
    """Compare the files of a folder with a list of them; `IncompatibleStore` names the first that differs.

    Every file must be there in its size. Contents are compared with `verify`, by default up to `VERIFY_BYTES` in all;
    files that a parser reads (all but plain arrays) are small or read as a whole anyway, and always compared.
    """
    called = str(folder) if called is None else called
    for name, expected in contents.items():
        _check_size(folder / name, expected, f"{called}/{name}")
    if verify is None:
        verify = sum(each.size for each in contents.values()) <= VERIFY_BYTES
    for name, expected in contents.items():
        if verify or is_parsed(name):
            check_sum(folder / name, expected, f"{called}/{name}")


def is_parsed(name: str) -> bool:
    """Tell whether a file is read by a parser that must not see damage: JSON, Parquet, pickles, polygons."""
    return not name.endswith(".npy") or name.rpartition("/")[2] in ("polygons.npy", "geometry.npy")


def _check_size(path: Path, expected: FileSum, called: str) -> None:
    try:
        size = path.stat().st_size
    except OSError:
        raise StoreUnavailable(f"{called} is missing; bring it back from a copy, or save again") from None
    if size != expected.size:
        raise damaged(called, f"it has {size:,} bytes, not {expected.size:,}")


def check_sum(path: Path, expected: FileSum, called: str) -> None:
    """Compare the content of a file with its sum; `IncompatibleStore` if it is another."""
    if expected.crc is None:
        return
    try:
        found = sum_of(path)
    except OSError as error:
        raise StoreUnavailable(f"{called} cannot be read ({error}); bring it back from a copy, or save again") from None
    if found != expected:
        raise damaged(called, "its content is not what was written (CRC-32)")


def damaged(called: str, why: str) -> IncompatibleStore:
    """Return the error for a damaged file."""
    return IncompatibleStore(f"{called} is damaged: {why}; bring it back from a copy, or save again")


# JSON with a digest


def signed(content: Mapping[str, Any], *, indent: int | None = None) -> bytes:
    """Return a JSON object as bytes that end with a digest of all bytes before it."""
    text = json.dumps({**content, "digest": ""}, indent=indent, allow_nan=False)
    body, _, end = text.rpartition(_DIGEST)
    return f"{body}{_DIGEST}{_digest(body.encode())}{end}{'' if indent is None else chr(10)}".encode()


def read_signed(data: bytes, called: str) -> dict[str, Any]:
    """Return the object that `signed` wrote, without its digest; `IncompatibleStore` if a byte differs."""
    body, found, end = data.rpartition(_DIGEST.encode())
    if not found or _digest(body) != end[:_DIGEST_LENGTH].decode("latin-1") or end[_DIGEST_LENGTH:] not in _ENDS:
        raise damaged(called, "it was cut off or edited")
    content = json.loads(data)
    del content["digest"]
    return dict(content)


def is_signed(data: bytes) -> bool:
    """Tell whether JSON claims to carry a digest; older versions wrote none."""
    return _DIGEST.encode() in data


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGEST_LENGTH]
