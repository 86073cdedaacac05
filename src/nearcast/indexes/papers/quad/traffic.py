"""The expected distribution of messages over cells and words, which the cost model of the quadtrees asks.

A frame is laid around the rectangles of the subscriptions and divided into 2^DEEPEST steps in either direction. A cell
of level l is one of the 4^l equal parts of the frame, so all cells are told by steps: no coordinate is looked at again.
What lies outside the frame counts to the cells at its border.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages

#: Levels below the root that steps can tell apart.
DEEPEST = 16
_STEPS = 1 << DEEPEST
#: Rectangles and messages that are looked at for a distribution, and the finest level it is counted on.
_SAMPLE, _FINEST = 65_536, 9
#: Points in a cell from which on they say more of its quarters than what was thought before.
_TRUSTED = 4


class Traffic(NamedTuple):
    """The frame, and the share of messages that each of its cells and words has.

    Coordinate x is step `(x / 2 - origin[0] / 2) * scale[0]`, likewise y. Level l of the cells begins at
    `share[(4^l - 1) / 3]`, row by row; below the level `top` messages are spread evenly. `chance[t + 1]` is the
    share of messages with term t; `chance[0]` is 1, for the word every message is thought to have.
    """

    origin: NDArray[np.float64]
    half_width: NDArray[np.float64]
    scale: NDArray[np.float64]
    share: NDArray[np.float32]
    top: int
    chance: NDArray[np.float64]


@inlined
def step_of(value, axis, traffic):
    """Return the step of a coordinate; never decreasing in `value`, which is all that exactness needs."""
    if value <= traffic.origin[axis]:
        return 0
    half = value / 2 - traffic.origin[axis] / 2  # halves, for the difference of two huge numbers overflows
    if half >= traffic.half_width[axis]:
        return _STEPS - 1 if traffic.scale[axis] > 0.0 else 0
    return min(int(half * traffic.scale[axis]), _STEPS - 1)


@hot_kernel
def steps_of(traffic, box, steps):
    """Write the steps of the corners of every rectangle."""
    for i in range(box.shape[0]):
        for k in range(4):
            steps[i, k] = step_of(box[i, k], k % 2, traffic)


@inlined
def share_of(traffic, level, x, y):
    """Return the share of messages that touch a cell."""
    top = traffic.top
    if level <= top:
        return np.float64(traffic.share[((1 << (2 * level)) - 1) // 3 + (y << level) + x])
    deeper = level - top
    at = ((1 << (2 * top)) - 1) // 3 + ((y >> deeper) << top) + (x >> deeper)
    return np.float64(traffic.share[at]) / (1 << (2 * deeper))


def sampled(messages: Messages) -> Messages:
    """Return a copy of some messages, evenly taken, or of all if they are few."""
    return messages.take(np.arange(0, len(messages), len(messages) // _SAMPLE + 1))


def traffic_of(box: NDArray[np.float64], word_share: NDArray[np.float64], messages: Messages | None) -> Traffic:
    """Return what is expected if messages are like these.

    Messages are where subscriptions are, with the words they ask for, as long as nobody knows better: cells and words
    with few messages to tell from are thought to be as in these rectangles and as the share of the atoms with a word.
    """
    finite = _finite(box)
    empty = frame_alone(finite)
    said = np.empty((0, 4)) if messages is None else messages.box
    top = min(_FINEST, (max(len(finite), len(said)).bit_length() + 1) // 2 + 1)
    levels = _refined(
        [np.full((1 << k, 1 << k), 0.25**k) for k in range(top + 1)], _counts(_middle(finite), empty, top)
    )
    if len(said):
        levels = _refined(levels, _counts(_middle(said), empty, top))
        # A message of some extent touches the cells next to its middle as well: more of them, the smaller cells are.
        wide, high = _mean_extent(said, empty)
        levels = [np.minimum(each * (1 + wide * len(each)) * (1 + high * len(each)), 1.0) for each in levels]
    share = np.concatenate([level.ravel() for level in levels]).astype(np.float32)
    return empty._replace(share=share, top=top, chance=_chances(word_share, messages))


def frame_alone(box: NDArray[np.float64]) -> Traffic:
    """Return the frame around rectangles, with nothing said of messages."""
    return Traffic(*_frame_around(_finite(box)), np.zeros(1, np.float32), 0, np.zeros(1))


def _finite(box: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rectangles without an infinite side, of many an even sample."""
    finite = box[np.isfinite(box).all(axis=1)]
    return finite[:: len(finite) // _SAMPLE + 1]


def _frame_around(box: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return origin, half of the width and steps per half unit of a frame; what is far away from most stays outside."""
    if not len(box):
        return np.zeros(2), np.zeros(2), np.zeros(2)
    half = np.sort(_middle(box) / 2, axis=0)
    low, high = half[len(half) // 100], half[len(half) - 1 - len(half) // 100]
    with np.errstate(over="ignore", divide="ignore"):
        reach = np.where(high > low, high - low, np.inf)
        first = np.maximum(box[:, :2].min(axis=0) / 2, low - reach)
        width = np.minimum(box[:, 2:].max(axis=0) / 2, high + reach) - first
        scale = _STEPS / width
    # A frame too narrow or too wide to count steps in is one step: it tells nothing apart.
    usable = np.isfinite(scale) & np.isfinite(width) & (scale > 0) & (width > 0)
    return np.where(usable, 2 * first, 0.0), np.where(usable, width, 0.0), np.where(usable, scale, 0.0)


def _middle(box: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the middle of every rectangle; of one across the dateline a point near it."""
    middle: NDArray[np.float64] = box[:, :2] / 2 + box[:, 2:] / 2
    return np.where(box[:, :2] <= box[:, 2:], middle, box[:, :2])


def _mean_extent(box: NDArray[np.float64], traffic: Traffic) -> NDArray[np.float64]:
    """Return how wide and high messages are on average, as parts of the frame."""
    half = np.minimum(np.maximum(box[:, 2:] / 2 - box[:, :2] / 2, 0.0), traffic.half_width)
    mean: NDArray[np.float64] = (half * traffic.scale).mean(axis=0) / _STEPS
    return mean


def _counts(point: NDArray[np.float64], traffic: Traffic, top: int) -> list[NDArray[np.int64]]:
    """Return how many points are in each cell, as a square for every level from the root to `top`."""
    steps = np.zeros((len(point), 4), np.int32)
    steps_of(traffic, np.concatenate([point, point], axis=1), steps)
    cell = (steps[:, :2] >> (DEEPEST - top)).astype(np.int64)
    side = 1 << top
    levels = [np.bincount(cell[:, 1] * side + cell[:, 0], minlength=side * side).reshape(side, side)]
    while (side := side // 2) > 0:
        levels.append(levels[-1].reshape(side, 2, side, 2).sum(axis=(1, 3)))
    return levels[::-1]


def _refined(thought: list[NDArray[np.float64]], counts: list[NDArray[np.int64]]) -> list[NDArray[np.float64]]:
    """Return the share of each cell, level by level, with these many seen there.

    What was thought about the quarters of a cell counts like `_TRUSTED` more that were seen in it.
    """
    share = [np.ones((1, 1))]
    for level in range(1, len(counts)):
        part = thought[level] / _in_quarters(thought[level - 1])
        seen = (counts[level] + _TRUSTED * part) / (_in_quarters(counts[level - 1]) + _TRUSTED)
        share.append(_in_quarters(share[-1]) * seen)
    return share


def _in_quarters(cells: NDArray[Any]) -> NDArray[Any]:
    return cells.repeat(2, axis=0).repeat(2, axis=1)


def _chances(word_share: NDArray[np.float64], messages: Messages | None) -> NDArray[np.float64]:
    """Return how likely a message has each word; what subscriptions say of one counts like one message that has it."""
    chance = np.concatenate([np.ones(1), word_share])
    if messages is None or not len(messages):
        return chance
    n_terms = len(word_share)
    message = np.repeat(np.arange(len(messages)), np.diff(messages.term_start))
    known = (messages.terms >= 0) & (messages.terms < n_terms)
    pairs = np.unique(message[known] * n_terms + messages.terms[known])
    count = np.bincount(pairs % max(n_terms, 1), minlength=n_terms)
    asked = word_share > 0
    chance[1:][asked] = (count[asked] + 1) / (len(messages) + 1 / word_share[asked])
    return chance
