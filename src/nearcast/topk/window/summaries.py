"""Builds the summaries of message groups that `bounds` reads: box, cosine, components of a word, last row."""

from __future__ import annotations

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.topk.window.bounds import COSINE, LAST_ROW, U_MAX, U_MIN, X_MAX, X_MIN, Y_MAX, Y_MIN, least_cosine
from nearcast.topk.window.scores import LENGTH, ROW


@inlined
def unit_of(held, position, i, weight):
    """Return the component of the i-th word in the unit vector of the message at a position."""
    length = held.card[position, LENGTH]
    return held.said[i, 1] * weight[held.said[i, 0]] / np.sqrt(length) if length > 0.0 else 0.0


@inlined
def _include(summary, group, x_min, y_min, x_max, y_max):
    summary[group, X_MIN] = min(summary[group, X_MIN], x_min)
    summary[group, Y_MIN] = min(summary[group, Y_MIN], y_min)
    summary[group, X_MAX] = max(summary[group, X_MAX], x_max)
    summary[group, Y_MAX] = max(summary[group, Y_MAX], y_max)


@inlined
def _clear(summary, group):
    summary[group, X_MIN], summary[group, Y_MIN] = np.inf, np.inf
    summary[group, X_MAX], summary[group, Y_MAX] = -np.inf, -np.inf
    summary[group, COSINE], summary[group, U_MIN], summary[group, U_MAX] = 1.0, 1.0, 0.0
    summary[group, LAST_ROW] = -1.0


@hot_kernel
def summarise_messages(held, first, start, position, u, is_earth, summary):
    """Write the summary of each group of messages: group g has `position[start[g]:start[g + 1]]`, with as many `u`."""
    for group in range(start.size - 1):
        _clear(summary, group)
        for i in range(start[group], start[group + 1]):
            p = first + position[i]
            if is_earth and held.card[p, 2] < held.card[p, 0]:
                # A place over the dateline is on both ends.
                _include(summary, group, -180.0, held.card[p, 1], 180.0, held.card[p, 3])
            else:
                _include(summary, group, held.card[p, 0], held.card[p, 1], held.card[p, 2], held.card[p, 3])
            summary[group, U_MIN] = min(summary[group, U_MIN], u[i])
            summary[group, U_MAX] = max(summary[group, U_MAX], u[i])
            summary[group, LAST_ROW] = max(summary[group, LAST_ROW], held.card[p, ROW])
        if is_earth:
            summary[group, COSINE] = least_cosine(summary[group, Y_MIN], summary[group, Y_MAX])


@hot_kernel
def summarise_groups(start, lower, summary):
    """Write the summary of each group of groups: group g has the lower ones from `start[g]` to `start[g + 1]`."""
    for group in range(start.size - 1):
        _clear(summary, group)
        for b in range(start[group], start[group + 1]):
            below = lower[b]
            _include(summary, group, below[X_MIN], below[Y_MIN], below[X_MAX], below[Y_MAX])
            summary[group, COSINE] = min(summary[group, COSINE], below[COSINE])
            summary[group, U_MIN] = min(summary[group, U_MIN], below[U_MIN])
            summary[group, U_MAX] = max(summary[group, U_MAX], below[U_MAX])
            summary[group, LAST_ROW] = max(summary[group, LAST_ROW], below[LAST_ROW])
