"""The numbers of holders: k, bound and buffer of each top-k subscription, and the lists by oldest message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel, inlined
from nearcast.indexes.topk_options import POLICIES
from nearcast.topk.buffers.entries import is_newer, oldest_of
from nearcast.topk.buffers.pool import entries_at

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Policies: what a buffer drops.
KMAX, SKYBAND, CSKYBAND = range(len(POLICIES))

NOBODY = -1


class WindowRows(NamedTuple):
    """The messages of a window as buffers see them, in rings addressed by `row & mask`.

    `head` begins the list of the holders whose oldest message this is. `time` plays a part only if `by_time`. No buffer
    has a row before `first`.
    """

    mask: int
    by_time: bool
    time: NDArray[np.int64]
    head: NDArray[np.int32]
    first: int


class Holders(NamedTuple):
    """The numbers of all holders, one row for each top-k subscription.

    A message is kept if it ranks before the bound: it scores more than `theta`, or as much and is newer than the
    message (`bound_time`, `bound_row`). `is_whole`: nothing lies beyond the bound. A skyband longer than `limit` is cut
    to `target`. `told` is the threshold that the index knows. `previous` and `next` link the holders with the same
    `oldest` message. `step` is when it last changed, `nth` its place among those that change together.

    What every change reads or writes is a record in one line of a processor's cache (`_RECORD`); the columns are views
    of it, so they have gaps. The others are columns of their own: of a bound the row matters only where scores tie.
    Kernels read `record`: one address for all fields of a holder, where each column with gaps has its own. All but
    the slot, which an index that is packed changes in its column alone.
    """

    slot: NDArray[np.int32]
    k: NDArray[np.int32]
    theta: NDArray[np.float64]
    bound_time: NDArray[np.int64]
    bound_row: NDArray[np.int64]
    is_whole: NDArray[np.uint8]
    limit: NDArray[np.int32]
    target: NDArray[np.int32]
    told: NDArray[np.float64]
    is_untold: NDArray[np.uint8]
    slab: NDArray[np.int64]
    size_class: NDArray[np.uint8]
    size: NDArray[np.int32]
    oldest: NDArray[np.int64]
    previous: NDArray[np.int32]
    next: NDArray[np.int32]
    step: NDArray[np.int64]
    nth: NDArray[np.int32]
    work: NDArray[np.int32]
    record: NDArray[np.void]


_FIRST = {"slot": NOBODY, "oldest": NOBODY, "previous": NOBODY, "next": NOBODY, "step": NOBODY, "slab": NOBODY}
_LINE = 64
_RECORD = np.dtype(
    {
        "names": [
            "theta",
            "slab",
            "oldest",
            "step",
            "k",
            "size",
            "limit",
            "target",
            "nth",
            "slot",
            "next",
            "size_class",
            "is_whole",
            "is_untold",
        ],
        "formats": ["f8", "i8", "i8", "i8", "i4", "i4", "i4", "i4", "i4", "i4", "i4", "u1", "u1", "u1"],
        "itemsize": _LINE,
    }
)
HOLDER_TYPES: dict[str, np.dtype[Any]] = {name: _RECORD[name] for name in _RECORD.names or ()} | {
    "bound_time": np.dtype(np.int64),
    "bound_row": np.dtype(np.int64),
    "told": np.dtype(np.float64),
    "previous": np.dtype(np.int32),
    "work": np.dtype(np.int32),
}
_OWN_COLUMNS = tuple(name for name in HOLDER_TYPES if name not in (_RECORD.names or ()))
BYTES_A_HOLDER = _LINE + sum(HOLDER_TYPES[name].itemsize for name in _OWN_COLUMNS)
#: One row of a record has no gaps: NumPy calls its columns contiguous, and kernels would be compiled once more.
FEWEST = 2


def new_holders(n: int) -> Holders:
    """Return the numbers of n holders, `FEWEST` at least, without a slot and with empty buffers."""
    memory = np.zeros((n + 1) * _LINE, np.uint8)
    begin = -memory.ctypes.data % _LINE
    records = memory[begin : begin + n * _LINE].view(_RECORD)
    columns: dict[str, Any] = {name: records[name] for name in _RECORD.names or ()}
    columns |= {name: np.zeros(n, HOLDER_TYPES[name]) for name in _OWN_COLUMNS}
    for name, value in _FIRST.items():
        columns[name][:] = value
    return Holders(**columns, record=records)


def grown_holders(holders: Holders, n: int) -> Holders:
    """Return the numbers with room for n."""
    grown = new_holders(n)
    for name in HOLDER_TYPES:
        column = getattr(holders, name)
        getattr(grown, name)[: len(column)] = column
    return grown


@inlined
def is_kept(holders, holder, rows, score, row):
    """Tell whether a message ranks before the bound of a holder."""
    own = holders.record[holder]
    if score != own["theta"]:
        return score > own["theta"]
    if rows.by_time:
        time = rows.time[row & rows.mask]
        if time != holders.bound_time[holder]:
            return time > holders.bound_time[holder]
    return row > holders.bound_row[holder]


@inlined
def unlink(holders, holder, rows):
    """Take a holder out of the list of its oldest message."""
    own = holders.record[holder]
    oldest = own["oldest"]
    if oldest < 0:
        return
    before, after = holders.previous[holder], own["next"]
    if before >= 0:
        holders.next[before] = after
    else:
        rows.head[oldest & rows.mask] = after
    if after >= 0:
        holders.previous[after] = before
    own["oldest"] = -1


@inlined
def take_list(rows, row):
    """Return the first of the list of a message, and let nobody be in it any more; each is to be linked anew."""
    first = rows.head[row & rows.mask]
    rows.head[row & rows.mask] = -1
    return first


@inlined
def link(holders, holder, rows, oldest):
    """Put a holder into the list of a message."""
    own = holders.record[holder]
    own["oldest"] = oldest
    if oldest < 0:
        return
    after = rows.head[oldest & rows.mask]
    holders.previous[holder], own["next"] = -1, after
    if after >= 0:
        holders.previous[after] = holder
    rows.head[oldest & rows.mask] = holder


@inlined
def relink(holders, holder, rows, slabs):
    """Put a holder into the list of what is its oldest message now."""
    unlink(holders, holder, rows)
    link_to_oldest(holders, holder, rows, slabs)


@inlined
def link_to_oldest(holders, holder, rows, slabs):
    """Put a holder that is in no list into that of its oldest message."""
    own = holders.record[holder]
    entries = entries_at(slabs, own["slab"], own["size_class"])
    link(holders, holder, rows, oldest_of(rows, entries, own["size"]))


@hot_kernel
def relink_all(holders, rows, slabs):
    """Put all holders into the lists of their oldest messages, where all lists are empty."""
    for holder in range(holders.slot.size):
        holders.oldest[holder] = -1
        if holders.slab[holder] >= 0:
            relink(holders, holder, rows, slabs)


@inlined
def link_if_older(holders, holder, rows, row):
    """Follow the arrival of a message in a buffer: it may be its oldest."""
    own = holders.record[holder]
    oldest = own["oldest"]
    if oldest < 0 or is_newer(rows, oldest, row):
        unlink(holders, holder, rows)
        link(holders, holder, rows, row)
