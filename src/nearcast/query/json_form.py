"""From the JSON form to the tree of a query; errors name the path of what is wrong."""

from collections.abc import Mapping
from typing import Any

from nearcast.errors import InvalidQuery
from nearcast.query.parser import (
    MAX_DEPTH,
    MAX_QUERY_CHARS,
    MAX_QUERY_TERMS,
    TOO_DEEP,
    NoToken,
    WordReader,
    not_only_stop_words,
    within_limits,
)
from nearcast.query.tree import EVERYTHING, And, Not, Or, Query, needs_parentheses

_KEYS = '"and", "or", "not", "word", "phrase"'


def parse_json(query: Mapping[str, Any], reader: WordReader) -> Query:
    """Return the tree of a query in the JSON form; InvalidQuery names the path of what is wrong."""
    if not query:
        return EVERYTHING
    tree = _JsonReader(reader).node(query, "$", 0)
    written = str(tree) if tree is not None else ""
    return within_limits(not_only_stop_words(tree, written), written)


class _JsonReader:
    """Walks the JSON form, counting words and depth on the way down so that hostile input ends early."""

    def __init__(self, reader: WordReader):
        self._reader = reader
        self._values = 0

    def node(self, value: Any, path: str, depth: int, outer: type[Query] | None = None) -> Query | None:
        """Return the node of `value`; `depth` counts as in text: NOTs and the parentheses it would be written in."""
        if not isinstance(value, Mapping) or len(value) != 1:
            given = f"an object with {len(value)} keys" if isinstance(value, Mapping) else _kind(value)
            raise InvalidQuery(f"{path}: expected an object with one key ({_KEYS}), got {given}")
        ((key, content),) = value.items()
        key = str(key)[:80]
        path = f"{path}.{key}"
        if key == "and":
            return self._group(And, content, path, depth, outer)
        if key == "or":
            return self._group(Or, content, path, depth, outer)
        if key == "not":
            part = self.node(content, path, _deeper(depth, path), Not)
            return part and Not(part)
        if key == "word":
            return self._words([content], path)
        if key == "phrase":
            return self._phrase(content, path)
        raise InvalidQuery(f"{path}: unknown key {key!a}, expected one of {_KEYS}")

    def _group(
        self, kind: type[And] | type[Or], content: Any, path: str, depth: int, outer: type[Query] | None
    ) -> Query | None:
        if not isinstance(content, list | tuple) or not content:
            raise InvalidQuery(f"{path}: expected a list of at least one query, got {_kind(content)}")
        if len(content) == 1 or (outer is not None and needs_parentheses(outer, kind)):
            depth = _deeper(depth, path)
        inside = kind if len(content) > 1 else outer
        nodes = [self.node(part, f"{path}[{at}]", depth, inside) for at, part in enumerate(content)]
        parts = [node for node in nodes if node is not None]
        if len(parts) > 1:
            return kind(tuple(parts))
        return parts[0] if parts else None

    def _phrase(self, content: Any, path: str) -> Query | None:
        if not isinstance(content, list | tuple) or not content:
            raise InvalidQuery(f"{path}: expected a list of at least one word, got {_kind(content)}")
        return self._words(content, path)

    def _words(self, written: list[Any] | tuple[Any, ...], path: str) -> Query | None:
        for at, word in enumerate(written):
            if not isinstance(word, str):
                where = path if len(written) == 1 else f"{path}[{at}]"
                raise InvalidQuery(f"{where}: expected a string, got {_kind(word)}")
        self._values += len(written)
        text = " ".join(written)
        if self._values > MAX_QUERY_TERMS or len(text) > MAX_QUERY_CHARS:
            raise InvalidQuery(
                f"{path}: the query has more than {MAX_QUERY_TERMS:,} words or {MAX_QUERY_CHARS:,} characters:"
                " split it into several"
            )
        try:
            return self._reader.node(text)
        except NoToken:
            raise InvalidQuery(f"{path}: {text[:80]!a} has no letter, digit or emoji: remove it") from None


def _deeper(depth: int, path: str) -> int:
    if depth >= MAX_DEPTH:
        raise InvalidQuery(f"{path[:80]}…: {TOO_DEEP}")
    return depth + 1


def _kind(value: Any) -> str:
    if isinstance(value, list | tuple) and not value:
        return "an empty list"
    names = {str: "a string", bool: "a boolean", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return "null" if value is None else names.get(type(value), f"a {type(value).__name__}")
