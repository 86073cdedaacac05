"""Tells whether sizes that were sampled during a soak grew: their slope after the warm-up, against their mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

#: A size that grows by less than this share of its mean, over the samples that count, is flat.
FLAT = 0.05
#: With fewer samples nothing is told.
_FEWEST = 3


class Growth(NamedTuple):
    """MB an hour of each size, under its name with `_per_hour`, and the names of the sizes that grew."""

    per_hour: dict[str, float]
    grown: list[str]


def growth_of(samples: Sequence[dict[str, Any]], names: Sequence[str], warm_share: float) -> Growth | None:
    """Return how the named sizes grew after a share of the samples, None if too few are left.

    A sample has `seconds`, and the sizes in MB. One that was not known at some time is left out.
    """
    late = list(samples)[int(len(samples) * warm_share) :]
    if len(late) < _FEWEST:
        return None
    at = np.array([each["seconds"] for each in late])
    found = Growth({}, [])
    for name in names:
        if any(each[name] is None for each in late):
            continue
        size = np.array([each[name] for each in late])
        slope = float(np.polyfit(at, size, 1)[0])
        found.per_hour[f"{name}_per_hour"] = round(slope * 3600, 2)
        if slope * (at[-1] - at[0]) > FLAT * float(size.mean()):
            found.grown.append(name)
    return found
