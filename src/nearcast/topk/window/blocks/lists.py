"""Segments of `blocks`: the lists of each word, cut into blocks of neighbours, and these gathered into runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast._jit import hot_kernel
from nearcast.topk.window.bounds import N_COLUMNS
from nearcast.topk.window.column_queue import ColumnQueue
from nearcast.topk.window.scores import first_word, n_words_of
from nearcast.topk.window.summaries import summarise_groups, summarise_messages, unit_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.topk.window.scores import MessageCards

#: Postings in a block and blocks in a run, at most.
BLOCK = 32
RUN = 32
#: Ends the words of a segment.
NO_MORE = np.iinfo(np.int32).max
#: Makes a float32 at least, or at most, the float64 it was rounded from.
ROUND_UP = 1.0 + 2.0**-23
ROUND_DOWN = 1.0 - 2.0**-21

#: Columns of the table of segments: where its messages, lists, runs, blocks and postings begin, and its first row.
POSITIONS, LISTS, RUNS, BLOCKS, POSTINGS, ROWS = range(6)


class BlockLists(NamedTuple):
    """All segments end to end; `segment[g]` says where those of segment g begin, `segment[g + 1]` where they end.

    Numbers count from where the segment begins. List l is of `word[l]`, ascending, and has the runs `run[l]` to
    `run[l + 1]`; run r has the blocks `run_block[r]` to `run_block[r + 1]`, block b the postings `block_posting[b]` to
    `block_posting[b + 1]`. One more of each ends the segment. A posting is the message `position` with its `u`, rounded
    up, and its `mark`; `list_u` is the greatest u of a list.
    """

    segment: NDArray[np.int64]
    word: NDArray[np.int32]
    run: NDArray[np.int32]
    list_u: NDArray[np.float64]
    run_block: NDArray[np.int32]
    run_summary: NDArray[np.float64]
    block_posting: NDArray[np.int32]
    block_summary: NDArray[np.float64]
    position: NDArray[np.int32]
    u: NDArray[np.float32]
    mark: NDArray[np.int64]


class BlockListColumns(NamedTuple):
    """The columns of `BlockLists`, growing."""

    lists: ColumnQueue
    runs: ColumnQueue
    blocks: ColumnQueue
    postings: ColumnQueue


def new_lists() -> BlockListColumns:
    """Return columns without a segment."""
    whole = np.zeros(0, np.int32)
    return BlockListColumns(
        ColumnQueue(word=whole, run=whole, list_u=np.zeros(0)),
        ColumnQueue(run_block=whole, run_summary=np.zeros((0, N_COLUMNS))),
        ColumnQueue(block_posting=whole, block_summary=np.zeros((0, N_COLUMNS))),
        ColumnQueue(position=whole, u=np.zeros(0, np.float32), mark=np.zeros(0, np.int64)),
    )


def add_lists(
    columns: BlockListColumns, held: MessageCards, first: int, end: int, weight: NDArray[np.float64], is_earth: bool
) -> None:
    """Make the lists of the messages at the positions `first` to `end`; `weight` has all their words."""
    word, length = _words_of(held, first, end, weight.size)
    total = int(length.sum())
    position, exact = np.empty(total, np.int32), np.empty(total)
    slot = np.empty(weight.size, np.int32)
    slot[word] = np.arange(len(word))
    fill_postings(held, first, end, weight, slot, np.cumsum(length) - length, position, exact)
    n_blocks = -(-length // BLOCK)
    n_runs = -(-n_blocks // RUN)
    run = np.append(0, np.cumsum(n_runs)).astype(np.int32)
    run_block = _cuts(n_blocks, n_runs)
    block_posting = _cuts(length, n_blocks)
    block_summary = np.zeros((len(block_posting), N_COLUMNS))
    summarise_messages(held, first, block_posting, position, exact, is_earth, block_summary)
    run_summary = np.zeros((len(run_block), N_COLUMNS))
    summarise_groups(run_block, block_summary, run_summary)
    list_u = np.append(np.maximum.reduceat(exact, np.cumsum(length) - length) if total else [], 0.0)
    columns.lists.add(word=np.append(word, NO_MORE), run=run, list_u=list_u)
    columns.runs.add(run_block=run_block, run_summary=run_summary)
    columns.blocks.add(block_posting=block_posting, block_summary=block_summary)
    columns.postings.add(position=position, u=exact * ROUND_UP, mark=held.mark[first:end][position])


def _words_of(held: MessageCards, first: int, end: int, n_words: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the words that messages have, ascending, and how many messages have each."""
    said = held.said[first_word(held, first) : first_word(held, end - 1) + n_words_of(held, end - 1), 0]
    if said.size and said.min() < 0:
        said = said[said >= 0]
    if said.size < n_words >> 3:
        word, n = np.unique(said, return_counts=True)
        return word.astype(np.int64), n.astype(np.int64)
    by_word = np.bincount(said, minlength=n_words).astype(np.int64)
    present = np.flatnonzero(by_word)
    return present, by_word[present]


def _cuts(total: NDArray[np.int64], parts: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return where the parts begin when each list of `total` is cut into `parts` of about one size, and the end."""
    nth = np.arange(int(parts.sum())) - np.repeat(np.cumsum(parts) - parts, parts)
    begins = np.repeat(np.cumsum(total) - total, parts) + nth * np.repeat(total, parts) // np.repeat(parts, parts)
    return np.append(begins, total.sum()).astype(np.int32)


@hot_kernel
def fill_postings(held, first, end, weight, slot, next_free, position, exact):
    """Write every message into the lists of its words; `next_free` is used up."""
    for p in range(first, end):
        begin = first_word(held, p)
        for i in range(begin, begin + n_words_of(held, p)):
            word = held.said[i, 0]
            if word < 0:
                continue
            at = next_free[slot[word]]
            next_free[slot[word]] = at + 1
            position[at] = p - first
            exact[at] = min(unit_of(held, p, i, weight), 1.0)
