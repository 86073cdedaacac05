"""The heuristic keyword partition (paper, Algorithm 3): cuts of even weight, then one border after the other improved.

O(|V|): every border looks at the words of its two cuts once. A step only ever lowers the cost, so the result never
costs more than the cuts of even weight it begins with.
"""

from __future__ import annotations

import numpy as np

from nearcast._jit import kernel
from nearcast.indexes.papers.ap_tree.model import move_borders


@kernel
def even_cuts(weight, n_cuts):
    """Return the borders of n_cuts cuts of about the same weight, no cut empty; weight[j] is that of the first j words.

    Words must be as many as cuts at least.
    """
    n_words = weight.size - 1
    border = np.empty(n_cuts + 1, np.int64)
    border[0], border[n_cuts] = 0, n_words
    for k in range(1, n_cuts):
        aim = weight[n_words] * k / n_cuts
        at = border[k - 1] + 1
        while at < n_words - (n_cuts - k) and weight[at] < aim:
            at += 1
        border[k] = at
    return border


@kernel
def heuristic_cuts(weight, met, n_cuts):
    """Return the borders of cuts as Algorithm 3 finds them."""
    border = even_cuts(weight, n_cuts)
    if n_cuts < weight.size - 1:
        move_borders(weight, weight, met, border)
    return border
