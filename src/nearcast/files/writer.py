"""Writing tables to a file that appears only when it is complete."""

import json
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.errors import FileUnavailable, InvalidColumns
from nearcast.tables.names import DELIVERY_SCHEMA

_ROWS_AT_ONCE = 1 << 17
_NEEDS_QUOTES = r'^$|[",\r\n]'
_NEEDS_ESCAPE = r'[\x00-\x1f"\\\x7f]'


class DeliveryWriter:
    """Writes deliveries, or any table, as Parquet, JSON lines or CSV, by the extension of the path.

    A context manager: rows go to a hidden file beside `path`, which takes its place at the end; after an error or an
    interrupt it is removed, and what was at `path` before is still there.

    >>> with DeliveryWriter("deliveries.parquet") as writer:  # doctest: +SKIP
    ...     writer.write(hub.publish_many(messages).to_table())
    """

    def __init__(self, path: str | os.PathLike[str]):
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
        self._empty = DELIVERY_SCHEMA.empty_table()
        self.rows = 0

    def __enter__(self) -> Self:
        # What cannot be written is found out before the work, not after it.
        if self.path.is_dir():
            raise InvalidColumns(f"{self.path} cannot be written: it is a folder")
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
        if not table.num_rows:
            self._empty = table
            return
        self._refuse_mixed_ids(table)
        with self._explained():
            if self._sink is None:
                self._sink = self._make(self._temporary, table.schema)
            self._sink.write(table)
        self.rows += table.num_rows

    def _refuse_mixed_ids(self, table: pa.Table) -> None:
        """Raise for ids of both kinds, which only JSON tells apart."""
        for field in table.schema:
            if pa.types.is_union(field.type) and self._make is not _JsonSink:
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
            self._temporary.unlink(missing_ok=True)

    def _close(self) -> None:
        if self._sink is not None:
            self._sink.close()


class _TableSink:
    """An open file of one format."""

    def write(self, table: pa.Table) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class _ParquetSink(_TableSink):
    def __init__(self, path: Path, schema: pa.Schema):
        self._path = path
        self._open(path, schema)

    def _open(self, path: Path, schema: pa.Schema) -> None:
        from pyarrow import parquet

        self._schema = schema
        self._writer = parquet.ParquetWriter(path, schema, compression="zstd")

    def write(self, table: pa.Table) -> None:
        wider = _wider(self._schema, table.schema)
        if wider != self._schema:
            self._rewrite(wider)
        self._writer.write_table(table.cast(self._schema))

    def _rewrite(self, schema: pa.Schema) -> None:
        """Begin anew with wider types, for ids that were integers up to here and are text from now on."""
        from pyarrow import parquet

        self._writer.close()
        old = self._path.with_name(f"{self._path.name}.old")
        os.replace(self._path, old)
        try:
            self._open(self._path, schema)
            with parquet.ParquetFile(old) as file:
                for batch in file.iter_batches():
                    self._writer.write_table(pa.table(batch).cast(schema))
        finally:
            old.unlink()

    def close(self) -> None:
        self._writer.close()


def _wider(one: pa.Schema, other: pa.Schema) -> pa.Schema:
    """Return the schema that holds both: text where one has integers and the other text."""
    fields = []
    for field in one:
        kind = other.field(field.name).type
        if pa.types.is_null(field.type) or (pa.types.is_integer(field.type) and pa.types.is_string(kind)):
            field = field.with_type(kind)
        fields.append(field)
    return pa.schema(fields, one.metadata)


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
