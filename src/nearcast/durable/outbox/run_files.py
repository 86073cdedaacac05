"""Runs as files: columns end to end behind a signed head, written once and mapped.

Reads and writes `outbox/BEFORE-LAST.run`. The name says which inputs: those after BEFORE up to LAST.

    NCO1 | bytes of the head, 8, least significant first | head, JSON with a digest | columns, each at a multiple of 64

The head has the type and the length of each column, event time, the versions of the vocabulary and the CRC-32 of all
columns. Integers that fit into 32 bits have them, and a column with one value in all rows has it in the head.
"""

from __future__ import annotations

import mmap
import os
import re
import secrets
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast._saved import sync
from nearcast.durable.outbox.runs import COLUMNS, LATER_COLUMNS, ROW_COLUMNS, SortedRun, Span, is_same, same
from nearcast.errors import StoreUnavailable
from nearcast.saved_files.contents import damaged, read_signed, signed

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FORM = b"NCO1"
_ALIGNED = 64
_NAME = re.compile(r"([0-9]{20})-([0-9]{20})\.run")


def file_name(span: Span) -> str:
    """Return the name of the file of a run."""
    return f"{span.before:020d}-{span.last:020d}.run"


def span_of(name: str) -> Span | None:
    """Return which inputs a file holds by its name, None if it is no run."""
    found = _NAME.fullmatch(name)
    return None if found is None else Span(int(found[1]), int(found[2]))


def write_run(run: SortedRun, folder: Path, *, synced: bool) -> SortedRun:
    """Write a run into a folder, in one step; return it as it is mapped from there.

    Only with `synced` it survives a power cut.
    """
    path = folder / file_name(run.span)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with temporary.open("wb", buffering=0) as file:
            for piece in _pieces(run):
                _write_all(file.fileno(), piece)
            if synced:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    if synced:
        sync(folder)
    return open_run(path, verify=False)


def _pieces(run: SortedRun) -> list[memoryview]:
    crc, contents, forms = 0, list[memoryview](), dict[str, Any]()
    for name in COLUMNS:
        column = run.columns[name]
        forms[name] = [len(column), column.dtype.str, column[0].item() if is_same(column) else None]
        if is_same(column):
            continue
        column = _narrow(column)
        forms[name][1] = column.dtype.str
        content = _bytes_of(column)
        crc = zlib.crc32(content, crc)
        contents.append(content)
    head = signed({"columns": forms, "versions": run.versions, "now": run.now, "crc": crc})
    pieces = [memoryview(_FORM + len(head).to_bytes(8, "little") + head)]
    at = len(pieces[0])
    for content in contents:
        pieces.append(memoryview(bytes(-at % _ALIGNED)))
        pieces.append(content)
        at += -at % _ALIGNED + len(content)
    return pieces


def _narrow(column: NDArray[Any]) -> NDArray[Any]:
    """Return integers of 64 bits as such of 32 where they fit."""
    limits = np.iinfo(np.int32)
    if column.dtype != np.int64 or not len(column) or column.min() < limits.min or column.max() >= limits.max:
        return column
    return column.astype(np.int32)


def _bytes_of(column: NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(column).view(np.uint8).data


def _write_all(descriptor: int, content: memoryview) -> None:
    while len(content):
        content = content[os.write(descriptor, content) :]


def open_run(path: Path, *, verify: bool) -> SortedRun:
    """Map the run of a file; `IncompatibleStore` if it is not whole. `verify` compares its content with the CRC-32."""
    span = span_of(path.name)
    assert span is not None
    try:
        with path.open("rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except ValueError:
        raise damaged(str(path), "it is empty") from None
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be read ({error}); see to the disk, or try again") from None
    if bytes(data[:4]) != _FORM:
        raise damaged(str(path), f"it begins with {bytes(data[:4])!r}, not {_FORM!r}")
    first = 12 + int.from_bytes(data[4:12], "little")
    if first > len(data):
        raise damaged(str(path), "it was cut off")
    head = read_signed(bytes(data[12:first]), str(path))
    columns = _columns(data, first, head, path)
    versions = [(int(step), str(version)) for step, version in head["versions"]]
    run = SortedRun(span, columns, versions, head["now"], path)
    if verify and _crc_of(columns) != head["crc"]:
        raise damaged(str(path), "its content is not what was written (CRC-32)")
    _check(run)
    return run


def _columns(data: memoryview, at: int, head: dict[str, Any], path: Path) -> dict[str, NDArray[Any]]:
    columns = {}
    for name, dtype in COLUMNS.items():
        if name in LATER_COLUMNS and name not in head["columns"]:
            columns[name] = np.empty(0, dtype)
            continue
        length, form, value = head["columns"][name]
        kind = np.dtype(form)
        if kind not in (np.dtype(dtype), np.dtype(np.int32)):
            raise damaged(str(path), f"its column {name} is of type {form}")
        if value is not None:
            columns[name] = same(kind.type(value), length)
            continue
        at += -at % _ALIGNED
        end = at + length * kind.itemsize
        if end > len(data):
            raise damaged(str(path), "it was cut off")
        columns[name] = np.frombuffer(data[at:end], kind)
        at = end
    if at != len(data):
        raise damaged(str(path), f"it has {len(data) - at} bytes too many")
    return columns


def _crc_of(columns: dict[str, NDArray[Any]]) -> int:
    crc = 0
    for column in columns.values():
        crc = crc if is_same(column) else zlib.crc32(_bytes_of(column), crc)
    return crc


def _check(run: SortedRun) -> None:
    """Check that lengths fit together, so that nothing is looked up beyond a column."""
    owners = (("subscriber", "start"), ("step", "subscription_start"), ("named", "name_start"))
    owners += (("published", "taken_start"), ("published", "content_start"))  # type: ignore[assignment]
    ends = (("start", "step"), ("subscription_start", "subscription"), ("name_start", "name"))
    ends += (("taken_start", "taken"), ("content_start", "content"))  # type: ignore[assignment]
    fits = (
        all(len(run.columns[start]) == len(run.columns[owner]) + 1 for owner, start in owners)
        and all(run.columns[start][-1] == len(run.columns[content]) for start, content in ends)
        and all(len(run.columns[name]) == len(run) for name in ROW_COLUMNS)
        and len(run.ordinal) == len(run.subscriber)
        and len(run.told) == len(run.time)
        and len(run.published) == len(run.count)
        and len(run.id_hash) == len(run.hashed)
    )
    if not fits:
        raise damaged(str(run.path), "its columns do not fit together")


def files_of(folder: Path) -> list[tuple[Span, Path]]:
    """Return the runs of a folder in order, the widest of those that begin alike first."""
    found = [(span, each) for each in folder.iterdir() if (span := span_of(each.name)) is not None]
    return sorted(found, key=lambda each: (each[0].before, -each[0].last))


def remove_unfinished(folder: Path) -> None:
    """Remove what a crash left of files that were being written."""
    for each in folder.iterdir():
        if each.name.startswith(".") and ".run." in each.name:
            each.unlink(missing_ok=True)
