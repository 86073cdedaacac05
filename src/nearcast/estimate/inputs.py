"""The inputs of an estimate as columns: one subscription, and a sample of messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nearcast.columns import TOPK, Messages, Subscriptions, joined
from nearcast.errors import InvalidSubscription, NotSupported
from nearcast.indexes.shared.scores import needs_totals
from nearcast.tables import Rejected, messages_table, read_messages, read_subscriptions

if TYPE_CHECKING:
    from nearcast.geo import Space
    from nearcast.text import Analyzer
    from nearcast.text.weights import TermWeights
    from nearcast.text.words import WordTable


def subscription_of_table(
    table: pa.Table,
    space: Space,
    words: WordTable,
    analyzer: Analyzer,
    *,
    max_distance: float | None,
    strict: bool,
    warned: Rejected,
) -> Subscriptions:
    """Return the one subscription of a table; warnings about its columns are added to `warned`."""
    rejected = Rejected()
    columns = read_subscriptions(
        table, space, words, analyzer, max_distance=max_distance, strict=strict, rejected=rejected
    )
    for text in rejected.warnings:
        warned.warn(text)
    for row in rejected:
        raise InvalidSubscription(row.reason, field=row.field)
    if len(columns) != 1:
        raise InvalidSubscription(f"the table has {len(columns)} subscriptions; expected one")
    return columns


def check_kind(subscription: Subscriptions) -> None:
    """Raise `NotSupported` for a top-k subscription: it always gets its best."""
    if subscription.kind[0] == TOPK:
        k = 0 if subscription.scoring is None else int(subscription.scoring.k[0])
        raise NotSupported(f"a top-k subscription always gets its best {k}; estimate the other kinds")


def read_sample(
    pieces: Iterable[pa.Table | Iterable[Any]],
    subscription: Subscriptions,
    space: Space,
    words: WordTable,
    analyzer: Analyzer,
    weights: TermWeights,
    *,
    strict: bool,
    rejected: Rejected,
) -> Messages:
    """Return the messages of all pieces, which are tables or values; `weights` are those of `words`."""
    totals_by = weights if needs_totals(subscription) else None
    read = []
    for piece in pieces:
        table = piece
        if not isinstance(table, pa.Table):
            table = messages_table(table, space, source="sample", rejected=rejected, strict=strict)
        columns = read_messages(
            table,
            space,
            words,
            analyzer,
            source="sample",
            weights=totals_by,
            strict=strict,
            rejected=rejected,
        )
        read.append(columns)
    return _joined(read)


def _joined(pieces: Sequence[Messages]) -> Messages:
    """Return the words, places and times of all pieces; ids and all else are left behind."""
    totals = [piece.totals for piece in pieces if piece.totals is not None]
    return Messages.of(
        joined([piece.term_start for piece in pieces]),
        np.concatenate([np.empty(0, np.int32), *(piece.terms for piece in pieces)]),
        np.concatenate([np.empty((0, 4)), *(piece.box for piece in pieces)]),
        time=np.concatenate([np.empty(0, np.int64), *(piece.time for piece in pieces)]),
        totals=np.concatenate(totals) if totals else None,
    )
