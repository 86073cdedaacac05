"""A query tree as alternatives: disjunctive normal form, simplified and bounded while it grows.

An alternative is a Python integer used as a set of literals: bit 2i says "literal i is there", bit 2i + 1 "it is not".
AND is then `|`, "a implies b" is `a & b == b`, and a contradiction is a bit next to its twin.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from nearcast.errors import InvalidQuery

#: A query that expands to more alternatives than this is refused.
MAX_CLAUSES = 64


class Clause(NamedTuple):
    """One alternative of a query: all `words` present, no `not_words`, every phrase, none of `not_phrases`.

    Words of `phrases` are in `words` too. Each tuple is free of repeats, in order of first appearance in the query.
    """

    words: tuple[str, ...] = ()
    not_words: tuple[str, ...] = ()
    phrases: tuple[tuple[str, ...], ...] = ()
    not_phrases: tuple[tuple[str, ...], ...] = ()


class Node(Protocol):
    """What `clauses_of` expands: a query, whose nodes say what their alternatives are."""

    def _alternatives(self, expansion: Expansion, negated: bool) -> list[int]: ...


@functools.lru_cache(maxsize=64)  # asked for when a value is made, and again when it is stored
def clauses_of(query: Node, limit: int) -> tuple[Clause, ...]:
    """Return the simplified alternatives of `query` in the order they are written; over `limit` raise InvalidQuery."""
    expansion = Expansion(limit)
    try:
        alternatives = query._alternatives(expansion, False)
    except _TooMany:
        raise InvalidQuery(
            f"the query expands to more than {limit} alternatives: split it into several subscriptions, or rewrite it"
            " so that fewer ORs are joined by AND (a NOT before an AND group counts as an OR)",
            query=str(query),
        ) from None
    return tuple(expansion.clause(alternative) for alternative in alternatives)


class _TooMany(Exception):
    """The alternatives are over the limit."""


class Expansion:
    """The literals met so far and the way back from bits to words."""

    __slots__ = ("absent_phrases", "bits", "limit", "literals", "present")

    def __init__(self, limit: int):
        self.limit = limit
        self.bits: dict[str | tuple[str, ...], int] = {}
        self.literals: list[str | tuple[str, ...]] = []
        self.present = 0  # the even bit of every literal
        self.absent_phrases: dict[int, int] = {}  # "phrase is not there" -> "one of its words is not there"

    def bit(self, literal: str | tuple[str, ...]) -> int:
        """Return the "is there" bit of a word or phrase; the bit above it says it is not."""
        bit = self.bits.get(literal)
        if bit is None:
            bit = self.bits[literal] = 1 << 2 * len(self.literals)
            self.literals.append(literal)
            self.present |= bit
        return bit

    def phrase(self, words: tuple[str, ...], negated: bool) -> int:
        """Return the literals of a phrase: where it is there, each of its words is there too."""
        literals = 0
        for word in words:
            literals |= self.bit(word)
        bit = self.bit(words)
        if not negated:
            return literals | bit
        self.absent_phrases[bit << 1] = literals << 1
        return bit << 1

    def all_of(self, parts: Iterable[Node], negated: bool) -> list[int]:
        """Return the product of the parts' alternatives, never holding more than limit² at a time."""
        common, choices = 0, []
        for part in parts:
            alternatives = part._alternatives(self, negated)
            if len(alternatives) == 1:
                common |= alternatives[0]
            else:
                choices.append(alternatives)
        if not choices:
            return self.simplified([common])
        product = [common]
        for choice in choices:
            product = self.simplified([left | right for left in product for right in choice])
        return product

    def any_of(self, parts: Iterable[Node], negated: bool) -> list[int]:
        """Return the parts' alternatives together."""
        return self.simplified([found for part in parts for found in part._alternatives(self, negated)])

    def simplified(self, alternatives: list[int]) -> list[int]:
        """Drop contradictions, repeats and what another alternative already covers; keep the order."""
        possible = dict.fromkeys([each for each in alternatives if not each & each >> 1 & self.present])
        if self.absent_phrases:
            possible = dict.fromkeys(map(self.without_idle_phrases, possible))
        # Of equal size, none covers another: the common case, and much cheaper.
        kept = set(possible) if len(set(map(int.bit_count, possible))) < 2 else self.uncovered(possible)
        if len(kept) > self.limit:
            raise _TooMany
        return [each for each in possible if each in kept]

    def uncovered(self, alternatives: Iterable[int]) -> set[int]:
        """Return the alternatives that do not follow from another, or enough of them to be over the limit."""
        kept: list[int] = []
        # Fewest literals first: an alternative is only ever covered by a smaller one, so what is kept stays.
        for each in sorted(alternatives, key=int.bit_count):
            if not _covered(each, kept):
                kept.append(each)
                if len(kept) > self.limit:
                    break
        return set(kept)

    def without_idle_phrases(self, alternative: int) -> int:
        """Drop "phrase is not there" where one of its words is not there anyway."""
        for phrase, words in self.absent_phrases.items():
            if alternative & phrase and alternative & words:
                alternative ^= phrase
        return alternative

    def clause(self, alternative: int) -> Clause:
        """Return the words and phrases of an alternative."""
        words: list[str] = []
        not_words: list[str] = []
        phrases: list[tuple[str, ...]] = []
        not_phrases: list[tuple[str, ...]] = []
        while alternative:
            position = (alternative & -alternative).bit_length() - 1
            alternative &= alternative - 1
            literal = self.literals[position >> 1]
            if isinstance(literal, str):
                (not_words if position & 1 else words).append(literal)
            else:
                (not_phrases if position & 1 else phrases).append(literal)
        return Clause(tuple(words), tuple(not_words), tuple(phrases), tuple(not_phrases))


def _covered(alternative: int, kept: list[int]) -> bool:
    for other in kept:  # a loop, not any(): this is the hot part of a query with many alternatives
        if alternative & other == other:
            return True
    return False
