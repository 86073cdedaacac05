"""The papers' experiments, measured anew and drawn: `nearcast bench KIND --figure NAME`.

A figure (`figure.Figure`) is a list of series × points and a measuring function: the points say how the data or the
indexes change along the axis, the series which indexes are compared, the panels what is drawn. `measurement` has the
functions and the data they ask for, `race` those of boolean subscriptions, `topk_measurement` those of top-k ones,
`plot` the one look of all pictures. `boolean` has the figures of the Rt-tree and the AP-Tree, `similar` those of
STAMP and `topk` those of Skype. A figure of another kind is a module with a tuple of them, named in `_MODULES`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nearcast.bench.figures.figure import Figure

#: Kind of subscription → module with its `FIGURES`.
_MODULES = {
    "within": "nearcast.bench.figures.boolean",
    "similar": "nearcast.bench.figures.similar",
    "topk": "nearcast.bench.figures.topk",
}


def figures_of(kind: str) -> dict[str, Figure]:
    """Return the figures of a kind of subscription by name, in the order of the paper."""
    module = importlib.import_module(_MODULES[kind])
    return {figure.name: figure for figure in module.FIGURES}
