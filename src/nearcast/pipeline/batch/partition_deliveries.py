"""The deliveries of a batch in one partition: sorted into one order, and net for subscriptions of kind `topk`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from nearcast import _arrow
from nearcast.deliveries import ChangeDeliveries, MatchDeliveries
from nearcast.errors import InvalidColumns
from nearcast.pipeline.batch.order import rows_in_order
from nearcast.tables.names import DELIVERY_SCHEMA

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Rows of deliveries in one table: those of a row group, so that their dictionaries are written as they are.
_ROWS = 1 << 17


class PartitionDeliveries(NamedTuple):
    """Deliveries of one step or several, and the registration number of the subscription of each."""

    piece: MatchDeliveries | ChangeDeliveries
    number: NDArray[np.int64]


def net(deliveries: Sequence[PartitionDeliveries]) -> list[PartitionDeliveries]:
    """Cancel out top-k changes within a batch: a message that enters a list and leaves it again is not delivered."""
    changed = [at for at, each in enumerate(deliveries) if isinstance(each.piece, ChangeDeliveries)]
    if not changed:
        return list(deliveries)
    pieces = [deliveries[at].piece for at in changed]
    number = np.concatenate([deliveries[at].number for at in changed])
    message = np.concatenate([piece.message_numbers for piece in pieces])  # type: ignore[union-attr]
    rank = np.concatenate([piece.ranks for piece in pieces])  # type: ignore[union-attr]
    kept = rank == 0  # of other kinds, which a subscription may have been before
    kept[~kept] = _last_of_odd(number[~kept], message[~kept])
    parts = np.split(kept, np.cumsum([len(piece) for piece in pieces])[:-1])
    left = list(deliveries)
    for at, part in zip(changed, parts, strict=True):
        left[at] = PartitionDeliveries(_chosen(deliveries[at].piece, np.flatnonzero(part)), deliveries[at].number[part])
    return left


def _last_of_odd(number: NDArray[np.int64], message: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which rows are the last of their pair of subscription and message, where there is an odd number of them."""
    order = np.lexsort((message, number))  # stable: rows of a pair stay in their order
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (number[order][1:] != number[order][:-1]) | (message[order][1:] != message[order][:-1])
    first = np.flatnonzero(begins)
    length = np.diff(np.append(first, len(order)))
    is_last = np.zeros(len(order), np.bool_)
    is_last[order[(first + length - 1)[length % 2 == 1]]] = True
    return is_last


def _chosen(piece: MatchDeliveries | ChangeDeliveries, rows: NDArray[np.int64]) -> ChangeDeliveries:
    assert isinstance(piece, ChangeDeliveries)
    return replace(
        piece,
        steps=piece.steps[rows],
        times=piece.times[rows],
        slots=piece.slots[rows],
        message_ids=piece.message_ids[rows],
        message_numbers=piece.message_numbers[rows],
        scores=piece.scores[rows],
        ranks=piece.ranks[rows],
        enters=piece.enters[rows],
        cause_ids=piece.cause_ids[rows],
    )


def count(deliveries: Sequence[PartitionDeliveries]) -> int:
    """Return how many deliveries these are."""
    return sum(len(each.piece) for each in deliveries)


def tables(deliveries: Sequence[PartitionDeliveries], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the deliveries in order as tables of one schema: by step, registration, `-` before `+`, rank.

    Texts that repeat are dictionaries.
    """
    deliveries = [each for each in deliveries if len(each.piece)]
    if all(isinstance(each.piece, MatchDeliveries) and _is_in_order(each) for each in deliveries):
        # Pieces follow each other in time, so nothing is to be sorted.
        for each in deliveries:
            for first in range(0, len(each.piece), _ROWS):
                last = min(first + _ROWS, len(each.piece))
                yield as_schema(each.piece.to_table(first, last, dictionaries=True), schema)
        return
    yield _ordered(_whole(deliveries, schema), _key_columns(deliveries))


def _key_columns(deliveries: Sequence[PartitionDeliveries]) -> list[NDArray[np.int64]]:
    """Return the columns that decide the order of all deliveries, the least important first."""
    return [np.concatenate(column) for column in zip(*map(_keys, deliveries), strict=True)]


def _ordered(table: pa.Table, keys: Sequence[NDArray[np.int64]]) -> pa.Table:
    order = rows_in_order(keys)
    is_ordered = bool((order == np.arange(len(order))).all())
    return table if is_ordered else table.take(_arrow.numbers(order))


def _whole(deliveries: Sequence[PartitionDeliveries], schema: pa.Schema) -> pa.Table:
    """Return all deliveries as one table, in which a column of text is a dictionary where it is one in all pieces."""
    given = [as_schema(each.piece.to_table(dictionaries=True), schema) for each in deliveries]
    for at, field in enumerate(schema):
        if any(table.schema.field(at).type == field.type for table in given):
            given = [table.set_column(at, field.name, _arrow.plain(table.column(at))) for table in given]
    return pa.concat_tables(given).unify_dictionaries().combine_chunks()


def _is_in_order(each: PartitionDeliveries) -> bool:
    assert isinstance(each.piece, MatchDeliveries)
    rows = each.piece.matches.rows()
    same = rows[1:] == rows[:-1]
    return bool((each.number[1:] > each.number[:-1])[same].all())


def _keys(each: PartitionDeliveries) -> tuple[NDArray[np.int64], ...]:
    """Return the columns that decide the order, the least important first."""
    piece = each.piece
    if isinstance(piece, MatchDeliveries):
        n = len(piece)
        return np.zeros(n, np.int64), np.ones(n, np.int64), each.number, piece.steps[piece.matches.rows()]
    return piece.ranks.astype(np.int64), piece.enters.astype(np.int64), each.number, piece.steps


#: The columns that decide the order of deliveries, the least important first; all but the last are added to them.
KEYS = ("nearcast.rank", "nearcast.enters", "nearcast.number", "step")
_ADDED_KEYS = KEYS[:-1]


def keyed(deliveries: Sequence[PartitionDeliveries], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the deliveries as `tables` does, with the sort keys by which `merged` merges those of all partitions."""
    deliveries = [each for each in deliveries if len(each.piece)]
    if not deliveries:
        return
    columns = _key_columns(deliveries)
    whole = _whole(deliveries, schema)
    for name, column in zip(_ADDED_KEYS, columns, strict=False):
        whole = whole.append_column(name, _arrow.numbers(column))
    yield _ordered(whole, columns)


def merged(parts: Sequence[pa.Table]) -> pa.Table:
    """Return the deliveries of all partitions in order, without their keys."""
    whole = pa.concat_tables(parts)
    order = np.lexsort(tuple(_arrow.array_of(whole.column(name)) for name in KEYS))
    return whole.drop_columns(list(_ADDED_KEYS)).take(_arrow.numbers(order))


def id_type(kind: pa.DataType) -> str:
    """Return the name of a type of ids, `int64` or `string`, as manifests and tasks have it."""
    return "int64" if pa.types.is_integer(kind) else "string"


def schema_of(subscription_id: str, message_id: str) -> pa.Schema:
    """Return the columns of deliveries with ids of these types, as `id_type` names them."""
    types = {"int64": pa.int64(), "string": pa.string()}
    kinds = dict.fromkeys(("message_id", "cause_id"), types[message_id]) | {"subscription_id": types[subscription_id]}
    return pa.schema([field.with_type(kinds.get(field.name, field.type)) for field in DELIVERY_SCHEMA])


def as_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return deliveries in the types of a schema; where it says text, a dictionary of texts may stay one.

    All ids of a stream are of one type. Should they not be, `InvalidColumns`: 1 and "1" would become one id.
    """
    columns = [_as_type(table.column(field.name), field) for field in schema]
    return pa.table(columns, schema.names)


def _as_type(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    given = column.type
    if field.type in (given, _arrow.value_type(given)):
        return column
    if pa.types.is_union(given):
        raise InvalidColumns(f"{field.name} holds integers and text; give all ids one type", field=field.name)
    return _arrow.plain(column).cast(field.type)
