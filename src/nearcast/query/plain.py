"""Queries that are nothing but ASCII words joined by spaces or AND, compiled over the bytes of a column.

A row is plain only where every word is exactly one token as it stands; all doubt sends it to the parser.
"""

import numpy as np

from nearcast._jit import kernel
from nearcast.query.parser import MAX_QUERY_CHARS, MAX_QUERY_TERMS
from nearcast.text.words import LOWER, Spans, WordTable, read_only

_LETTER, _DIGIT, _APOSTROPHE, _SIGIL, _SPACE, _OTHER = 0, 1, 2, 3, 4, 5
_A, _D, _N, _O, _R, _T = (np.uint8(ord(letter)) for letter in "ADNORT")


def _byte_kinds() -> np.ndarray:
    kinds = np.full(256, _OTHER, np.uint8)
    for kind, characters in ((_DIGIT, "0123456789_"), (_APOSTROPHE, "'"), (_SIGIL, "#@"), (_SPACE, " \t\n\r")):
        kinds[[ord(character) for character in characters]] = kind
    kinds[ord("A") : ord("Z") + 1] = kinds[ord("a") : ord("z") + 1] = _LETTER
    return kinds


_KIND = _byte_kinds()


def plain_codes(rows: Spans, table: WordTable) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of distinct words of each row, -1 where it is not plain, and all their ids, ascending per row.

    Adds the words of plain rows to `table`. A null row is an empty one.
    """
    length = np.maximum(rows.length, 0).astype(np.int64)
    if not len(rows):
        return np.empty(0, np.int64), np.empty(0, np.int32)
    base = int(rows.start.min())
    n_bytes = int((rows.start + length).max()) - base
    lowered = np.empty(n_bytes, np.uint8)
    token_start = np.empty((int(length.sum()) + len(rows)) // 2 + 1, np.int64)
    token_length = np.empty(token_start.size, np.int32)
    counts = np.empty(len(rows), np.int64)
    n = split_plain(rows.data, rows.start, length, base, lowered, token_start, token_length, counts)
    terms = table.ids(read_only(lowered), token_start[:n], token_length[:n], add=True)
    return counts, terms[: sort_distinct(terms, counts)]


@kernel
def split_plain(data, row_start, row_length, base, lowered, token_start, token_length, counts):
    """Write the words of plain rows as spans of `lowered` (byte i of `data` is at i - base); return how many.

    `counts[row]` becomes the number of words, -1 where the row is not plain. The spans need room for half of all
    bytes and rows, rounded up.
    """
    n = 0
    for row in range(row_start.size):
        counts[row] = -1
        if row_length[row] <= MAX_QUERY_CHARS:
            end = row_start[row] + row_length[row]
            found = _split_row(data, row_start[row], end, base, lowered, token_start, token_length, n)
            if 0 <= found <= MAX_QUERY_TERMS:
                counts[row] = found
                n += found
    return n


@kernel
def _split_row(data, begin, end, base, lowered, token_start, token_length, n):
    """Write the words of one row from place `n` on; return how many, or -1 if the row is not plain."""
    found, waiting = 0, False
    i = begin
    while i < end:
        if _KIND[data[i]] == _SPACE:
            i += 1
            continue
        first = i
        i = _word_end(data, i, end, base, lowered)
        if i < 0:
            return -1
        operator = _operator(data, first, i)
        if operator == 0:
            token_start[n + found] = first - base
            token_length[n + found] = i - first
            found += 1
            waiting = False
        elif operator == 1 and found > 0 and not waiting:
            waiting = True
        else:
            return -1
    return -1 if waiting else found


@kernel
def _word_end(data, first, end, base, lowered):
    """Copy the word that starts at `first` to `lowered` in lower case; return where it ends, -1 if it is not plain."""
    i = first
    if _KIND[data[i]] == _SIGIL:
        lowered[i - base] = data[i]
        i += 1
    size = 0
    while i < end:
        kind = _KIND[data[i]]
        if kind == _APOSTROPHE:
            if size == 0 or i + 1 == end or _KIND[data[i - 1]] != _LETTER or _KIND[data[i + 1]] != _LETTER:
                return -1
        elif kind == _SPACE:
            break
        elif kind > _DIGIT:
            return -1
        lowered[i - base] = LOWER[data[i]]
        size += 1
        i += 1
    return i if size > 0 else -1


@kernel
def _operator(data, first, end):
    """Return 0 for a word, 1 for AND, 2 for OR and NOT."""
    if end - first == 3:
        if data[first] == _A and data[first + 1] == _N and data[first + 2] == _D:
            return 1
        if data[first] == _N and data[first + 1] == _O and data[first + 2] == _T:
            return 2
    elif end - first == 2 and data[first] == _O and data[first + 1] == _R:
        return 2
    return 0


@kernel
def sort_distinct(terms, counts):
    """Sort each row's terms in place, without repeats and gaps between rows; return how many are left.

    `counts[row]` becomes the number of distinct terms; rows with -1 have none.
    """
    n, at = 0, 0
    for row in range(counts.size):
        if counts[row] < 0:
            continue
        begin, end = n, at + counts[row]
        while at < end:
            term = terms[at]
            at += 1
            # Insertion sort: queries have a handful of words, and the limit keeps the worst case small.
            place = n
            while place > begin and terms[place - 1] > term:
                place -= 1
            if place > begin and terms[place - 1] == term:
                continue
            for i in range(n, place, -1):
                terms[i] = terms[i - 1]
            terms[place] = term
            n += 1
        counts[row] = n - begin
    return n
