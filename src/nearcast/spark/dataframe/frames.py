"""Reads DataFrames: checks columns before a job runs, collects subscriptions, counts words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nearcast import _arrow
from nearcast.errors import InvalidColumns, InvalidInput, NotSupported, Remedy, with_remedy
from nearcast.geo import Space
from nearcast.geo.shapes import shorten
from nearcast.spark.dataframe.matcher import STEP
from nearcast.spark.gc_freeze import freeze_once
from nearcast.tables import Rejected, first_topk, read_messages, read_subscriptions, space_of
from nearcast.tables.column_names import MESSAGE_NAMES, SUBSCRIPTION_NAMES
from nearcast.tables.names import EARTH_NAMES, EARTH_PLACE, PLANE_NAMES, PLANE_PLACE
from nearcast.tables.scored_rows import subscription_names
from nearcast.text import Analyzer, Vocabulary
from nearcast.text.words import WordTable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_MESSAGE_FIELDS = ("id", "text", "terms", "time", "expires")
_RENAMING = ": withColumnRenamed"
_HOW = {
    Remedy.NAME_COLUMN: _RENAMING,
    Remedy.RENAME_COLUMN: _RENAMING,
    Remedy.GIVE_SPACE: ", with space=",
}
_COUNTS = "word string, documents long"
REJECTED_SCHEMA = "seq long, id string, field string, reason string"


def space_of_frames(messages: DataFrame, subscriptions: DataFrame | None, given: str | Space | None) -> Space:
    """Return the space that the columns tell, or the one given, which must not contradict them."""
    names = [*messages.columns, *([] if subscriptions is None else subscriptions.columns)]
    try:
        resolved = space_of(names, given.kind if isinstance(given, Space) else given)
    except InvalidColumns as error:
        raise _with_hint(error) from None
    return given if isinstance(given, Space) else resolved


def check_frame(given: Any, name: str) -> None:
    """Raise for what is no DataFrame of Spark, such as a path or a table."""
    if not hasattr(given, "sparkSession"):
        raise InvalidInput(
            f"{name} is {shorten(given)}; expected a DataFrame of Spark, such as spark.read.parquet(path)", field=name
        )


def message_columns(messages: DataFrame, space: Space, *, rejected: Rejected | None = None) -> DataFrame:
    """Return the columns of messages that matching reads, checked: their names and their types.

    Names that are nearly right are warnings of `rejected`.
    """
    place = EARTH_PLACE if space.is_earth else PLANE_PLACE
    read, asked = _selected(messages, (*_MESSAGE_FIELDS, *place)), Rejected()
    try:
        read_messages(_with_names(read, messages), space, WordTable(), Analyzer(), rejected=asked)
    except InvalidColumns as error:
        raise _with_hint(error) from None
    _pass_on(asked, rejected)
    return _selected(messages, read.columns, _steps(messages).alias(STEP))


def _steps(messages: DataFrame) -> Column:
    """Return the numbers of messages: their own, or some that are made."""
    from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
    from pyspark.sql.types import IntegralType

    if STEP not in messages.columns:
        if messages.isStreaming:
            raise NotSupported(f"messages are a stream without a column {STEP} of integers; add one")
        return F.monotonically_increasing_id()
    kind = messages.schema[STEP].dataType
    if not isinstance(kind, IntegralType):
        raise InvalidColumns(f"messages: column {STEP} is {kind.simpleString()}; expected integers", field=STEP)
    return F.coalesce(messages[STEP].cast("long"), F.lit(-1))


def subscription_columns(subscriptions: DataFrame, space: Space, *, rejected: Rejected | None = None) -> DataFrame:
    """Return the columns of subscriptions that matching reads, as `message_columns` does those of messages."""
    read, asked = _selected(subscriptions, (*subscription_names(space), "expires")), Rejected()
    try:
        read_subscriptions(_with_names(read, subscriptions), space, WordTable(), Analyzer(), rejected=asked)
    except InvalidColumns as error:
        raise _with_hint(error) from None
    _pass_on(asked, rejected)
    return read


def _pass_on(asked: Rejected, rejected: Rejected | None) -> None:
    """Pass on the warnings about columns; that the row of nulls is rejected means nothing."""
    if rejected is not None:
        for line in asked.warnings:
            rejected.warn(line)


def _with_names(read: DataFrame, frame: DataFrame) -> pa.Table:
    """Return a row of nulls with the columns that are read and, for errors and warnings, the names of the others."""
    table = one_row_of_nulls(read)
    known = {*MESSAGE_NAMES, *SUBSCRIPTION_NAMES, *EARTH_NAMES, *PLANE_NAMES, *EARTH_PLACE, *PLANE_PLACE, STEP}
    for name in dict.fromkeys(frame.columns):
        if name not in known:
            table = table.append_column(name, pa.nulls(1))
    return table


def id_type(frame: DataFrame) -> str:
    """Return what Spark calls the type of ids that come from the column `id`."""
    from pyspark.sql.types import IntegralType

    return "long" if isinstance(frame.schema["id"].dataType, IntegralType) else "string"


def _selected(frame: DataFrame, names: Iterable[str], *more: Column) -> DataFrame:
    there = set(frame.columns)
    # A name with a dot in it would be read as a field of a struct.
    return frame.select([*(frame[f"`{name}`"] for name in names if name in there), *more])


def one_row_of_nulls(frame: DataFrame) -> pa.Table:
    """Return a table with the columns of a frame, to ask whether they can be read."""
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_arrow_schema(frame.schema, timezone="UTC")
    if not len(schema):
        return pa.table({"": pa.nulls(1)})
    fields = [field.with_nullable(True) for field in schema]
    return pa.table([pa.nulls(1, field.type) for field in fields], schema=pa.schema(fields))


def _with_hint(error: InvalidColumns) -> InvalidColumns:
    """Return the error, and how to do on a DataFrame what it advises."""
    return InvalidColumns(with_remedy(error, _HOW), field=error.field)


def refuse_topk(table: pa.Table) -> None:
    """Raise where a subscription is of kind `topk`: what it gets depends on the order of messages."""
    first = first_topk(table)
    if first is not None:
        raise NotSupported(
            f"subscription {table['id'][first].as_py()!r} is of kind topk, whose answers depend on the order of"
            " messages, and a DataFrame has none; use nearcast match --engine spark or nearcast stream"
        )


# Words.


def learned_vocabulary(messages: DataFrame, space: Space, analyzer: Analyzer) -> Vocabulary:
    """Return in how many messages each word stands, by a Spark job; `message_columns` has chosen the columns."""
    counts = messages.mapInArrow(_CountWords(space, analyzer), _COUNTS).toArrow()
    words, documents = counts["word"], _arrow.array_of(counts["documents"])
    is_word = _arrow.array_of(words.is_valid())
    return Vocabulary.summed([(words.filter(words.is_valid()), documents[is_word], int(documents[~is_word].sum()))])


@dataclass(frozen=True)
class _CountWords:
    """Messages → each word and in how many of them it stands; null is the word that all of them have."""

    space: Space
    analyzer: Analyzer

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        vocabulary = Vocabulary()
        for batch in batches:
            table, rejected = pa.Table.from_batches([batch]), Rejected()
            found = read_messages(table, self.space, vocabulary.table, self.analyzer, add_words=True, rejected=rejected)
            vocabulary.learn(found.term_start, found.terms)
        words = pa.concat_arrays([vocabulary.table.words().cast(pa.string()), pa.nulls(1, pa.string())])
        counts = np.append(vocabulary.df_by_term, vocabulary.documents)
        yield pa.record_batch([words, _arrow.numbers(counts)], ["word", "documents"])
        freeze_once()


# Rejected rows.


@dataclass(frozen=True)
class RejectedRows:
    """Messages → those that cannot be used, with reasons."""

    space: Space

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rejected rows of these batches."""
        words = WordTable()
        for batch in batches:
            table, rejected = pa.Table.from_batches([batch]), Rejected()
            read_messages(table, self.space, words, Analyzer(), rejected=rejected)
            found: dict[str, list[Any]] = {"seq": [], "id": [], "field": [], "reason": []}
            steps = table[STEP].to_pylist() if len(rejected) else []
            for row in rejected:
                found["seq"].append(steps[row.row])
                found["id"].append(row.id)
                found["field"].append(row.field)
                found["reason"].append(row.reason)
            schema = pa.schema([("seq", pa.int64()), *((name, pa.string()) for name in ("id", "field", "reason"))])
            yield pa.record_batch(found, schema=schema)
        freeze_once()
