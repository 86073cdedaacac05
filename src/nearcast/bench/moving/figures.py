"""The experiments of the AP-Tree paper on moving subscriptions (VLDB Journal, section 5.2), and one with taxis.

IMM is the time of a message: matching it, and filing it where it can be found while it lives. MI is the filing alone;
an index that files a message as a by-product of matching it has that in IMM only. MSP is the time of a report: changing
the place of the subscription (SLU), finding what came in and went out, and its share of building parts of a tree anew
that have drifted (`rebuild_us` in the CSV). The series are the indexes of the paper, each
with its own store of live messages, and `trigger` with `cells`.

A figure with another measuring function is added to `FIGURES`, and what that one measures on to `DATA_OF`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nearcast.bench.figures.boolean_parts import named
from nearcast.bench.figures.figure import Figure, Measure, Panel, Point, Series
from nearcast.bench.moving.measurement import BUDGET, CHECKED, MovingData, over_settings
from nearcast.bench.moving.protocol_figures import PROTOCOL_FIGURES, ProtocolData
from nearcast.bench.moving.protocol_figures import run as run_protocols
from nearcast.bench.moving.settings import MAPS, TAXIS, WORD_SETS

_IMM = Panel("imm_us", "IMM, µs per message", is_log=True)
_MI = Panel("mi_us", "MI, µs per message", is_log=True)
_SLU = Panel("slu_us", "SLU, µs per move", is_log=True)
_MSP = Panel("msp_us", "MSP, µs per move", is_log=True)
_MSP_TOTAL = Panel("msp_s_per_timestamp", "MSP, s per timestamp", is_log=True)
_BYTES = Panel("bytes_per_subscription", "bytes per subscription, messages included")

_VARIANTS = ("ap+-tree", "ap+k-tree", "ap+s-tree")
_RIVALS = named("trigger", "ap+-tree", "iq+-tree", "rq+-tree", "ss-index", "kk-index")
_MOBILITIES = (0.1, 0.2, 0.4, 0.6, 0.8)
_SPEEDS = (0.5, 1, 2, 3, 4)
_AREAS_PER_CENT = (0.000001, 0.0001, 0.01, 1, 10)
#: Of 0.5 to 2.5 million subscriptions and as many messages, beside the million of the other figures.
_SHARES = (0.5, 1, 1.5, 2, 2.5)


def _figure(
    name: str,
    paper: str,
    title: str,
    x_label: str,
    points: Sequence[Point],
    *,
    series: Sequence[Series] = _RIVALS,
    panels: Sequence[Panel] = (_MSP_TOTAL, _MSP, _IMM),
    **more: Any,
) -> Figure:
    return Figure(
        name=name,
        paper=f"AP-Tree {paper}" if paper.startswith("Fig") else paper,
        title=title,
        x_label=x_label,
        points=points,
        series=series,
        panels=panels,
        measure=over_settings,
        subscriptions=20_000,
        messages=20_000,
        checked=CHECKED,
        budget=BUDGET,
        **more,
    )


INDEX_FIGURES = (
    _figure(
        "19",
        "Fig. 19",
        "Filing a message, and changing the place of a subscription",
        "data",
        [Point(None)],
        panels=(_MI, _SLU, _IMM, _MSP),
    ),
    _figure(
        "20",
        "Fig. 20",
        "Messages in the AP+-Tree, or indexed apart by words or space first",
        "data",
        [Point(None)],
        series=named("trigger", *_VARIANTS),
        panels=(_IMM, _MSP),
    ),
    _figure(
        "21",
        "Fig. 21",
        "Words and maps",
        "data",
        [Point(None, options={"words": words, "roads": net}) for words in WORD_SETS.values() for net in MAPS.values()],
        panels=(_IMM, _MSP, _BYTES),
    ),
    _figure(
        "22",
        "Fig. 22",
        "How many move at each timestamp",
        "mobility, %",
        [Point(share * 100, options={"mobility": share}) for share in _MOBILITIES],
    ),
    _figure(
        "23",
        "Fig. 23",
        "How fast they move",
        "velocity, × medium",
        [Point(speed, options={"speed": speed}) for speed in _SPEEDS],
    ),
    _figure(
        "24",
        "Fig. 24",
        "How large regions are",
        "area, % of the map",
        [Point(area, options={"region_area": area / 100}) for area in _AREAS_PER_CENT],
        is_x_log=True,
    ),
    _figure(
        "25",
        "Fig. 25",
        "How many there are; a tenth of the messages arrives at each timestamp",
        "× subscriptions and messages",
        [Point(share, share=share) for share in _SHARES],
    ),
    _figure(
        "taxis",
        "not in the paper",
        "Subscribers in taxis of San Francisco, recorded",
        "data",
        [Point(None, options={"replay": TAXIS})],
        panels=(_IMM, _MSP, _SLU, _BYTES),
    ),
)

FIGURES = (*INDEX_FIGURES, *PROTOCOL_FIGURES)
#: Measuring function → what makes the data it takes.
DATA_OF: dict[Measure, Callable[[MovingData], Any]] = {
    over_settings: lambda data: data,
    run_protocols: lambda data: ProtocolData(
        data.words, data.places, data.setting.seed, {"source": data.setting.label}
    ),
}
