"""The experiments of Skype on distribution (VLDB Journal 2018, section 8.2), over top-k subscriptions.

Partitions are the paper's subscription bolts, 32 where nothing is said. Throughput is messages by the CPU seconds of
the busiest partition, as if each had a core; communication is counted in tuples, as in the paper. The paper varies data
sets too; `--source` takes another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nearcast.bench.data.workloads import Recipe
from nearcast.bench.figures.figure import Figure, Panel, Point, Series
from nearcast.bench.spark.plans import over_plans

_RATE = Panel("messages_per_s", "messages/s with a core per partition")
_TUPLES = Panel("tuples_per_message", "tuples per message")
_WITH_HOPS = Panel("tuples_with_hops", "tuples and hops to homes per message")
_COPIES = Panel("replication", "copies per subscription")
_BALANCE = Panel("balance", "busiest partition / mean")
_CHECKED = "at each point all plans deliver the same changes, batch by batch"


def _series(*names: str) -> list[Series]:
    return [Series(name, name) for name in names]


def _figure(name: str, paper: str, title: str, x_label: str, points: Sequence[Point], **more: Any) -> Figure:
    sizes = {"subscriptions": 20_000, "messages": 2_000, "window": 20_000, "warm_up": 2_000}
    usual: dict[str, Any] = {
        "series": _series("hash", "location", "prefix", "trigger"),
        "panels": (_RATE, _TUPLES, _WITH_HOPS, _COPIES),
        "measure": over_plans,
        "checked": _CHECKED,
        **sizes,
    }
    return Figure(name=name, paper=paper, title=title, x_label=x_label, points=points, **usual | more)


FIGURES = (
    _figure(
        "plans",
        "Fig. 21 and Table 5",
        "How plans spread top-k subscriptions over 32 partitions",
        "partitions",
        [Point("32", options={"partitions": 32})],
        series=_series("hash", "location", "keyword", "prefix", "trigger"),
        panels=(_RATE, _TUPLES, _WITH_HOPS, _COPIES, _BALANCE),
    ),
    _figure(
        "partitions",
        "Fig. 22",
        "Over the number of partitions",
        "partitions",
        [Point(n, options={"partitions": n}) for n in (4, 8, 16, 32)],
        panels=(_RATE, _TUPLES),
    ),
    _figure("k", "Fig. 23", "Over k", "k", [Point(k, Recipe(k=k)) for k in (10, 20, 30, 40, 50)], panels=(_RATE,)),
    _figure(
        "subscriptions",
        "Fig. 24",
        "Over the number of subscriptions",
        "subscriptions",
        [Point(None, share=share) for share in (0.25, 0.5, 0.75, 1.0)],
        panels=(_RATE,),
    ),
    _figure(
        "hybrids",
        "Fig. 25 and 26",
        "Hybrids of place and words, 32 partitions",
        "l1 x l2",
        [Point(f"{n}x{32 // n}", options={"levels": f"{n}x{32 // n}"}) for n in (1, 2, 4, 8, 16, 32)],
        series=_series("space-first", "keyword-first", "location", "prefix"),
        panels=(_RATE, _TUPLES, _WITH_HOPS, _COPIES),
    ),
)
