"""The cost model for the length of a buffer (Skype paper, section 6.2), its random walk solved for any odds."""

from __future__ import annotations

import math

from nearcast._jit import inlined, kernel

#: What a search of the window costs before it looks at a posting, and per posting, in steps over a buffer's entries.
SEARCH_BASE, SEARCH_POSTING = 100_000.0, 4.0
#: Buffers are never planned for more than this many times k messages.
_MOST_TIMES_K = 64


@inlined
def skyband_size(k, n):
    """Return how many of n messages, in random order, are dominated by fewer than k: k·(1 + ln(n / k)) from n = k on.

    The paper leaves out the 1, which makes the skyband of k messages empty.
    """
    return k * (1.0 + math.log(n / k)) if n > k else n


@inlined
def updates_until_short(n, k, up, down):
    """Return after how many updates a walk from n first stands at k - 1.

    Each update adds one with probability `up`, takes one with probability `down`; at 2n it goes no further up. With
    up = down = p/2 this is the paper's Eq. 12, 2(n-k+1)n/p + (n-k+1)(n-k+2)/p.
    """
    way = n - k + 1.0
    top = 2.0 * n - k + 1.0
    if way <= 0.0:
        return 0.0
    if abs(up - down) <= 1e-9 * down:
        return way * (2.0 * top - way + 1.0) / (2.0 * down)
    odds = up / down
    power = (top - way + 1.0) * math.log(odds)
    if power > 600.0:
        return math.inf
    lost = math.exp(power) * (1.0 - math.exp(way * math.log(odds))) / (1.0 - odds)
    return (way - lost) / (down - up)


@inlined
def cost_of(n, k, search, arriving):
    """Return the cost of a buffer for n messages per update of the window that concerns one of them.

    `search` is what a search of the window costs; `arriving` is the share of updates that are arrivals, the others
    being expiries. Chances per update are all in proportion to n, so that the size of the window does not matter.
    """
    short = updates_until_short(n, k, arriving, 1.0 - arriving) if arriving < 1.0 else math.inf
    searching = search / short * n if short > 0.0 else search * n
    return n * skyband_size(k, n) + searching


@inlined
def best_length(k, search, arriving, most):
    """Return for how many messages a buffer costs least: at least k, at most `most` or a fixed multiple of k.

    Strides shrink as the paper's incremental search does: the cost falls and then rises.
    """
    last = min(most, _MOST_TIMES_K * k)
    n = k
    if last <= k:
        return n
    least = cost_of(float(n), float(k), search, arriving)
    stride = max(1, k)
    while stride > 0:
        for direction in (1, -1):
            while k <= n + direction * stride <= last:
                cost = cost_of(float(n + direction * stride), float(k), search, arriving)
                if cost >= least:
                    break
                n, least = n + direction * stride, cost
        stride //= 2
    return n


@kernel
def plan_lengths(k, work, arriving, most, length, target):
    """Write for how many messages each buffer is best, and how many of these its skyband is expected to be.

    `work` is how many postings its last search looked at.
    """
    for i in range(k.size):
        length[i] = best_length(k[i], SEARCH_BASE + SEARCH_POSTING * work[i], arriving, most)
        target[i] = max(k[i], math.ceil(skyband_size(float(k[i]), float(length[i]))))
