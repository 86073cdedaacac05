"""The boolean language of `Within` subscriptions: words, AND, OR, NOT, parentheses, "phrases", #tags and @names.

`parse` gives the tree of one query, `compile_queries` the flat codes of a whole column. The parser is hand-made:
lark parses some 14,000 queries a second where ours must read, normalise *and* expand more than that.
"""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from nearcast.errors import InvalidQuery
from nearcast.query.clauses import MAX_CLAUSES, Clause, clauses_of
from nearcast.query.json_form import parse_json
from nearcast.query.parser import (
    MAX_DEPTH,
    MAX_QUERY_CHARS,
    MAX_QUERY_TERMS,
    WordReader,
    parse_text,
)
from nearcast.query.plain import plain_codes
from nearcast.query.tree import And, Everything, Not, Or, Phrase, Query, Word
from nearcast.text import Analyzer
from nearcast.text.words import Spans, WordTable, string_spans

__all__ = [
    "MAX_CLAUSES",
    "MAX_DEPTH",
    "MAX_QUERY_CHARS",
    "MAX_QUERY_TERMS",
    "NOT",
    "NOT_PHRASE",
    "PHRASE",
    "And",
    "Clause",
    "CompiledQueries",
    "Everything",
    "Not",
    "Or",
    "Phrase",
    "Query",
    "Word",
    "compile_queries",
    "compile_query",
    "compile_trees",
    "parse",
]

#: Marks in the code of a clause; terms are never negative.
NOT, PHRASE, NOT_PHRASE = -1, -2, -3

#: Rows compiled at a time: enough to spread the cost of a call, few enough for the scratch arrays to stay in the cache.
_BLOCK_ROWS = 1 << 14
#: A compiler forgets the words it has read beyond this many; a large vocabulary as Python objects would fill memory.
_REMEMBERED_WORDS = 1 << 18
_DEFAULT_ANALYZER = Analyzer()


def parse(query: str | Mapping[str, Any] | Query, analyzer: Analyzer = _DEFAULT_ANALYZER) -> Query:
    """Return the tree of a query given as text or in the JSON form (a mapping); a tree is returned as it is.

    Words are normalised by `analyzer`; one that splits into several tokens becomes a phrase, stop words are ignored.
    `parse(str(query)) == query` and `parse(query.to_json()) == query`. Raises InvalidQuery.

    >>> parse('(ramen OR Noodles) AND NOT "instant food"')
    And(parts=(Or(parts=(Word(text='ramen'), Word(text='noodles'))), Not(part=Phrase(words=('instant', 'food')))))
    """
    if isinstance(query, str):
        if not query.isascii() and any("\ud800" <= letter <= "\udfff" for letter in query):
            raise InvalidQuery("the query holds half a character (a lone surrogate); correct it", query=query)
        return _read(query, analyzer)
    if isinstance(query, Mapping):
        return parse_json(query, WordReader(analyzer))
    if isinstance(query, Query):
        return query
    raise InvalidQuery(f"a query is text or a JSON object, got {type(query).__name__}: give a str or a dict")


@functools.lru_cache(maxsize=64)  # a subscription is read when its value is made, and again when it is stored
def _read(query: str, analyzer: Analyzer) -> Query:
    return parse_text(query, WordReader(analyzer))


@dataclass
class CompiledQueries:
    """Codes of many queries, the form in which an index checks them.

    Row i owns the clauses clause_start[i]:clause_start[i + 1], clause c the code code_start[c]:code_start[c + 1].
    A code is the ids of the words that must be there (distinct, ascending), then `NOT, t` for each word that must not,
    `PHRASE, length, t…` for each phrase and `NOT_PHRASE, length, t…` for each that must be absent. A row in `errors`
    (ascending) has no clauses, nor has a query that contradicts itself.
    """

    clause_start: np.ndarray
    code_start: np.ndarray
    code: np.ndarray
    errors: list[tuple[int, InvalidQuery]]


def compile_queries(
    queries: pa.Array | pa.ChunkedArray,
    table: WordTable,
    *,
    analyzer: Analyzer = _DEFAULT_ANALYZER,
    has_region: np.ndarray,
) -> CompiledQueries:
    """Return the codes of a string column of queries, adding their words to `table`; null is the empty query.

    A bad row becomes an entry of `errors` and never stops the rest; so does a query that needs a region where
    `has_region` is False.
    """
    compiler = _Compiler(table, analyzer)
    has_region = np.asarray(has_region, bool)
    blocks, first = [], 0
    for rows in _blocks(queries):
        blocks.append(compiler.block(rows, has_region[first : first + len(rows)], first))
        first += len(rows)
    return _joined(blocks)


def compile_query(
    query: str, table: WordTable, *, analyzer: Analyzer = _DEFAULT_ANALYZER, has_region: bool
) -> CompiledQueries:
    """Return the codes of one query, as `compile_queries` does for a column.

    It calls no kernel: those for columns would take a second to compile before the first subscription of a new
    installation.
    """
    answer = _checked(query, _clauses_or_error(query, lambda text: _read(text, analyzer)), has_region)
    if isinstance(answer, InvalidQuery):
        return CompiledQueries(np.zeros(2, np.int64), np.zeros(1, np.int64), np.empty(0, np.int32), [(0, answer)])
    words = list(_words_of(answer))
    ids = dict(zip(words, table.ids_of(words, add=True).tolist(), strict=True))
    code, ends = _codes(answer, ids)
    return CompiledQueries(np.array([0, len(answer)]), np.array([0, *ends]), np.array(code, np.int32), [])


def compile_trees(queries: Sequence[Query], table: WordTable, *, has_region: np.ndarray) -> CompiledQueries:
    """Return the codes of queries already parsed, as `compile_queries` does for text; words are taken as they are."""
    compiler = _Compiler(table, _DEFAULT_ANALYZER)
    answers = [_clauses_or_error(query, parse) for query in queries]
    texts, numbers = [str(query) for query in queries], np.arange(len(queries))
    return _joined([compiler.encoded(texts, answers, np.asarray(has_region, bool), numbers)])


@dataclass
class _Block:
    """Codes of consecutive rows: `clauses` per row, `lengths` per clause, `code`."""

    clauses: np.ndarray
    lengths: np.ndarray
    code: np.ndarray
    errors: list[tuple[int, InvalidQuery]]


def _joined(blocks: list[_Block]) -> CompiledQueries:
    return CompiledQueries(
        clause_start=_starts([block.clauses for block in blocks]),
        code_start=_starts([block.lengths for block in blocks]),
        code=np.concatenate([np.empty(0, np.int32), *(block.code for block in blocks)]),
        errors=[error for block in blocks for error in block.errors],
    )


#: What becomes of one query.
_Answer = tuple[Clause, ...] | InvalidQuery


class _Compiler:
    """Compiles blocks of rows: plain ones by kernel, the others by the parser."""

    def __init__(self, table: WordTable, analyzer: Analyzer):
        self._table = table
        self._is_plain = analyzer.segmenter == "unicode" and not analyzer.stem and not analyzer.stop_words
        self.reader = WordReader(analyzer)
        self._ids: dict[str, int] = {}

    def block(self, rows: Spans, has_region: np.ndarray, first: int) -> _Block:
        """Return the codes of `rows`, of which the first is row `first` of the column."""
        if self._is_plain:
            words, code = plain_codes(rows, self._table)
        else:
            words, code = np.full(len(rows), -1, np.int64), np.empty(0, np.int32)
        clauses = (words >= 0).astype(np.int64)
        unbounded = np.flatnonzero((words == 0) & ~has_region)
        clauses[unbounded] = 0
        errors = [(first + row, _region_needed("")) for row in unbounded.tolist()]
        block = _Block(clauses, words[clauses > 0], code, errors)
        others = np.flatnonzero(words < 0)
        if not len(others):
            return block
        texts = [_text_of(rows, row) for row in others.tolist()]
        return _merged(block, others, self.encoded(texts, self._clauses_of(texts), has_region[others], first + others))

    def _clauses_of(self, texts: list[str]) -> list[_Answer]:
        known: dict[str, _Answer] = {}
        for text in texts:
            if text not in known:
                known[text] = _clauses_or_error(text, functools.partial(parse_text, reader=self.reader))
        return [known[text] for text in texts]

    def encoded(self, texts: list[str], answers: list[_Answer], has_region: np.ndarray, numbers: np.ndarray) -> _Block:
        """Return the codes of queries already expanded; `numbers` are their rows in the column, for errors."""
        errors: list[tuple[int, InvalidQuery]] = []
        found: list[tuple[Clause, ...]] = []
        for text, answer, bounded, number in zip(texts, answers, has_region.tolist(), numbers.tolist(), strict=True):
            answer = _checked(text, answer, bounded)
            if isinstance(answer, InvalidQuery):
                errors.append((number, answer))
                answer = ()
            found.append(answer)
        self._learn(found)
        code, ends = _codes(itertools.chain.from_iterable(found), self._ids)
        lengths = np.diff(np.array(ends, np.int64), prepend=np.int64(0))
        counts = np.array([len(clauses) for clauses in found], np.int64)
        return _Block(counts, lengths, np.array(code, np.int32), errors)

    def _learn(self, found: list[tuple[Clause, ...]]) -> None:
        """Give every word of these clauses its id, asking the table once for all that are new."""
        if len(self._ids) > _REMEMBERED_WORDS:
            self._ids.clear()
            self.reader.known.clear()
        new = [word for word in _words_of(itertools.chain.from_iterable(found)) if word not in self._ids]
        self._ids.update(zip(new, self._table.ids_of(new, add=True).tolist(), strict=True))


def _clauses_or_error(query: str | Query, read: Callable[[str], Query]) -> _Answer:
    try:
        return clauses_of(query if isinstance(query, Query) else read(query), MAX_CLAUSES)
    except InvalidQuery as error:
        error.query = str(query)
        return error.with_traceback(None)  # it outlives this call, the frames need not


def _checked(text: str, answer: _Answer, has_region: bool) -> _Answer:
    """Return the clauses, or the error of a query that can be true without any word and has no region."""
    if isinstance(answer, tuple) and not has_region and not all(clause.words for clause in answer):
        return _region_needed(text)
    return answer


def _words_of(clauses: Iterable[Clause]) -> dict[str, None]:
    """Return the words of clauses, in order: ids must not depend on the hashes of one process."""
    return {
        word: None
        for clause in clauses
        for words in (clause.words, clause.not_words, *clause.not_phrases)
        for word in words
    }


def _codes(clauses: Iterable[Clause], ids: dict[str, int]) -> tuple[list[int], list[int]]:
    """Return the codes of clauses, one after the other, and where each ends."""
    code: list[int] = []
    ends: list[int] = []
    for clause in clauses:
        _append_code(code, clause, ids)
        ends.append(len(code))
    return code, ends


def _region_needed(text: str) -> InvalidQuery:
    if not text.strip():
        return InvalidQuery("an empty query matches everything, so it needs a region: add words or a region")
    return InvalidQuery(
        "the query can be true without any word (it is only NOT, or has such an alternative), so it needs a region:"
        " add a word that must be there, or a region",
        query=text,
    )


def _append_code(code: list[int], clause: Clause, ids: dict[str, int]) -> None:
    code.extend(sorted([ids[word] for word in clause.words]))
    for word in clause.not_words:
        code += (NOT, ids[word])
    for mark, phrases in ((PHRASE, clause.phrases), (NOT_PHRASE, clause.not_phrases)):
        for phrase in phrases:
            code += (mark, len(phrase))
            code.extend([ids[word] for word in phrase])


def _merged(plain: _Block, which: np.ndarray, parsed: _Block) -> _Block:
    """Return both blocks as one: row which[i] is row i of `parsed`, the others are those of `plain`."""
    clauses = plain.clauses.copy()
    clauses[which] = parsed.clauses
    row = np.concatenate([np.flatnonzero(plain.clauses), np.repeat(which, parsed.clauses)])
    order = np.argsort(row, kind="stable")
    lengths = np.concatenate([plain.lengths, parsed.lengths])
    old_start = np.cumsum(lengths) - lengths
    lengths, old_start = lengths[order], old_start[order]
    new_start = np.cumsum(lengths) - lengths
    code = np.concatenate([plain.code, parsed.code])
    moved = np.repeat(old_start - new_start, lengths) + np.arange(len(code))
    return _Block(clauses, lengths, code[moved], sorted(plain.errors + parsed.errors, key=lambda error: error[0]))


def _starts(counts: list[np.ndarray]) -> np.ndarray:
    return np.cumsum(np.concatenate([np.zeros(1, np.int64), *counts]))


def _blocks(queries: pa.Array | pa.ChunkedArray) -> Iterator[Spans]:
    for spans in string_spans(queries):
        for first in range(0, len(spans), _BLOCK_ROWS):
            yield spans.rows(first, min(first + _BLOCK_ROWS, len(spans)))


def _text_of(rows: Spans, row: int) -> str:
    first = int(rows.start[row])
    return rows.data[first : first + max(int(rows.length[row]), 0)].tobytes().decode("utf-8", "replace")
