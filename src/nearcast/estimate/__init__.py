"""Estimates how many messages a day a subscription would get.

A sample of messages is matched exactly as an index would match it, and the share that matched is carried over to a day
by the times of the sample. For `Similar` the same sample answers for other settings of the two sliders as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.columns import NO_TIME, WITHIN, Messages, Subscriptions
from nearcast.indexes import create
from nearcast.indexes.shared.scores import needs_totals, score_parts, scored_of, totals_for
from nearcast.tables import Rejected

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.geo import Space

#: Settings of the sliders that a table shows beside the subscription's own.
TEXT_WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)

_DAY = 86_400_000_000
#: Two-sided 95 % of the normal distribution.
_Z = 1.959964


@dataclass(frozen=True)
class Sliders:
    """How many messages of the sample match under other settings: `matches[i][j]` for weight i and threshold j."""

    text_weights: tuple[float, ...]
    thresholds: tuple[float, ...]
    matches: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Estimate:
    """What a subscription would get, judged by a sample.

    `matches` of `messages` reached it. `messages_per_day` comes from the times of the sample or was given; where it is
    None, so is everything per day. `share_low` and `share_high` are the limits of a 95 % confidence interval.
    `rejected` lists the rows of the sample that are no messages.
    """

    messages: int
    matches: int
    messages_per_day: float | None
    sliders: Sliders | None = None
    rejected: Rejected = field(default_factory=Rejected, compare=False)

    @property
    def share(self) -> float:
        """Return the share of messages that match, 0 for an empty sample."""
        return self.matches / self.messages if self.messages else 0.0

    @property
    def share_low(self) -> float:
        """Return the lower limit of the share."""
        return _wilson(self.matches, self.messages)[0]

    @property
    def share_high(self) -> float:
        """Return the upper limit of the share."""
        return _wilson(self.matches, self.messages)[1]

    @property
    def per_day(self) -> float | None:
        """Return how many messages a day are to be expected."""
        return self._a_day(self.share)

    def _a_day(self, share: float) -> float | None:
        return None if self.messages_per_day is None else share * self.messages_per_day

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as JSON-ready values."""
        found: dict[str, Any] = {
            "messages": self.messages,
            "matches": self.matches,
            "share": self.share,
            "share_low": self.share_low,
            "share_high": self.share_high,
            "messages_per_day": self.messages_per_day,
            "per_day": self.per_day,
            "per_day_low": self._a_day(self.share_low),
            "per_day_high": self._a_day(self.share_high),
            "rejected": len(self.rejected),
        }
        if self.sliders is not None:
            found["sliders"] = {
                "text_weights": list(self.sliders.text_weights),
                "thresholds": list(self.sliders.thresholds),
                "matches": [list(row) for row in self.sliders.matches],
            }
        return found

    def __str__(self) -> str:
        lines = [self._sentence()]
        if self.sliders is not None:
            lines += ["", *self._table(self.sliders)]
        return "\n".join(lines)

    def _sentence(self) -> str:
        of = f"{self.matches:,} of {self.messages:,} messages of the sample match"
        if not self.messages:
            return "the sample is empty: it tells nothing"
        if self.messages_per_day is None:
            return f"{of}; without their times, or how many come a day, there is no telling how many a day that are"
        low, high = (_about(self._a_day(share) or 0.0) for share in (self.share_low, self.share_high))
        return f"about {_about(self.per_day or 0.0)} messages a day (95 %: {low} to {high}); {of}"

    def _table(self, sliders: Sliders) -> list[str]:
        unit = "matches in the sample" if self.messages_per_day is None else "messages a day"
        lines = [f"{unit}, by text_weight (down) and threshold (across):"]
        lines.append(" " * 6 + "".join(f"{threshold:>9g}" for threshold in sliders.thresholds))
        for weight, row in zip(sliders.text_weights, sliders.matches, strict=True):
            shown = (self._a_day(count / max(self.messages, 1)) for count in row)
            cells = (_about(each) if each is not None else f"{n:,}" for each, n in zip(shown, row, strict=True))
            lines.append(f"{weight:>6g}" + "".join(f"{cell:>9}" for cell in cells))
        return lines


def _about(value: float) -> str:
    """Return a number with two digits that count: an estimate has no more."""
    if value == 0:
        return "0"
    digits = max(0, 1 - math.floor(math.log10(value)))
    return f"{round(value, 1 - math.floor(math.log10(value))):,.{digits}f}"


def _wilson(matches: int, messages: int) -> tuple[float, float]:
    """Return the Wilson score interval of a share; it makes sense for few matches and for none."""
    if not messages:
        return 0.0, 1.0
    share, n = matches / messages, messages
    middle = (share + _Z * _Z / (2 * n)) / (1 + _Z * _Z / n)
    half = _Z * math.sqrt(share * (1 - share) / n + _Z * _Z / (4 * n * n)) / (1 + _Z * _Z / n)
    return max(0.0, min(middle - half, share)), min(1.0, max(middle + half, share))


def estimate(
    asked: Subscriptions,
    messages: Messages,
    weights: NDArray[np.float64],
    space: Space,
    *,
    per_day: float | None,
    rejected: Rejected,
) -> Estimate:
    """Estimate for the one subscription of `asked`; `weights` is by term, `per_day` messages a day where known."""
    rate = per_day if per_day is not None else _messages_per_day(messages.time)
    if asked.kind[0] == WITHIN:
        index = create("scan", space)
        index.insert(asked)
        return Estimate(len(messages), len(index.match(messages).slots), rate, rejected=rejected)
    text, near = _parts(asked, messages, weights, space)
    scoring = asked.scoring
    assert scoring is not None
    weight, threshold = float(scoring.text_weight[0]), float(scoring.threshold[0])
    matches = int((_scores(weight, text, near) >= threshold).sum())
    return Estimate(len(messages), matches, rate, _sliders(text, near, weight, threshold), rejected)


def _messages_per_day(time: NDArray[np.int64]) -> float | None:
    """Return the rate that the times of a sample tell: gaps between messages, not messages, fill the span."""
    given = time[time != NO_TIME]
    if len(given) < 2 or len(given) < len(time):
        return None
    span = int(given.max()) - int(given.min())
    return (len(given) - 1) * _DAY / span if span else None


def _parts(
    asked: Subscriptions, messages: Messages, weights: NDArray[np.float64], space: Space
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the text score and the nearness of every message."""
    messages = messages.for_kernels()
    text, near = np.empty(len(messages)), np.empty(len(messages))
    has = np.zeros(int(asked.code.max(initial=0)) + 1, np.uint8)
    totals = totals_for(messages, needed=needs_totals(asked))
    columns = (messages.term_start, messages.terms, totals, messages.box)
    score_parts(scored_of(asked, weights), 0, *columns, space.is_earth, has, text, near)
    return text, near


def _sliders(text: NDArray[np.float64], near: NDArray[np.float64], weight: float, threshold: float) -> Sliders:
    weights, thresholds = _with_own(TEXT_WEIGHTS, weight), _with_own(THRESHOLDS, threshold)
    matches = tuple(tuple(int((_scores(each, text, near) >= limit).sum()) for limit in thresholds) for each in weights)
    return Sliders(weights, thresholds, matches)


def _scores(text_weight: float, text: NDArray[np.float64], near: NDArray[np.float64]) -> NDArray[np.float64]:
    # What `similarity.score_of` computes for one message, in the same order of operations.
    return text_weight * text + (1.0 - text_weight) * near


def _with_own(usual: Sequence[float], own: float) -> tuple[float, ...]:
    return tuple(sorted({*usual, own}))
