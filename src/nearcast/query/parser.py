"""From text to the tree of a query.

Hand-made rather than a lark grammar, because lark's bare LALR parse alone would use up the time that reading,
normalising and expanding a query together may take. One regular expression cuts the text into chunks; a builder with
its own stack puts them together, so no input can exhaust Python's.
"""

import dataclasses
import re

from nearcast.errors import InvalidQuery
from nearcast.query.foreign import foreign_form
from nearcast.query.tree import EVERYTHING, And, Not, Or, Phrase, Query, Word
from nearcast.text import Analyzer

#: A query longer than this is refused; so is one whose normalised form `str(query)` is.
MAX_QUERY_CHARS = 10_000
#: Words of a query, those in phrases and repeated ones included.
MAX_QUERY_TERMS = 1_000
#: Parentheses and NOTs inside one another.
MAX_DEPTH = 64

_QUOTES = '"“”„'
_CHUNKS = re.compile(rf"[()]|[{_QUOTES}][^{_QUOTES}]*[{_QUOTES}]?|[^\s(){_QUOTES}]+")
#: What people write in other languages, and what it is called here.
_FOREIGN_OPERATORS = {"|": "OR", "||": "OR", "&": "AND", "&&": "AND", "+": "AND", "-": "NOT", "!": "NOT"}
_UNREAD = object()


class WordReader:
    """Turns written words and quoted phrases into nodes, remembering them; make one per analyzer and batch."""

    def __init__(self, analyzer: Analyzer):
        self._analyzer = analyzer
        self.known: dict[str, Query | None] = {}

    def node(self, written: str) -> Query | None:
        """Return the node of a word or phrase, None if it holds nothing but stop words; NoToken if there is no word."""
        words = self._analyzer.tokens(written)
        if words:
            return Word(words[0]) if len(words) == 1 else Phrase(tuple(words))
        if self._analyzer.stop_words and dataclasses.replace(self._analyzer, stop_words=False).tokens(written):
            return None
        raise NoToken

    def chunk(self, chunk: str, index: int) -> Query | None:
        """Return the node of a chunk of query text; `index` is for the error."""
        node = self.known.get(chunk, _UNREAD)
        if node is _UNREAD:
            node = self.known[chunk] = self._read(chunk, index)
        return node  # type: ignore[return-value]

    def _read(self, chunk: str, index: int) -> Query | None:
        if chunk[0] in _QUOTES and (len(chunk) == 1 or chunk[-1] not in _QUOTES):
            raise _Fault('unclosed quote: add a closing " after the phrase, or remove this one', index)
        try:
            node = self.node(chunk)
        except NoToken:
            raise _Fault(_without_token(chunk), index) from None
        if chunk[0] in "-!":
            word = chunk.lstrip("-!")
            raise _Fault(f'"{chunk[0]}" does not exclude a word here: write NOT {word}, or {word} to require it', index)
        return node


class NoToken(Exception):
    """A written word has neither letter, digit nor emoji."""


class _Fault(Exception):
    """What is wrong, and with which chunk."""

    def __init__(self, reason: str, index: int):
        super().__init__(reason)
        self.reason, self.index = reason, index


def parse_text(query: str, reader: WordReader) -> Query:
    """Return the tree of a query in the text language; InvalidQuery says what is wrong and where."""
    if len(query) > MAX_QUERY_CHARS:
        raise InvalidQuery(_too_long(len(query)), query=query)
    chunks = _CHUNKS.findall(query)
    if not chunks:
        return EVERYTHING
    foreign = foreign_form(query)
    if foreign is not None:
        raise _error_at(query, *foreign)
    builder = _Builder()
    handlers = {"(": builder.open, ")": builder.close, "AND": builder.and_, "OR": builder.or_, "NOT": builder.not_}
    known = reader.known.get
    try:
        for index, chunk in enumerate(chunks):
            node = known(chunk)
            if node is None and chunk in handlers:
                handlers[chunk](index)
            else:
                builder.operand(node or reader.chunk(chunk, index))
        tree = builder.finish()
    except _Fault as fault:
        raise _located(query, fault) from None
    return within_limits(not_only_stop_words(tree, query), query)


class _Builder:
    """Puts chunks together by precedence (NOT, AND, OR), with a stack of the groups still open."""

    __slots__ = ("alternatives", "depth", "filled", "nots", "outer", "parts", "waiting")

    def __init__(self) -> None:
        self.outer: list[tuple[list[Query], list[Query], int, int]] = []
        self.alternatives: list[Query] = []  # of this group, finished by an OR
        self.parts: list[Query] = []  # of the alternative being read
        self.nots = 0  # directly before the next operand
        self.waiting: tuple[int, str] | None = None  # the operator that still needs its operand
        self.filled = False  # this group has an operand, though it may be an ignored stop word
        self.depth = 0

    def operand(self, node: Query | None) -> None:
        """Take a word, phrase or finished group; None is one that is ignored."""
        self.filled, self.waiting = True, None
        if self.nots:
            self.depth -= self.nots
            while self.nots:
                self.nots -= 1
                node = node and Not(node)
        if node is not None:
            self.parts.append(node)

    def not_(self, index: int) -> None:
        """Take a NOT."""
        self._deeper(index)
        self.nots += 1
        self.waiting = (index, "NOT")

    def and_(self, index: int) -> None:
        """Take an AND: nothing to do but to insist on both operands, since parts are joined by AND anyway."""
        self._after_operand(index, "AND")

    def or_(self, index: int) -> None:
        """Take an OR: the alternative before it is finished."""
        self._after_operand(index, "OR")
        self._finish_alternative()

    def open(self, index: int) -> None:
        """Take a "("."""
        self._deeper(index)
        self.outer.append((self.alternatives, self.parts, self.nots, index))
        self.alternatives, self.parts, self.nots, self.waiting, self.filled = [], [], 0, None, False

    def close(self, index: int) -> None:
        """Take a ")": the group is an operand of the one around it."""
        if not self.outer:
            raise _Fault('no "(" belongs to this ")": remove it, or add a "(" before it', index)
        if not self.filled and self.waiting is None:
            raise _Fault("empty parentheses: put a word inside, or remove them", self.outer[-1][3])
        group = self._finish_group()
        self.alternatives, self.parts, self.nots, _ = self.outer.pop()
        self.depth -= 1
        self.operand(group)

    def finish(self) -> Query | None:
        """Return the tree, None if every word was ignored."""
        if self.waiting is None and self.outer:
            raise _Fault('unclosed parenthesis: add a ")", or remove this "("', self.outer[-1][3])
        return self._finish_group()

    def _deeper(self, index: int) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _Fault(TOO_DEEP, index)

    def _after_operand(self, index: int, name: str) -> None:
        self._insist_on_operand()
        if not self.filled:
            raise _Fault(f"{name} has nothing before it: {_ADD_OPERAND.format(name.lower())}", index)
        self.waiting = (index, name)

    def _insist_on_operand(self) -> None:
        if self.waiting is not None:
            index, name = self.waiting
            raise _Fault(f"{name} has nothing after it: {_ADD_OPERAND.format(name.lower())}", index)

    def _finish_alternative(self) -> None:
        parts = self.parts
        if parts:
            self.alternatives.append(parts[0] if len(parts) == 1 else And(tuple(parts)))
            self.parts = []

    def _finish_group(self) -> Query | None:
        self._insist_on_operand()
        self._finish_alternative()
        alternatives = self.alternatives
        if len(alternatives) > 1:
            return Or(tuple(alternatives))
        return alternatives[0] if alternatives else None


_ADD_OPERAND = 'put a word there, or write "{}" in lower case if you mean the word'
TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels: remove parentheses or NOTs that are not needed"


def _without_token(chunk: str) -> str:
    if chunk[0] in _QUOTES:
        return "no word between these quotes: put one there, or remove them"
    reason = f"{chunk!a} has no letter, digit or emoji that could be searched for: remove it"
    instead = _FOREIGN_OPERATORS.get(chunk)
    return f"{reason}, or write {instead}" if instead else reason


def _too_long(size: int) -> str:
    return f"the query has {size:,} characters, at most {MAX_QUERY_CHARS:,} are allowed: split it into several"


def _located(query: str, fault: _Fault) -> InvalidQuery:
    """Return the error with line and column of the chunk at fault."""
    # Chunks carry no positions, which only errors need: scanning again is cheaper than recording them every time.
    position = next(match.start() for at, match in enumerate(_CHUNKS.finditer(query)) if at == fault.index)
    return _error_at(query, position, fault.reason)


def _error_at(query: str, position: int, reason: str) -> InvalidQuery:
    """Return the error with line and column of a position; lines end as in `str.splitlines`."""
    line = 1
    for each in query.splitlines(keepends=True):
        if position < len(each):
            break
        position -= len(each)
        line += 1
    return InvalidQuery(reason, query=query, line=line, column=position + 1)


def not_only_stop_words(tree: Query | None, query: str) -> Query:
    """Return `tree` unless every word of the query was ignored."""
    if tree is None:
        raise InvalidQuery("the query has nothing but stop words, which are ignored: add another word", query=query)
    return tree


def within_limits(tree: Query, query: str) -> Query:
    """Return `tree` if it has few enough words and its own text is short enough to be parsed again."""
    # A character gives at most one word, and case folding and quotes lengthen a text less than tenfold.
    if len(query) <= MAX_QUERY_TERMS:
        return tree
    words = tree.n_words
    if words > MAX_QUERY_TERMS:
        raise InvalidQuery(
            f"the query has {words:,} words, at most {MAX_QUERY_TERMS:,} are allowed: split it into several",
            query=query,
        )
    size = len(str(tree))
    if size > MAX_QUERY_CHARS:
        raise InvalidQuery(_too_long(size) + " (normalised length)", query=query)
    return tree
