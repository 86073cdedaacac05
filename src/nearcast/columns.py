"""Messages and subscriptions as columns: Arrow outside, flat NumPy inside.

What an index sees. Words are term ids of one `WordTable`, places are float64 rectangles, times are
microseconds; ids and attributes stay in Arrow and never enter a kernel. Reading tables, with their
rejected rows, is the business of `nearcast.tables`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nearcast import _arrow
from nearcast.geo import Regions

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Stands for "not given" in a column of times.
NO_TIME = np.iinfo(np.int64).min
#: The first and the last microsecond a datetime can hold.
FIRST_TIME, LAST_TIME = -62_135_596_800_000_000, 253_402_300_799_999_999
#: The most results a top-k subscription may keep.
MAX_K = 1000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

#: Values of the column `kind`.
WITHIN, SIMILAR, TOPK = 0, 1, 2
KIND_NAMES = ("within", "similar", "topk")
#: Columns of one boolean row of one clause, which all such rows share: nobody writes into them.
_ONE_WITHIN, _ONE_CLAUSE, _NO_END = np.array([WITHIN], np.uint8), np.array([0, 1]), np.array([NO_TIME])


def microseconds_of(moment: datetime | None) -> int:
    """Return an aware datetime as a column of times holds it."""
    return NO_TIME if moment is None else (moment - _EPOCH) // _MICROSECOND


def datetime_of(microseconds: int) -> datetime | None:
    """Return a value of a column of times as a datetime in UTC, None for NO_TIME."""
    return None if microseconds == NO_TIME else _EPOCH + timedelta(microseconds=microseconds)


def gathered(start: NDArray[np.int64], rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (new start, positions of the values) for the lists `rows` of a column of lists."""
    return gathered_between(start[rows], start[rows + 1])


def gathered_between(first: NDArray[np.int64], last: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (new start, positions of the values) for lists with the values from `first` to `last` each."""
    length = last - first
    new_start = np.zeros(len(length) + 1, np.int64)
    np.cumsum(length, out=new_start[1:])
    positions = np.arange(new_start[-1]) + np.repeat(first - new_start[:-1], length)
    return new_start, positions


def joined(starts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return one `start` column for list columns laid end to end."""
    pieces, base = [np.zeros(1, np.int64)], 0
    for start in starts:
        pieces.append(start[1:] - start[0] + base)
        base += int(start[-1] - start[0])
    return np.concatenate(pieces)


def _owned(array: NDArray[Any]) -> NDArray[Any]:
    return np.require(array, requirements=["C", "W"])


@dataclass(frozen=True)
class Messages:
    """Published messages, one per row, in order of arrival.

    `terms[term_start[i]:term_start[i + 1]]` are the words of message i in text order, repeats kept,
    -1 for words no subscription uses. `box` is x_min, y_min, x_max, y_max: equal corners are a point;
    on the earth x_max < x_min is a rectangle across the dateline. `ids` of a single message may be a plain list.

    `totals[i]` is how many distinct words message i has, what they weigh together, and the squared length of its tf-idf
    vector, words that no subscription uses included. Only the text functions that read the whole message need it; None
    means it was not worked out. `window_terms` are the words as `terms` has them, in the table of a sliding window,
    which knows them all; None without a window. `live_terms` are the same in the table of a live store, None without a
    lifetime. `steps` and `clock` are the number of each message's step and event time at it, where messages were put in
    order elsewhere; None lets the engine count.
    """

    ids: pa.Array | list[str | int]
    term_start: NDArray[np.int64]
    terms: NDArray[np.int32]
    box: NDArray[np.float64]
    time: NDArray[np.int64]
    expires: NDArray[np.int64]
    attributes: pa.Table | None = None
    totals: NDArray[np.float64] | None = None
    window_terms: NDArray[np.int32] | None = None
    steps: NDArray[np.int64] | None = None
    clock: NDArray[np.int64] | None = None
    live_terms: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.box)

    @classmethod
    def of(
        cls,
        term_start: NDArray[np.int64],
        terms: NDArray[np.int32],
        box: NDArray[np.float64],
        *,
        ids: pa.Array | None = None,
        time: NDArray[np.int64] | None = None,
        expires: NDArray[np.int64] | None = None,
        attributes: pa.Table | None = None,
        totals: NDArray[np.float64] | None = None,
    ) -> Messages:
        """Make columns from arrays of any layout; ids default to the row number."""
        n = len(box)
        never = np.full(n, NO_TIME, np.int64)
        return cls(
            ids=_arrow.numbers(np.arange(n)) if ids is None else ids,
            term_start=np.ascontiguousarray(term_start, np.int64),
            terms=np.ascontiguousarray(terms, np.int32),
            box=np.ascontiguousarray(box, np.float64).reshape(n, 4),
            time=never if time is None else np.ascontiguousarray(time, np.int64),
            expires=never if expires is None else np.ascontiguousarray(expires, np.int64),
            attributes=attributes,
            totals=None if totals is None else np.ascontiguousarray(totals, np.float64).reshape(n, 3),
        )

    @classmethod
    def none(cls) -> Messages:
        """Return no messages."""
        return cls.of(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty((0, 4)))

    def for_kernels(self) -> Messages:
        """Return the same messages in arrays that are ours: read-only ones are another type to every kernel."""
        lent: list[NDArray[Any]] = [self.term_start, self.terms, self.box]
        lent += [] if self.totals is None else [self.totals]
        if all(array.flags.writeable for array in lent):
            return self
        term_start, terms, box, *totals = map(_owned, lent)
        return replace(self, term_start=term_start, terms=terms, box=box, totals=totals[0] if totals else None)

    def terms_of(self, row: int) -> NDArray[np.int32]:
        """Return the term ids of one message."""
        return self.terms[self.term_start[row] : self.term_start[row + 1]]

    def take(self, rows: NDArray[np.int64]) -> Messages:
        """Return these rows, in this order."""
        rows = np.asarray(rows, np.int64)
        start, positions = gathered(self.term_start, rows)
        attributes = None if self.attributes is None else self.attributes.take(_arrow.numbers(rows))
        return Messages(
            ids=(self.ids if isinstance(self.ids, pa.Array) else pa.array(self.ids)).take(_arrow.numbers(rows)),
            term_start=start,
            terms=np.ascontiguousarray(self.terms[positions]),
            box=np.ascontiguousarray(self.box[rows]),
            time=self.time[rows],
            expires=self.expires[rows],
            attributes=attributes,
            totals=None if self.totals is None else np.ascontiguousarray(self.totals[rows]),
            window_terms=None if self.window_terms is None else np.ascontiguousarray(self.window_terms[positions]),
            steps=None if self.steps is None else self.steps[rows],
            clock=None if self.clock is None else self.clock[rows],
            live_terms=None if self.live_terms is None else np.ascontiguousarray(self.live_terms[positions]),
        )

    def part(self, first: int, last: int) -> Messages:
        """Return the rows from `first` to `last`."""
        if first == 0 and last == len(self):
            return self
        return self.take(np.arange(first, last))


@dataclass(frozen=True)
class ScoreParameters:
    """How the scored rows of `Subscriptions` are scored, by row; rows of kind `within` hold zeros.

    `similarity` is a value of `nearcast.similarity`; `max_distance` is always given here, above 0 and finite. `k` is 0
    but for rows of kind `topk`, whose `threshold` is the score from which a message concerns them at present.
    """

    text_weight: NDArray[np.float64]
    threshold: NDArray[np.float64]
    max_distance: NDArray[np.float64]
    similarity: NDArray[np.uint8]
    k: NDArray[np.int32] = None  # type: ignore[assignment]  # zeros when not given

    def __post_init__(self) -> None:
        if self.k is None:
            object.__setattr__(self, "k", np.zeros(len(self.text_weight), np.int32))

    @classmethod
    def none(cls, n: int) -> ScoreParameters:
        """Return n rows that are not scored."""
        return cls(np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n, np.uint8))

    def columns(self) -> tuple[NDArray[Any], ...]:
        """Return the columns in the order of the constructor."""
        return self.text_weight, self.threshold, self.max_distance, self.similarity, self.k

    def take(self, rows: NDArray[np.int64]) -> ScoreParameters:
        """Return these rows, in this order."""
        return ScoreParameters(*(np.ascontiguousarray(column[rows]) for column in self.columns()))

    @classmethod
    def concat(cls, pieces: list[ScoreParameters]) -> ScoreParameters:
        """Return all rows of all pieces, in order."""
        return cls(*map(np.concatenate, zip(*(piece.columns() for piece in pieces), strict=True)))


@dataclass(frozen=True)
class Subscriptions:
    """Subscriptions, one per row, compiled to clauses over term ids.

    Row i owns the clauses `clause_start[i]:clause_start[i + 1]`; clause c is the program
    `code[code_start[c]:code_start[c + 1]]`, whose form `nearcast.query` describes.
    A message satisfies a row of kind `within` if it satisfies one clause and touches the region.

    A scored row (`similar`, `topk`) has one clause, its words, each once and in the order of their strings, and its
    region is a box of one point, its place; `scoring` says how the two are weighed. None stands for no scored rows at
    all. `min_move` is how far a report must lie from the present place to count, 0: any; None where no row says so.
    `texts` are request texts (large_binary), what rows said that the other columns do not hold, for whoever gives
    subscriptions back as values; None where nobody does.
    """

    ids: pa.Array
    kind: NDArray[np.uint8]
    clause_start: NDArray[np.int64]
    code_start: NDArray[np.int64]
    code: NDArray[np.int32]
    regions: Regions
    expires: NDArray[np.int64]
    scoring: ScoreParameters | None = None
    texts: pa.Array | None = None
    min_move: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.kind)

    @classmethod
    def of(
        cls,
        clause_start: NDArray[np.int64],
        code_start: NDArray[np.int64],
        code: NDArray[np.int32],
        regions: Regions,
        *,
        ids: pa.Array | None = None,
        expires: NDArray[np.int64] | None = None,
        kind: NDArray[np.uint8] | None = None,
        scoring: ScoreParameters | None = None,
    ) -> Subscriptions:
        """Make columns, of kind `within` unless given; ids default to the row number."""
        n = len(regions)
        return cls(
            ids=_arrow.numbers(np.arange(n)) if ids is None else ids,
            kind=np.full(n, WITHIN, np.uint8) if kind is None else np.ascontiguousarray(kind, np.uint8),
            clause_start=np.ascontiguousarray(clause_start, np.int64),
            code_start=np.ascontiguousarray(code_start, np.int64),
            code=np.ascontiguousarray(code, np.int32),
            regions=regions,
            expires=np.full(n, NO_TIME, np.int64) if expires is None else np.ascontiguousarray(expires, np.int64),
            scoring=scoring,
        )

    def take(self, rows: NDArray[np.int64]) -> Subscriptions:
        """Return these rows, in this order."""
        rows = np.asarray(rows, np.int64)
        if len(rows) == len(self) == 1 and rows[0] == 0:
            return self  # the one of a single change
        clause_start, clauses = gathered(self.clause_start, rows)
        code_start, positions = gathered(self.code_start, clauses)
        return Subscriptions(
            ids=self.ids.take(_arrow.numbers(rows)),
            kind=self.kind[rows],
            clause_start=clause_start,
            code_start=code_start,
            code=np.ascontiguousarray(self.code[positions]),
            regions=self.regions.take(rows),
            expires=self.expires[rows],
            scoring=None if self.scoring is None else self.scoring.take(rows),
            texts=None if self.texts is None else self.texts.take(_arrow.numbers(rows)),
            min_move=None if self.min_move is None else self.min_move[rows],
        )

    def with_regions(self, regions: Regions) -> Subscriptions:
        """Return the same subscriptions at other places."""
        return Subscriptions(  # `replace` takes as long as a search among live messages
            ids=self.ids,
            kind=self.kind,
            clause_start=self.clause_start,
            code_start=self.code_start,
            code=self.code,
            regions=regions,
            expires=self.expires,
            scoring=self.scoring,
            texts=self.texts,
            min_move=self.min_move,
        )

    @classmethod
    def concat(cls, pieces: list[Subscriptions]) -> Subscriptions:
        """Return all rows of all pieces, in order."""
        return cls(
            ids=pa.concat_arrays([piece.ids for piece in pieces]),
            kind=np.concatenate([piece.kind for piece in pieces]),
            clause_start=joined([piece.clause_start for piece in pieces]),
            code_start=joined([piece.code_start for piece in pieces]),
            code=np.concatenate([piece.code for piece in pieces]),
            regions=Regions.concat([piece.regions for piece in pieces]),
            expires=np.concatenate([piece.expires for piece in pieces]),
            scoring=_joined_scoring(pieces),
            texts=None if any(piece.texts is None for piece in pieces) else pa.concat_arrays([p.texts for p in pieces]),
            min_move=_joined_min_moves(pieces),
        )


class HeldSubscription(Subscriptions):
    """One row of kind `within` with one clause, as an index holds it: its slot becomes a column of ids when asked for.

    A single move needs no ids, and to make an Arrow column takes as long as to search the index.
    """

    @classmethod
    def at(cls, slots: NDArray[np.int32], code: NDArray[np.int32], regions: Regions) -> HeldSubscription:
        """Return what one slot holds, which never expires."""
        held = object.__new__(cls)
        held.__dict__.update(
            _slots=slots,
            kind=_ONE_WITHIN,
            clause_start=_ONE_CLAUSE,
            code_start=np.array([0, len(code)]),
            code=code,
            regions=regions,
            expires=_NO_END,
        )
        return held

    def __getattr__(self, name: str) -> Any:
        if name != "ids" or "_slots" not in self.__dict__:
            raise AttributeError(name)
        self.__dict__["ids"] = ids = _arrow.numbers(self.__dict__["_slots"])
        return ids

    def with_regions(self, regions: Regions) -> HeldSubscription:
        """Return the same subscription at another place."""
        moved = object.__new__(HeldSubscription)
        moved.__dict__.update(self.__dict__, regions=regions)
        return moved


def _joined_min_moves(pieces: list[Subscriptions]) -> NDArray[np.float64] | None:
    if all(piece.min_move is None for piece in pieces):
        return None
    return np.concatenate([np.zeros(len(p)) if p.min_move is None else p.min_move for p in pieces])


def _joined_scoring(pieces: list[Subscriptions]) -> ScoreParameters | None:
    if all(piece.scoring is None for piece in pieces):
        return None
    return ScoreParameters.concat([ScoreParameters.none(len(p)) if p.scoring is None else p.scoring for p in pieces])
