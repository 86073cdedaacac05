"""A hash of what top-k subscriptions are delivered, to compare indexes: all must deliver the same changes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.bench.answers import AnswersDiffer
from nearcast.bench.timing import spread
from nearcast.deliveries import ChangeDeliveries

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.bench.streams import TopkStream
    from nearcast.deliveries import Piece
    from nearcast.engine import State

#: Subscriptions whose top-k is compared with a plain search of the window.
SAMPLE = 50
_PLAIN = "scan:messages=scan"


@dataclass
class DeliveryDigest:
    """A running hash of delivered changes in order; `parts` are (name, changes so far, hash so far)."""

    parts: list[tuple[str, int, str]] = field(default_factory=list)
    n_changes: int = 0
    _hash: hashlib.blake2b = field(default_factory=lambda: hashlib.blake2b(digest_size=8))

    def add(self, pieces: Sequence[Piece]) -> int:
        """Hash what a call delivered; return how many changes that were."""
        before = self.n_changes
        for piece in pieces:
            if not isinstance(piece, ChangeDeliveries):
                continue
            self.n_changes += len(piece)
            self._hash.update(_rows_of(piece).data)
        return self.n_changes - before

    def end_part(self, name: str) -> None:
        """Note how far the hash has come."""
        self.parts.append((name, self.n_changes, self.hash))

    @property
    def hash(self) -> str:
        """Return the hash of all changes so far."""
        return self._hash.hexdigest()

    def must_equal(self, spec: str, other: DeliveryDigest, other_spec: str) -> None:
        """Raise `AnswersDiffer`, with the first part that differs, unless both are of the same changes."""
        for (name, ours, our_hash), (_, theirs, their_hash) in zip(self.parts, other.parts, strict=True):
            if our_hash != their_hash:
                raise AnswersDiffer(
                    f"{name}: {spec} delivers other changes than {other_spec}"
                    f" ({ours:,} and {theirs:,} up to there); no times are reported"
                )


def _rows_of(piece: ChangeDeliveries) -> NDArray[np.uint8]:
    """Return the changes row by row, so that it does not matter in how many pieces they came."""
    columns: dict[str, NDArray[Any]] = {
        "step": piece.steps,
        "slot": piece.slots,
        "message": piece.message_numbers,
        "score": piece.scores,
        "rank": piece.ranks,
        "enters": piece.enters,
    }
    rows = np.zeros(len(piece), [(name, column.dtype) for name, column in columns.items()])
    for name, column in columns.items():
        rows[name] = column
    return rows.view(np.uint8)


def check_sample(stream: TopkStream, state: State, spec: str) -> int:
    """Compare the top-k of some subscriptions with a plain search of the window; return how many there were.

    Raises `AnswersDiffer` where ids or scores are not the same.
    """
    from nearcast.engine import Publish, Subscribe, step

    assert state.topk is not None
    last, live = stream.messages.num_rows, max(state.topk.n_messages, 1)
    plain = stream.new_state(_PLAIN, type(stream.window)(live, None))
    assert plain.topk is not None
    for portion in stream.portions(plain, last - live, last):
        step(plain, Publish(portion))
    n = min(SAMPLE, len(stream.subscriptions))
    sample = stream.subscriptions.take(spread(len(stream.subscriptions), n))
    step(plain, Subscribe(sample))
    for subscription_id in sample.ids.to_pylist():
        found = []
        for each in (state, plain):
            assert each.topk is not None
            rows, scores = each.topk.current(each.slot(subscription_id))
            found.append(list(zip(each.topk.names(rows)[0].tolist(), scores.tolist(), strict=True)))
        if found[0] != found[1]:
            raise AnswersDiffer(
                f"subscription {subscription_id!r}: {spec} keeps {len(found[0])} messages that are not the"
                f" {len(found[1])} best of the window; no times are reported"
            )
    return n
