"""The experiments of the Rt-tree paper (KDD 2013, section 6).

Messages come in the paper's four groups: short ones of 6 to 20 words and long ones of 100 to 1,000, at points and in
rectangles. The paper does not say how large its rectangles are; here those of messages and subscriptions take up 0.01 %
to 1 % of the space. Figures 8 and 9 are one experiment on two data sets: `--source` takes another.
"""

from __future__ import annotations

from dataclasses import replace

from nearcast.bench.figures.boolean_parts import (
    AREA,
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
from nearcast.bench.figures.figure import Point, Series

_SHORT, _LONG = (6, 20), (100, 1_000)
_ORDERS = ("random", "df", "idf", "locality")

_GROUPS = (
    Point("short, point", replace(USUAL, message_words=_SHORT)),
    Point("long, point", replace(USUAL, message_words=_LONG)),
    Point("short, range", replace(USUAL, message_words=_SHORT, message_area=AREA)),
    Point("long, range", replace(USUAL, message_words=_LONG, message_area=AREA)),
)
_MESSAGES = "messages"

FIGURES = (
    boolean_figure(
        "token-orders",
        "Rt-tree Fig. 6",
        "Which token of a subscription represents it",
        _MESSAGES,
        _GROUPS,
        [Series(order, f"rt+-tree:order={order}") for order in _ORDERS],
        variants=[{"order": order} for order in _ORDERS],
        panels=(TIME, CANDIDATES, VERIFIED, BYTES),
        messages=500,
    ),
    boolean_figure(
        "tokens",
        "Rt-tree Fig. 7",
        "All tokens in a node, one of each subscription, or one on each level",
        _MESSAGES,
        _GROUPS,
        named("rt-tree", "rt+-tree", "rt++-tree"),
        panels=(TIME, CANDIDATES, VERIFIED, BYTES),
        messages=500,
    ),
    boolean_figure(
        "baselines",
        "Rt-tree Fig. 8 and 9",
        "The Rt++-tree against the baselines of its paper, and ours",
        _MESSAGES,
        _GROUPS,
        named("trigger", "rt++-tree", "keyword-first", "spatial-first", "ir-tree", "fast"),
        messages=500,
    ),
    boolean_figure(
        "rt-scaling",
        "Rt-tree Fig. 10",
        "The Rt++-tree over the number of subscriptions",
        "subscriptions",
        [Point(None, replace(USUAL, message_words=_SHORT), share=share) for share in (0.2, 0.4, 0.6, 0.8, 1.0)],
        named("trigger", "rt++-tree"),
        panels=(TIME, MATCHES, BUILD, BYTES),
        subscriptions=200_000,
    ),
)
