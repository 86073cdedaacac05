"""Scratch memory of window searches, reused from one to the next and lent to one thread at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from nearcast.topk.window.best_heap import BestHeap, new_kept
from nearcast.topk.window.frontier import Frontier, new_frontier
from nearcast.topk.window.word_plan import WordPlan, new_plan


class WindowScratch(NamedTuple):
    """Scratch memory of one search: the plan of a query, a heap of groups to visit and a heap of answers."""

    plan: WordPlan
    frontier: Frontier
    kept: BestHeap


class ScratchLender:
    """Lends `WindowScratch` memory that is large enough."""

    def __init__(self) -> None:
        self._idle: list[WindowScratch] = []

    @contextmanager
    def lent(self, n_words: int, n_groups: int, n_kept: int) -> Iterator[WindowScratch]:
        """Lend memory for so many words, groups and messages."""
        plan, frontier, kept = (
            self._idle.pop() if self._idle else WindowScratch(new_plan(8), new_frontier(0), new_kept(0))
        )
        working = WindowScratch(
            plan if len(plan.word) >= n_words else new_plan(n_words),
            frontier if len(frontier.code) >= n_groups else new_frontier(n_groups + n_groups // 4),
            kept if len(kept.row) >= n_kept else new_kept(n_kept),
        )
        yield working
        self._idle.append(working)
