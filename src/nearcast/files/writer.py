"""Writing tables to a file that appears only when it is complete."""

import json
import os
import secrets
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast import _arrow
from nearcast.delivery_ids import with_delivery_ids
from nearcast.errors import FileUnavailable, InvalidColumns
from nearcast.files.row_groups import RowGroups
from nearcast.tables.names import DELIVERY_SCHEMA

_ROWS_AT_ONCE = 1 << 17
#: Bytes of the values of a column in a row group up to which Parquet keeps them as a dictionary.
_LARGEST_DICTIONARY = 1 << 24
_NEEDS_QUOTES = r'^$|[",\r\n]'
_NEEDS_ESCAPE = r'[\x00-\x1f"\\\x7f]'


class DeliveryWriter:
    """Writes deliveries, or any table, as Parquet, JSON lines or CSV, by the extension of the path.

    A context manager: rows go to a hidden file beside `path`, which takes its place at the end; after an error or an
    interrupt it is removed, and what was at `path` before is still there.

    Deliveries in JSON lines and CSV have the column `delivery_id`, in Parquet they have it if asked: there it would
    take most of the time and most of the file, and `nearcast.delivery_id` makes it from the others. The same rows make
    the same bytes, however they are cut into tables.

    >>> with DeliveryWriter("deliveries.parquet") as writer:  # doctest: +SKIP
    ...     writer.write(hub.publish_many(messages).to_table())
    """

    def __init__(self, path: str | os.PathLike[str], *, delivery_ids: bool | None = None):
        self.path = Path(path)
        makers: dict[str, Callable[[Path, pa.Schema], _TableSink]] = {
            ".parquet": _ParquetSink,
            ".jsonl": _JsonSink,
            ".ndjson": _JsonSink,
            ".csv": _CsvSink,
        }
        if self.path.suffix.lower() not in makers:
            raise InvalidColumns(f"{path}: cannot write this format; use one of {', '.join(makers)}")
        self._make = makers[self.path.suffix.lower()]
        self._temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        self._sink: _TableSink | None = None
        self._has_names = self._make is not _ParquetSink if delivery_ids is None else delivery_ids
        self._empty = self._columns(DELIVERY_SCHEMA.empty_table())
        self._types: dict[str, pa.DataType] = {}
        self.rows = 0

    def _columns(self, table: pa.Table) -> pa.Table:
        """Return the columns that are written."""
        table = table if self._make is _ParquetSink else _arrow.plain(table)
        return with_delivery_ids(table) if self._has_names else table

    def __enter__(self) -> Self:
        # What cannot be written is found out before the work, not after it.
        if self.path.is_dir():
            raise InvalidColumns(f"{self.path} cannot be written: it is a folder")
        # An interrupt may strike once the file is there and before `__exit__` is sure to be called.
        self._remove = weakref.finalize(self, self._temporary.unlink, missing_ok=True)
        with self._explained():
            self._temporary.touch(exist_ok=False)
        return self

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise FileUnavailable(f"{self.path} cannot be written: {error.strerror or error}") from None

    def write(self, table: pa.Table) -> None:
        """Append the rows; every table has the same columns. One without rows tells types only if all are so."""
        table = self._columns(table)
        if not table.num_rows:
            self._empty = _arrow.plain(table)
            return
        self._refuse_mixed_ids(table)
        with self._explained():
            if self._sink is None:
                self._sink = self._make(self._temporary, table.schema)
            self._sink.write(table)
        self.rows += table.num_rows

    def _refuse_mixed_ids(self, table: pa.Table) -> None:
        """Raise for ids of both kinds, in a table or in two: only JSON tells 1 from "1"."""
        if self._make is _JsonSink:
            return
        for field in table.schema:
            kind = _arrow.value_type(field.type)
            if _are_mixed(self._types.setdefault(field.name, kind), kind):
                raise InvalidColumns(
                    f"{self.path}: {field.name} holds integers and text, and a column of this format has one type;"
                    " write .jsonl, or give all ids one type",
                    field=field.name,
                )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is not None:
                with suppress(OSError, pa.ArrowException):  # the first error is the one to tell
                    self._close()
                return
            with self._explained():
                if self._sink is None:
                    self._sink = self._make(self._temporary, self._empty.schema)
                self._close()
                os.replace(self._temporary, self.path)
        finally:
            self._remove()

    def _close(self) -> None:
        if self._sink is not None:
            self._sink.close()


def _are_mixed(one: pa.DataType, other: pa.DataType) -> bool:
    """Tell whether a column of these types in two tables, or in one, holds integers and text."""
    is_text, is_integer = pa.types.is_string, pa.types.is_integer
    return bool(
        pa.types.is_union(other) or (is_integer(one) and is_text(other)) or (is_text(one) and is_integer(other))
    )


class _TableSink:
    """An open file of one format."""

    def write(self, table: pa.Table) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class _ParquetSink(_TableSink):
    """Row groups of plain types; what each column costs, in time and bytes, decides how it is encoded.

    Text that repeats is written as a dictionary, straight from the codes. Text that does not, numbers and times are
    not: finding the values of a column takes longer than all the rest. Readers skip row groups by integers and times.
    """

    def __init__(self, path: Path, schema: pa.Schema):
        self._path, self._schema = path, schema
        self._groups = RowGroups()
        self._writer: Any = None

    def write(self, table: pa.Table) -> None:
        for group in self._groups.add(table):
            self._write_group(group)

    def close(self) -> None:
        for group in self._groups.rest():
            self._write_group(group)
        if self._writer is None:
            self._writer = _parquet_writer(self._path, self._schema)
        self._writer.close()

    def _write_group(self, group: pa.Table) -> None:
        if self._writer is None:
            self._writer = _parquet_writer(self._path, group.schema)
        self._writer.write_table(group)


def _parquet_writer(path: Path, schema: pa.Schema) -> Any:
    from pyarrow import parquet

    integers = [field.name for field in schema if pa.types.is_integer(field.type)]
    times = [field.name for field in schema if pa.types.is_timestamp(field.type)]
    return parquet.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=[field.name for field in schema if pa.types.is_dictionary(field.type)],
        dictionary_pagesize_limit=_LARGEST_DICTIONARY,
        column_encoding=dict.fromkeys(integers, "DELTA_BINARY_PACKED"),
        write_statistics=[*integers, *times],
        store_schema=False,  # so that readers find plain types
    )


class _TextSink(_TableSink):
    """A file of lines, put together by Arrow: a tenth of the time that one row after the other takes."""

    def __init__(self, path: Path, schema: pa.Schema):
        self._file: IO[bytes] = path.open("wb")

    def write(self, table: pa.Table) -> None:
        for first in range(0, table.num_rows, _ROWS_AT_ONCE):
            lines = self._lines(table.slice(first, _ROWS_AT_ONCE))
            self._file.writelines(_content(chunk) for chunk in lines.chunks)

    def _lines(self, table: pa.Table) -> pa.ChunkedArray:
        raise NotImplementedError

    def close(self) -> None:
        self._file.close()


class _CsvSink(_TextSink):
    """Cells in quotes only where they need them; null is an empty cell, an empty text a pair of quotes."""

    def __init__(self, path: Path, schema: pa.Schema):
        super().__init__(path, schema)
        header = _csv_cells(pa.chunked_array([pa.array(schema.names, pa.large_string())]))
        self._file.write(",".join(header.to_pylist()).encode() + b"\n")

    def _lines(self, table: pa.Table) -> pa.ChunkedArray:
        pieces: list[Any] = []
        for column in table.columns:
            pieces += [",", _csv_cells(_text_of(column)).fill_null("")]
        return _concatenated(*pieces[1:], "\n")


def _csv_cells(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    needs_quotes = pc.match_substring_regex(texts, _NEEDS_QUOTES)
    if not pc.any(needs_quotes).as_py():
        return texts
    return pc.if_else(needs_quotes, _quoted(pc.replace_substring(texts, '"', '""')), texts)


class _JsonSink(_TextSink):
    def _lines(self, table: pa.Table) -> pa.ChunkedArray:
        pieces: list[Any] = []
        for name, column in zip(table.column_names, table.columns, strict=True):
            pieces += [("," if pieces else "{") + json.dumps(name) + ":", _json_values(column).fill_null("null")]
        return _concatenated(*pieces, "}\n")


def _json_values(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_union(column.type):
        values = [None if value is None else json.dumps(value, ensure_ascii=False) for value in column.to_pylist()]
        return pa.chunked_array([pa.array(values, pa.large_string())])
    texts = _text_of(column)
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        return texts
    if pc.any(pc.match_substring_regex(texts, _NEEDS_ESCAPE)).as_py():
        values = [None if text is None else json.dumps(text, ensure_ascii=False) for text in texts.to_pylist()]
        return pa.chunked_array([pa.array(values, pa.large_string())])
    return _quoted(texts)


def _content(strings: pa.Array) -> memoryview:
    """Return the bytes of a column of large_string without nulls, one behind the other."""
    _, offsets, content = strings.buffers()
    bounds = np.frombuffer(offsets, np.int64)
    return memoryview(content)[int(bounds[strings.offset]) : int(bounds[strings.offset + len(strings)])]


def _text_of(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return each value as large_string: times as RFC 3339, floats so that they stay floats, null as null."""
    if pa.types.is_timestamp(column.type):
        return _rfc_3339(column)
    texts = column.cast(pa.large_string())
    if not pa.types.is_floating(column.type):
        return texts
    texts = pc.replace_substring_regex(texts, r"^(-?[0-9]+)$", r"\1.0")
    return pc.if_else(pc.is_finite(column), texts, pa.scalar(None, pa.large_string()))


def _concatenated(*pieces: Any) -> pa.ChunkedArray:
    """Return columns of large_string and constants put together row by row; null where one is null."""
    kind = pa.large_string()
    large = [pa.scalar(piece, kind) if isinstance(piece, str) else piece for piece in pieces]
    return pc.binary_join_element_wise(*large, pa.scalar("", kind))


def _quoted(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    return _concatenated('"', texts, '"')


def _rfc_3339(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times as text in UTC, with microseconds only where there are some."""
    # A cast is twenty times faster than strftime; it writes "1970-01-01 00:00:00.000000".
    texts = column.cast(pa.timestamp("us"), safe=False).cast(pa.large_string())
    return _concatenated(pc.replace_substring(pc.replace_substring(texts, " ", "T"), ".000000", ""), "Z")
