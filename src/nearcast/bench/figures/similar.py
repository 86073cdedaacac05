"""The experiments of STAMP (ICDE 2015, section VII-C), over similar subscriptions.

δ is our `text_weight` and τ our `threshold`. Where nothing is fixed, both are drawn at random as in the paper: δ from 0
to 1, τ from 0.5 to 1, 1 to 5 words. To the indexes of the paper come `trigger`, `inverted` and `scan`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nearcast.bench.data.workloads import Recipe
from nearcast.bench.figures.figure import Figure, Panel, Point, Series
from nearcast.bench.figures.measurement import over_inserts, over_points
from nearcast.similarity import SIMILARITY_NAMES

_TIME = Panel("ms_per_message", "ms per message", is_log=True)
_RESULTS = Panel("matches_per_message", "answers per message", is_common=True)
_ACCESSED = Panel("accessed_share", "accessed / subscriptions", is_log=True)
_VERIFIED = Panel("verified_share", "verified / subscriptions", is_log=True)
_BYTES = Panel("bytes_per_subscription", "bytes per subscription")

#: Ours, the paper's, its baselines, and two that use neither prefix nor place.
_INDEXES = tuple(
    Series(name, name) for name in ("trigger", "stamp", "rt++-similar", "ir-tree-100", "ir-tree-1", "inverted", "scan")
)
_FILTERS = tuple(
    Series(filters.upper(), f"stamp:filters={filters}")
    for filters in ("sp", "sp+hi", "sp+rp+hi", "sp+st+hi", "sp+rp+st+hi")
)
_DELTA, _TAU = "text weight δ", "threshold τ"


def _at_delta(delta: float) -> Point:
    return Point(delta, Recipe(text_weight=(delta, delta)))


_DELTAS = tuple(map(_at_delta, (0.1, 0.3, 0.5, 0.7, 0.9)))
_TAUS = tuple(Point(tau, Recipe(threshold=(tau, tau))) for tau in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0))


def _filters(name: str, over: str, x_label: str, points: Sequence[Point]) -> Figure:
    """Return the figure that compares the filters: Fig. 9 is its time, Fig. 10 the rest."""
    return Figure(
        name=name,
        paper="Fig. 9 and 10",
        title=f"What each filter saves, over {over}",
        x_label=x_label,
        points=points,
        series=_FILTERS,
        panels=(_TIME, _RESULTS, _ACCESSED, _VERIFIED),
        measure=over_points,
    )


def _against(name: str, over: str, x_label: str, points: Sequence[Point], **more: Any) -> Figure:
    """Return a figure that compares `stamp` with the baselines."""
    usual: dict[str, Any] = {"paper": "Fig. 11", "panels": (_TIME, _RESULTS), "measure": over_points}
    title = f"Against the baselines, over {over}"
    return Figure(name=name, title=title, x_label=x_label, points=points, series=_INDEXES, **usual | more)


FIGURES = (
    Figure(
        name="cost-model",
        paper="Fig. 8",
        title="Verify at once, always filter further, or let a cost model choose",
        x_label=_DELTA,
        points=(
            Point("0 to 1"),
            *(Point(f"{delta}", Recipe(text_weight=(delta, delta))) for delta in (0.2, 0.5, 0.8)),
        ),
        series=(
            Series("SP", "stamp:filters=sp+hi"),
            Series("ST", "stamp:filters=sp+st+hi,cost=always"),
            Series("cost model", "stamp:filters=sp+st+hi,cost=model"),
        ),
        panels=(
            Panel("ms_per_message", "ms per message"),
            Panel("listed_tokens", "tokens in prefixes per subscription"),
            _BYTES,
        ),
        measure=over_points,
    ),
    _filters("filters-delta", "the text weight", _DELTA, _DELTAS),
    _filters("filters-tau", "the threshold", _TAU, _TAUS),
    _against(
        "fan-out",
        "the fan-out of the R-tree",
        "fan-out",
        [Point(n, options={"fan_out": n}) for n in (100, 500, 1_000, 5_000, 10_000, 50_000)],
        panels=(_TIME,),
        is_x_log=True,
    ),
    _against("delta", "the text weight", _DELTA, [_at_delta(0.0), *_DELTAS, _at_delta(1.0)]),
    _against("tau", "the threshold", _TAU, _TAUS),
    _against(
        "message-words",
        "the length of messages",
        "words per message",
        [Point(n, Recipe(message_words=(n, n))) for n in (1, 10, 20, 30, 40, 50)],
    ),
    _against(
        "subscription-words",
        "the length of subscriptions",
        "words per subscription",
        [Point(n, Recipe(subscription_words=(n, n))) for n in (1, 2, 3, 4, 5)],
    ),
    _against(
        "updates",
        "growth by a tenth at a time",
        "% of the first subscriptions inserted since",
        [Point(percent) for percent in (10, 20, 30, 40, 50)],
        paper="Fig. 12",
        panels=(Panel("update_us", "µs per inserted subscription", is_log=True), _TIME),
        measure=over_inserts,
        is_by_point=False,
        subscriptions=50_000,
    ),
    _against(
        "scaling",
        "the number of subscriptions",
        "subscriptions",
        [Point(None, share=share) for share in (0.2, 0.4, 0.6, 0.8, 1.0)],
        paper="Fig. 13 a to c",
        panels=(_TIME, _BYTES, Panel("build_s", "seconds to build", is_log=True)),
    ),
    _against(
        "functions",
        "the five text functions",
        "text function",
        [Point(name, Recipe(similarity=name)) for name in SIMILARITY_NAMES],
        paper="Fig. 13 d",
    ),
)
