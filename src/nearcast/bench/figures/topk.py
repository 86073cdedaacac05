"""The experiments of Skype (VLDB Journal 2018, section 8.1), over top-k subscriptions.

The paper's α is 1 minus our `text_weight`; where nothing is fixed it is drawn evenly, k is 20, and a subscription has 1
to 5 words of a message and its place. IGPT is our `skype`. AMP is the time of an arriving message but for searches of
the window, EMP that of the searches: expiries go through the buffers together with arrivals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nearcast.bench.data.workloads import Recipe
from nearcast.bench.figures.figure import SOURCE, WINDOW, Figure, Panel, Point, Series
from nearcast.bench.figures.topk_measurement import over_streams

_ALL = Panel("us_per_message", "µs per message", is_log=True)
_AMP = Panel("amp_us", "AMP: µs per message", is_log=True)
_EMP = Panel("emp_us", "EMP: µs per message", is_log=True)
_LENGTH = Panel("buffer_length", "messages in a buffer")
_SEARCHES = Panel("searches_per_1000", "searches per 1,000 messages")
_CHANGES = Panel("changes_per_message", "changes per message", is_common=True)
_SHARES = (0.2, 0.4, 0.6, 0.8, 1.0)
_KS = (10, 20, 30, 40, 50)
_CHECKED = "at each point all series deliver the same changes, and a sample has the top-k of a plain search"


def _figure(name: str, paper: str, title: str, x_label: str, points: Sequence[Point], **more: Any) -> Figure:
    sizes = {"subscriptions": 20_000, "messages": 2_000, "window": 20_000, "warm_up": 20_000}
    usual: dict[str, Any] = {"measure": over_streams, "checked": _CHECKED, **sizes}
    return Figure(name=name, paper=paper, title=title, x_label=x_label, points=points, **usual | more)


def _buffers(*names: str) -> dict[str, Any]:
    """Return the series of one index with these buffers."""
    series = [Series(name, f"skype:buffer={name}") for name in names]
    return {"series": series, "variants": [{"buffer": name} for name in names]}


def _systems(name: str, paper: str, over: str, x_label: str, points: Sequence[Point], **more: Any) -> Figure:
    """Return a figure that compares whole systems: ours, the paper's, and its best baseline."""
    series = [Series("trigger", "trigger"), Series("skype", "skype"), Series("ciq, kmax", "ciq:buffer=kmax")]
    usual = {"series": series, "panels": (_ALL, _AMP, _EMP, _CHANGES)}
    return _figure(name, paper, f"Arrivals in a full window, over {over}", x_label, points, **usual | more)


FIGURES = (
    _figure(
        "tune-kmax",
        "Fig. 10 a",
        "How long the buffers of kmax are",
        "kmax",
        [Point(n, options={"kmax": n}) for n in (20, 40, 60, 80, 100, 120)],
        **_buffers("kmax", "cskyband"),
        panels=(_ALL, _LENGTH, _SEARCHES),
    ),
    _figure(
        "tune-skyband",
        "Fig. 10 b",
        "How far below the k-th score the buffers of skyband reach",
        "share of the k-th score",
        [Point(ratio, options={"ratio": ratio}) for ratio in (0.75, 0.8, 0.85, 0.9, 0.95, 1.0)],
        **_buffers("skyband", "cskyband"),
        panels=(_ALL, _LENGTH, _SEARCHES),
    ),
    _figure(
        "groups",
        "Fig. 11",
        "Into how many groups subscriptions are divided by text weight",
        "groups",
        [Point(n, options={"groups": n}) for n in (5, 10, 20, 30, 40)],
        series=[Series("skype", "skype")],
        panels=(_AMP, Panel("candidates_per_message", "candidates per message")),
    ),
    _figure(
        "pruning",
        "Fig. 12",
        "What pruning whole groups saves",
        "data",
        [Point(SOURCE)],
        series=[Series("skype", "skype"), Series("ipt", "ipt")],
        panels=(_AMP, Panel("candidates_per_message", "candidates per message", is_log=True)),
    ),
    _figure(
        "dissemination",
        "Fig. 13",
        "Finding whom a message concerns",
        "data",
        [Point(SOURCE)],
        series=[Series(name, f"{name}:buffer=cskyband") for name in ("trigger", "skype", "ipt", "ciq")],
        variants=[{"buffer": "cskyband"}],
        panels=(
            _AMP,
            Panel("match_us", "µs per message in the index", is_log=True),
            Panel("index_bytes_per_subscription", "bytes of the index per subscription"),
        ),
    ),
    _figure(
        "re-evaluation",
        "Fig. 14 and Table 4",
        "Keeping buffers, and searching when they run dry",
        "data",
        [Point(SOURCE)],
        **_buffers("kmax", "skyband", "cskyband"),
        panels=(_EMP, _LENGTH, _SEARCHES, _ALL),
    ),
    _systems(
        "keywords",
        "Fig. 15",
        "the length of subscriptions",
        "words per subscription",
        [Point(n, Recipe(subscription_words=(n, n))) for n in (1, 2, 3, 4, 5)],
    ),
    _systems("k", "Fig. 16", "k", "k", [Point(k, Recipe(k=k)) for k in _KS]),
    _systems(
        "subscriptions",
        "Fig. 17",
        "the number of subscriptions",
        "subscriptions",
        [Point(None, share=share) for share in _SHARES],
    ),
    _systems(
        "window",
        "Fig. 18",
        "the length of the window",
        "messages in the window",
        [Point(WINDOW, window_share=share) for share in _SHARES],
    ),
    _systems(
        "zipf",
        "Fig. 19",
        "where the words of subscriptions come from",
        "words of subscriptions",
        [Point("from messages"), Point("Zipf", Recipe(zipf_words=True))],
    ),
    _systems(
        "time-window",
        "Fig. 20",
        "k, in a window of time",
        "k",
        [Point(k, Recipe(k=k, timed=True)) for k in _KS],
    ),
)
