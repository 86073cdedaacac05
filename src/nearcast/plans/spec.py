"""The names of plans: `hash`, `prefix`, `space-first(4x8)`."""

from __future__ import annotations

import re
from typing import NamedTuple

from nearcast.errors import InvalidInput
from nearcast.plans.base import MOST_PARTITIONS_WITH_COPIES

PLAN_NAMES = ("hash", "location", "keyword", "prefix", "space-first", "keyword-first", "trigger")
_HYBRIDS = ("space-first", "keyword-first")
_WITH_COPIES = ("keyword", "prefix", *_HYBRIDS)
_FORM = re.compile(r"\s*([a-z-]+)\s*(?:\(\s*(\d+)\s*[x×]\s*(\d+)\s*\))?\s*")


class Spec(NamedTuple):
    """A plan by name; a hybrid makes `first` groups, each of `second` partitions. Both are 1 for the others."""

    name: str
    first: int = 1
    second: int = 1


def parse_spec(spec: str, partitions: int | None = None) -> Spec:
    """Return what a spelled plan asks for; `InvalidInput` if there is no such plan or it does not fit `partitions`.

    A hybrid without numbers is given the two factors of `partitions` that lie nearest to each other.

    >>> parse_spec("space-first(4x8)", 32)
    Spec(name='space-first', first=4, second=8)
    """
    form = _FORM.fullmatch(spec)
    if form is None or form[1] not in PLAN_NAMES:
        raise InvalidInput(f"plan is {spec!r}; expected one of {', '.join(PLAN_NAMES)}", field="plan")
    name, first, second = form[1], form[2], form[3]
    if partitions is not None:
        _check_partitions(name, partitions)
    if first is not None and name not in _HYBRIDS:
        raise InvalidInput(f"plan is {spec!r}, but {name} takes no numbers; write {name}", field="plan")
    if name not in _HYBRIDS:
        return Spec(name)
    if first is None:
        return Spec(name, *_factors(partitions or 1))
    if int(first) * int(second) != (partitions if partitions is not None else int(first) * int(second)):
        raise InvalidInput(
            f"plan is {spec!r} for {partitions} partitions; expected two numbers whose product is {partitions}",
            field="plan",
        )
    if int(first) * int(second) == 0:
        raise InvalidInput(f"plan is {spec!r}; expected numbers above 0", field="plan")
    return Spec(name, int(first), int(second))


def _check_partitions(name: str, partitions: int) -> None:
    if partitions < 1:
        raise InvalidInput(f"partitions are {partitions}; expected 1 or more", field="partitions")
    if name in _WITH_COPIES and partitions > MOST_PARTITIONS_WITH_COPIES:
        raise InvalidInput(
            f"plan {name} with {partitions} partitions; plans with copies allow {MOST_PARTITIONS_WITH_COPIES} at most:"
            " use fewer, or the plan trigger",
            field="partitions",
        )


def _factors(partitions: int) -> tuple[int, int]:
    first = max(n for n in range(1, int(partitions**0.5) + 1) if partitions % n == 0)
    return first, partitions // first
