"""Codes of queries in another numbering of words, and back as trees; their form is told by `CompiledQueries`."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from nearcast._jit import kernel
from nearcast.columns import WITHIN, Subscriptions
from nearcast.query import NOT, NOT_PHRASE, PHRASE, And, Everything, Not, Or, Phrase, Query, Word


def query_of(codes: Sequence[Sequence[int]], word: Callable[[int], str]) -> Query:
    """Return a query with these clauses; `word` names terms."""
    clauses = [_joined(And, list(_parts(code, word))) for code in codes]
    if not clauses:
        return And((Word("nothing"), Not(Word("nothing"))))  # it holds for no message, whatever its words were
    return _joined(Or, clauses)


def _joined(how: type[And] | type[Or], parts: list[Query]) -> Query:
    return Everything() if not parts else parts[0] if len(parts) == 1 else how(tuple(parts))


def _parts(code: Sequence[int], word: Callable[[int], str]) -> Iterator[Query]:
    at = 0
    while at < len(code):
        mark = code[at]
        if mark >= 0:
            yield Word(word(mark))
            at += 1
        elif mark == NOT:
            yield Not(Word(word(code[at + 1])))
            at += 2
        else:
            last = at + 2 + code[at + 1]
            phrase = Phrase(tuple(word(term) for term in code[at + 2 : last]))
            yield phrase if mark == PHRASE else Not(phrase)
            at = last


def translated(subscriptions: Subscriptions, term_of: np.ndarray) -> Subscriptions:
    """Return the same subscriptions with term `term_of[t]` in place of each term t."""
    n_clauses = np.diff(subscriptions.clause_start)
    is_sorted = np.repeat(subscriptions.kind == WITHIN, n_clauses)
    code = np.empty_like(subscriptions.code)
    translate(subscriptions.code_start, subscriptions.code, term_of, is_sorted, code)
    return replace(subscriptions, code=code)


@kernel
def translate(code_start, code, term_of, is_sorted, out):
    """Write each clause with other terms; the words that must be there stand ascending where `is_sorted`."""
    for clause in range(code_start.size - 1):
        at, end = code_start[clause], code_start[clause + 1]
        first = at
        while at < end and code[at] >= 0:
            out[at] = term_of[code[at]]
            at += 1
        if is_sorted[clause]:
            out[first:at] = np.sort(out[first:at])
        while at < end:
            out[at] = code[at]
            length = 1
            if code[at] == PHRASE or code[at] == NOT_PHRASE:
                at += 1
                out[at] = length = code[at]
            for _ in range(length):
                at += 1
                out[at] = term_of[code[at]]
            at += 1


@kernel
def mark_terms(code_start, code, used):
    """Mark the terms that clauses name."""
    for clause in range(code_start.size - 1):
        at, end = code_start[clause], code_start[clause + 1]
        while at < end:
            length = 1
            if code[at] >= 0:
                used[code[at]] = True
                at += 1
                continue
            if code[at] == PHRASE or code[at] == NOT_PHRASE:
                at += 1
                length = code[at]
            for _ in range(length):
                at += 1
                used[code[at]] = True
            at += 1
