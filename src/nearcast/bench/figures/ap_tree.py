"""The experiments of the AP-Tree paper (VLDB Journal, section 5.1).

Regions take up 0.01 % to 1 % of the space unless a figure says otherwise, and subscriptions have 1 to 5 words. The
paper's f is the option `fan_out` of `ap-tree`, θp is `leaf`, θKL `divergence`, and AP-Tree-NR is `rebuild=never`. To
the indexes of the paper come `trigger` and `fast`. Where the paper lets the tweets' time bring change, here what
subscriptions ask for moves from west to east and from some words to others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from nearcast.bench.data.workloads import Recipe
from nearcast.bench.figures.boolean_parts import (
    BUILD,
    BYTES,
    CANDIDATES,
    MATCHES,
    TIME,
    USUAL,
    VERIFIED,
    boolean_figure,
    named,
)
from nearcast.bench.figures.figure import SOURCE, Figure, Panel, Point, Series
from nearcast.bench.figures.race import race_after_changes, race_along_messages

_INSERT = Panel("insert_us", "µs per inserted subscription", is_log=True)
_REMOVE = Panel("remove_us", "µs per removed subscription", is_log=True)

_AP = named("ap-tree")
_BEST = named("trigger", "ap-tree", "iq-tree", "rq-tree", "fast")
_EVERY = named("trigger", "ap-tree", "iq-tree", "rq-tree", "rt++-tree", "trie-quad", "fast")
_VARIANTS = (
    Series("heuristic", "ap-tree:keyword_partition=heuristic"),
    Series("dp", "ap-tree:keyword_partition=dp"),
    Series("keyword priority", "ap-tree:priority=keyword"),
    Series("space priority", "ap-tree:priority=space"),
    *named("trie-quad"),
)
_REBUILDS = (
    *named("trigger"),
    Series("ap-tree", "ap-tree:rebuild=adaptive"),
    Series("ap-tree-nr", "ap-tree:rebuild=never"),
    *named("iq-tree", "rq-tree", "fast"),
)

_FAN_OUTS, _LEAVES = (50, 100, 200, 400, 800), (5, 10, 20, 40, 100, 200, 400)
_DIVERGENCES = (0.0001, 0.001, 0.01, 0.1, 0.5)
#: Indexes may be built anew when as many have come as there were: more than half are there at first.
_FIRST_PER_CENT = (60, 70, 80, 90)
#: Data files; one that is not there is left out. Generated data needs none.
_SOURCES = ("synthetic", "poi_us_venues", "poi_geonames_cities", "msg_boston311", "msg_airbnb_listings")
_SMALL_REGIONS = Recipe(region_area=(0.00001, 0.00001))
_DRIFTING = replace(USUAL, drifting=True)
_HISTORY = 5_000
_PER_CENT_OF_SPACE = (0.000001, 0.0001, 0.01, 0.1, 1, 10)


def _figure(
    name: str, paper: str, title: str, x_label: str, points: Sequence[Point], series: Sequence[Series], **more: Any
) -> Figure:
    """Return a figure whose indexes know messages of the past, as in the paper."""
    return boolean_figure(name, paper, title, x_label, points, series, history=_HISTORY, **more)


def _of_area(per_cent: float) -> Recipe:
    return Recipe(region_area=(per_cent / 100, per_cent / 100))


_TUNING = (
    _figure(
        "fan-out",
        "AP-Tree Fig. 10 a",
        "Into how many children a node of the AP-Tree is divided",
        "fan-out f",
        [Point(n, USUAL, options={"fan_out": n}) for n in _FAN_OUTS],
        _AP,
        panels=(TIME, CANDIDATES, BUILD, BYTES),
        is_x_log=True,
    ),
    _figure(
        "leaf",
        "AP-Tree Fig. 10 b",
        "How many subscriptions a leaf of the AP-Tree holds",
        "leaf θp",
        [Point(n, USUAL, options={"leaf": n}) for n in _LEAVES],
        _AP,
        panels=(TIME, CANDIDATES, BUILD, BYTES),
        is_x_log=True,
    ),
    _figure(
        "ap-variants",
        "AP-Tree Fig. 11",
        "Optimal or heuristic keyword partition, and one kind of partition first",
        "data",
        [Point(SOURCE, _SMALL_REGIONS)],
        _VARIANTS,
        panels=(TIME, CANDIDATES, BUILD, BYTES),
    ),
)

_RACES = (
    _figure(
        "data-sets",
        "AP-Tree Fig. 12",
        "All indexes on several data sets",
        "data",
        [Point(SOURCE, USUAL, source=name) for name in _SOURCES],
        _EVERY,
        panels=(TIME, BUILD, BYTES, CANDIDATES),
    ),
    _figure(
        "keywords",
        "AP-Tree Fig. 13",
        "Over the length of subscriptions",
        "words per subscription",
        [Point(n, replace(USUAL, subscription_words=(n, n))) for n in (1, 2, 3, 4, 5)],
        _BEST,
    ),
    _figure(
        "range-size",
        "AP-Tree Fig. 14",
        "Over the size of regions",
        "% of the space that a region takes up",
        [Point(per_cent, _of_area(per_cent)) for per_cent in _PER_CENT_OF_SPACE],
        _EVERY,
        panels=(TIME, CANDIDATES, VERIFIED, replace(MATCHES, is_log=True)),
        is_x_log=True,
    ),
    _figure(
        "subscriptions",
        "AP-Tree Fig. 15",
        "Over the number of subscriptions",
        "subscriptions",
        [Point(None, USUAL, share=share) for share in (0.05, 0.25, 0.5, 0.75, 1.0)],
        _EVERY,
        panels=(TIME, CANDIDATES, BUILD, BYTES),
        subscriptions=200_000,
    ),
)

_CHANGES = (
    _figure(
        "divergence",
        "AP-Tree Fig. 16",
        "How much a node of the AP-Tree may differ before it is built again",
        "divergence θKL",
        [
            Point(value, _DRIFTING, share=_FIRST_PER_CENT[0] / 100, options={"divergence": value})
            for value in _DIVERGENCES
        ],
        _AP,
        panels=(TIME, _INSERT, _REMOVE),
        measure=race_after_changes,
        is_x_log=True,
    ),
    _figure(
        "drift",
        "AP-Tree Fig. 17",
        "Built from the first subscriptions, the others inserted: what they ask for changes",
        "% of the subscriptions there were when it was built",
        [Point(per_cent, _DRIFTING, share=per_cent / 100) for per_cent in _FIRST_PER_CENT],
        _REBUILDS,
        panels=(TIME, CANDIDATES, _INSERT, _REMOVE),
        measure=race_after_changes,
    ),
    _figure(
        "message-drift",
        "after AP-Tree Fig. 17",
        "Built for messages in the west: they come from ever farther east",
        "fifth of the messages, from west to east",
        [Point(step, USUAL) for step in (1, 2, 3, 4, 5)],
        _REBUILDS,
        panels=(TIME, CANDIDATES, VERIFIED, MATCHES),
        measure=race_along_messages,
        is_by_point=False,
    ),
    _figure(
        "changes",
        "not in the papers",
        "Inserting and removing a tenth of the subscriptions, in batches of 100",
        "data",
        [Point(SOURCE, USUAL, share=0.9)],
        named("trigger", "ap-tree", "iq-tree", "rq-tree", "rt++-tree", "trie-quad", "keyword-first", "fast"),
        panels=(_INSERT, _REMOVE, TIME),
        measure=race_after_changes,
    ),
)

_EXPRESSIONS = (
    _figure(
        "expressions",
        "AP-Tree Fig. 18 a",
        "AND and OR mixed, over the number of words",
        "words per subscription",
        [Point(n, replace(USUAL, subscription_words=(n, n), mixed=True)) for n in (3, 4, 5, 6, 7)],
        _BEST,
    ),
    _figure(
        "expressions-scaling",
        "AP-Tree Fig. 18 b",
        "AND and OR mixed, over the number of subscriptions",
        "subscriptions",
        [
            Point(None, replace(USUAL, subscription_words=(5, 5), mixed=True), share=share)
            for share in (0.05, 0.25, 0.5, 0.75, 1.0)
        ],
        _BEST,
    ),
    _figure(
        "alternatives",
        "after AP-Tree Fig. 18",
        "Conjunctions joined by OR, some with a NOT",
        "alternatives per subscription",
        [Point(n, replace(USUAL, alternatives=(n, n))) for n in (1, 2, 4, 8)],
        _BEST,
    ),
)

FIGURES = (*_TUNING, *_RACES, *_CHANGES, *_EXPRESSIONS)
