"""What subscriptions that move cost an s-node: location updates, and rebuilds ahead of time (paper, section 4.3.1).

Costs are those of one timestamp, in entries looked at. To Eq. 7, what messages cost, two penalties are added where a
node is parted by space; cuts do not care where a subscription is (Eq. 14, 15):

- Cslu (Eq. 9): a subscription that leaves its cell is deleted and inserted, log f steps for each node of its path. It
  passes ζ regions of the node's size in a timestamp, |vx| / width + |vy| / height, which is what the paper's count of
  regions over a long time T' comes to. Who stands still passes none, however long T' is.
- Circ (Eq. 13): the subtree is rebuilt each T∆ timestamps, after which the KL divergence of its members, each going on
  as it does, exceeds θKL (Algorithm 8). Where nobody moves nothing is rebuilt for that. The height in Eq. 11 is
  negative below θp members, where it is 0 in truth.

Eq. 7 multiplies by the messages of a timestamp. Here everything else is divided by them instead: so a leaf costs its
entries, as in `model`, and a tree whose subscriptions stand still is an AP-Tree. Of all messages those count that come
to the node's region; which of them have the words that lead to the node is not known.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import inlined, kernel
from nearcast.indexes.papers.ap_tree.divergence import beyond_chance

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Timestamps that Algorithm 8 looks ahead, Tmax, and over how many of the members.
MOST_TIMESTAMPS, _LOOKED_AT = 100, 512


class Motion(NamedTuple):
    """How subscriptions move, by slot; empty where that does not count.

    `slot_of` is the slot of a row. `velocity` is along x and y, in a timestamp; `interval` the timestamps between two
    reports, 0 for who never reported. `messages` has how many come in a timestamp. `threshold` is θKL.
    """

    slot_of: NDArray[np.int32]
    velocity: NDArray[np.float64]
    interval: NDArray[np.float64]
    messages: NDArray[np.float64]
    threshold: float


def no_motion() -> Motion:
    """Return the motion of subscriptions that stand still."""
    return Motion(np.empty(0, np.int32), np.empty((0, 2)), np.empty(0), np.ones(1), 0.0)


@kernel
def moving_penalty(members, region, n_path, n_words, n_messages, atoms, motion, fan_out, leaf):
    """Return what Eq. 15 adds to the cost of a grid, for each message: Cslu and Circ.

    The path to the node has `n_path` nodes, itself included; its members have `n_words` distinct words, and
    `n_messages` come to its region in a timestamp.
    """
    if motion.velocity.shape[0] == 0:
        return 0.0
    cost = location_update_cost(members, region, n_path, atoms, motion, fan_out)
    timestamps = rebuild_interval(members, region, atoms, motion, fan_out)
    if timestamps < np.inf:
        cost += rebuild_cost(members.size, n_words, fan_out, leaf) / timestamps
    return cost / n_messages


@kernel
def location_update_cost(members, region, n_path, atoms, motion, fan_out):
    """Return Cslu of Eq. 9."""
    crossing, interval, n = 0.0, 0.0, 0
    for atom in members:
        slot = motion.slot_of[atoms.row[atom]]
        if slot >= 0 and motion.interval[slot] > 0.0:
            n += 1
            interval += motion.interval[slot]
            x, y = motion.velocity[slot, 0], motion.velocity[slot, 1]
            crossing += min(1.0, regions_passed(x, y, region[2] - region[0], region[3] - region[1]))
    if n == 0:
        return 0.0
    return 2.0 * crossing * n_path * math.log2(fan_out) / (interval / n)


@inlined
def regions_passed(x, y, width, height):
    """Return ζ: how many regions of a size something passes in a timestamp, going so far along x and y."""
    passed = 0.0
    for distance, length in ((abs(x), width), (abs(y), height)):
        if distance > 0.0:
            passed += distance / length if length > 0.0 else 1.0
    return passed


@inlined
def rebuild_cost(n_members, n_words, fan_out, leaf):
    """Return the cost of building a subtree of so many members with so many words (Eq. 11, 12)."""
    height = max(0.0, math.log(n_members / leaf) / math.log(fan_out))
    return (n_members * (math.log2(fan_out) + math.sqrt(fan_out)) + fan_out * n_words) * (height + 1.0)


@kernel
def rebuild_interval(members, region, atoms, motion, fan_out):
    """Return T∆ (Algorithm 8), at most `MOST_TIMESTAMPS`; infinite if no member moves."""
    every = 1 + members.size // _LOOKED_AT
    moves = False
    for i in range(0, members.size, every):
        slot = motion.slot_of[atoms.row[members[i]]]
        moves = moves or (slot >= 0 and (motion.velocity[slot, 0] != 0.0 or motion.velocity[slot, 1] != 0.0))
    if not moves:
        return np.inf
    columns = int(math.sqrt(fan_out))
    rows = fan_out // columns
    before, now = np.zeros(columns * rows), np.zeros(columns * rows)
    _spread(members, every, region, atoms, motion, columns, rows, 0, before)
    for timestamp in range(1, MOST_TIMESTAMPS + 1):
        _spread(members, every, region, atoms, motion, columns, rows, timestamp, now)
        if beyond_chance(before, now) > motion.threshold:
            return float(timestamp)
    return float(MOST_TIMESTAMPS)


@kernel
def _spread(members, every, region, atoms, motion, columns, rows, timestamp, count):
    """Count the members in the cells of a uniform grid after so many timestamps; who has left counts nowhere.

    A member is in the middle of what it has of the region.
    """
    count[:] = 0.0
    width, height = region[2] - region[0], region[3] - region[1]
    for i in range(0, members.size, every):
        slot = motion.slot_of[atoms.row[members[i]]]
        x = max(atoms.box[members[i], 0], region[0]) / 2 + min(atoms.box[members[i], 2], region[2]) / 2
        y = max(atoms.box[members[i], 1], region[1]) / 2 + min(atoms.box[members[i], 3], region[3]) / 2
        if slot >= 0 and timestamp > 0:
            x += timestamp * motion.velocity[slot, 0]
            y += timestamp * motion.velocity[slot, 1]
        if region[0] <= x <= region[2] and region[1] <= y <= region[3]:
            column = min(int((x - region[0]) / width * columns), columns - 1) if width > 0.0 else 0
            row = min(int((y - region[1]) / height * rows), rows - 1) if height > 0.0 else 0
            count[column * rows + row] += every
