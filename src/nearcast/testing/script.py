"""Scripts: sequences of changes and messages to replay against an index."""

from __future__ import annotations

from dataclasses import dataclass

from nearcast.geo import Space
from nearcast.testing.values import (
    Said,
    Wanted,
)


@dataclass(frozen=True)
class Step:
    """One step of a script: `verb` is insert, remove, replace, move, thresholds, match, reweigh, settle or renumber.

    `picks` choose among the live slots by their number, modulo how many there are, so that every step is possible;
    `thresholds` chooses among those of kind topk. `weights` are those of all words from then on; a word that is not
    among them weighs 1. `aims` say what the thresholds become: a number, or `met`, `below` or `above` for the score of
    the message of `said` at the same position and the floats beside it, 0.5 where that has no word in common.
    """

    verb: str
    picks: tuple[int, ...] = ()
    wanted: tuple[Wanted, ...] = ()
    said: tuple[Said, ...] = ()
    weights: tuple[tuple[str, float], ...] = ()
    aims: tuple[str | float, ...] = ()


@dataclass(frozen=True)
class Script:
    """Steps to replay against an index in `space`; with `add_words` messages add words of their own to the table."""

    space: Space
    steps: tuple[Step, ...]
    add_words: bool = False
