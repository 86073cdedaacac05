"""Limits of nested values: their depth, measured before a parser that recurses sees them, and text within them."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

#: The deepest nesting that is read. A MultiPolygon in a Feature of a collection is eight deep.
MAX_DEPTH = 100

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NO_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))


def is_deep_json(text: bytes) -> bool:
    """Tell whether a JSON text is nested more than `MAX_DEPTH` deep; bytes that are no JSON have a depth as well."""
    if text.count(b"[") + text.count(b"{") <= MAX_DEPTH:
        return False
    brackets = np.frombuffer(_STRING.sub(b"", text).translate(None, _NO_BRACKETS), np.uint8)
    is_opening = (brackets == ord("[")) | (brackets == ord("{"))
    depth = np.cumsum(np.where(is_opening, 1, -1))
    return bool(depth.max(initial=0) > MAX_DEPTH)


def is_deep(value: Any) -> bool:
    """Tell whether a value is nested more than `MAX_DEPTH` deep in dicts, lists and tuples; one in itself is."""
    waiting = [(value, 0)]
    while waiting:
        each, depth = waiting.pop()
        if isinstance(each, Mapping | list | tuple):
            if depth == MAX_DEPTH:
                return True
            waiting.extend((inner, depth + 1) for inner in (each.values() if isinstance(each, Mapping) else each))
    return False


def has_half_character(value: Any) -> bool:
    """Tell whether text within a value, which is not deep, holds half of a surrogate pair: no file can store it."""
    if isinstance(value, str):
        return not is_encodable(value)
    if isinstance(value, Mapping):
        return any(has_half_character(each) for pair in value.items() for each in pair)
    return isinstance(value, list | tuple) and any(map(has_half_character, value))


def is_encodable(text: str) -> bool:
    """Tell whether text can be written in UTF-8: half of a surrogate pair cannot."""
    if text.isascii():  # at once, without a copy
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
