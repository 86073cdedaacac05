"""The experiments of the Rt-tree and AP-Tree papers, over boolean subscriptions: `rt_tree` and `ap_tree` have them."""

from __future__ import annotations

from nearcast.bench.figures import ap_tree, rt_tree

FIGURES = (*rt_tree.FIGURES, *ap_tree.FIGURES)
