"""Compares what engines deliver over a life: hashes of everything, and what `scan` says of some subscriptions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from nearcast.bench.answers import AnswersDiffer
from nearcast.deliveries import Deliveries

if TYPE_CHECKING:
    from nearcast.deliveries import Piece

_COMPARED = ["subscription_id", "message_id", "change", "score"]


class LifePart(NamedTuple):
    """What was delivered in a timestamp: a hash of all up to its end, and the rows of some subscriptions."""

    name: str
    n: int
    hash: str
    sampled: pa.Table


@dataclass
class LifeDigest:
    """What an engine delivers, part by part; rows of the subscriptions in `sample` are kept."""

    sample: pa.Array | None = None
    parts: list[LifePart] = field(default_factory=list)
    n_deliveries: int = 0
    _n_before: int = 0
    _hash: hashlib.blake2b = field(default_factory=lambda: hashlib.blake2b(digest_size=8))
    _sampled: list[pa.Table] = field(default_factory=list)

    def add(self, pieces: Sequence[Piece]) -> None:
        """Take in what a call delivered; engines that deliver the same are given the same calls."""
        told = Deliveries(pieces).to_table().select(_COMPARED).combine_chunks()
        self.n_deliveries += told.num_rows
        self._hash.update(_bytes_of(told))
        self._sampled.append(told.slice(0, 0) if self.sample is None else told.filter(pc.is_in(told[0], self.sample)))

    def end_part(self, name: str) -> None:
        """Begin another part."""
        sampled = pa.concat_tables(self._sampled).combine_chunks()
        n = self.n_deliveries - self._n_before
        self.parts.append(LifePart(name, n, self._hash.hexdigest(), sampled))
        self._sampled, self._n_before = [], self.n_deliveries

    def must_equal(self, spec: str, other: LifeDigest, other_spec: str) -> None:
        """Raise `AnswersDiffer` unless all parts that both have are the same."""
        for ours, theirs in zip(self.parts, other.parts, strict=False):
            if ours.hash != theirs.hash:
                raise AnswersDiffer(
                    f"{ours.name}: {spec} delivers {ours.n:,} changes that are not the {theirs.n:,} of {other_spec};"
                    " no times are reported"
                )

    def must_have(self, spec: str, plain: LifeDigest) -> None:
        """Raise `AnswersDiffer` unless the sampled rows are all that `scan` delivers to these subscriptions alone."""
        for ours, theirs in zip(self.parts, plain.parts, strict=False):
            if not ours.sampled.equals(theirs.sampled):
                raise AnswersDiffer(
                    f"{ours.name}: {spec} delivers {ours.sampled.num_rows:,} changes to the sampled subscriptions that"
                    f" are not the {theirs.sampled.num_rows:,} of scan; no times are reported"
                )


def _bytes_of(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()
