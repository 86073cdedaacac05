"""Codes of queries in another numbering of words; their form is told by `CompiledQueries`."""

import numpy as np

from nearcast._jit import kernel
from nearcast.query import NOT_PHRASE, PHRASE


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
