"""Values that a body of JSON must not have, found with the JSON pointer to each.

They are numbers that are none (NaN, Infinity) or need more than 64 bits, half characters, and zero bytes. Some are no
JSON and stop the parser without a word about where they stand, others it takes and a column of Arrow or SQLite does
not. A body is read a second time for them, by the parser of Python, unless `may_have_faults` tells that it need not be.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from nearcast.nesting import is_deep_json, is_encodable

#: Digits of the largest whole number that int64 holds, which text of as many digits is compared with.
_MOST = b"%d" % ((1 << 63) - 1)
#: What may be a number: a run of digits that neither lies in other text nor follows a point.
_LONG_NUMBER = re.compile(rb"(?<![^\s,:\[-])[0-9]{%d,}(?![^\s,\]}.eE])" % len(_MOST))
_DIGITS_AS_ZEROS = bytes(ord("0") if chr(each).isdigit() and each < 128 else each for each in range(256))
_LONG_ZEROS = b"0" * len(_MOST)
_INT64 = range(-(1 << 63), 1 << 63)
_SHOWN_CHARS = 40
_TOO_LARGE = "needs more than 64 bits; give a smaller number, or text"


class JsonFault(NamedTuple):
    """A value that cannot be used: the names on the way to it, a slug of what is wrong, and a sentence about it."""

    names: tuple[str | int, ...]
    slug: str
    reason: str


@dataclass(frozen=True)
class _BadNumber:
    """A number as it was written, in the place of its value, and what is wrong with it."""

    text: str
    about: str


def may_have_faults(body: bytes) -> bool:
    """Tell whether a body that the parser takes may have a fault: a zero byte, or a number of many digits."""
    if b"\\u0000" in body:
        return True
    if _LONG_ZEROS not in body.translate(_DIGITS_AS_ZEROS):
        return False
    return any(len(found[0]) > len(_MOST) or found[0] > _MOST for found in _LONG_NUMBER.finditer(body))


def read_with_faults(body: bytes) -> Any:
    """Return the value of a body that may have faults, to be looked through; None if it is no JSON otherwise."""
    if is_deep_json(body):
        return None
    try:
        text = body.decode("utf-8", "surrogatepass")
        return json.loads(text, parse_constant=_constant, parse_float=_float, parse_int=_int)
    except (ValueError, RecursionError):
        return None


def _constant(text: str) -> _BadNumber:
    return _BadNumber(text, "is no number of JSON; give a finite number, or leave it out")


def _float(text: str) -> float | _BadNumber:
    found = float(text)
    return found if math.isfinite(found) else _BadNumber(text, _TOO_LARGE)


def _int(text: str) -> int | _BadNumber:
    is_short = len(text) <= len(_MOST) + 1  # with its sign; Python refuses to read thousands of digits
    return int(text) if is_short and int(text) in _INT64 else _BadNumber(text, _TOO_LARGE)


def fault_within(value: Any) -> JsonFault | None:
    """Return the first fault of a value of `read_with_faults`, None if it has none."""
    waiting: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while waiting:
        names, each = waiting.pop()
        if isinstance(each, dict):
            for key in each:
                if (fault := _text_fault(names, key, "a name here")) is not None:
                    return fault
            waiting += [((*names, key), inner) for key, inner in reversed(each.items())]
        elif isinstance(each, list):
            waiting += [((*names, at), inner) for at, inner in reversed(list(enumerate(each)))]
        elif isinstance(each, _BadNumber):
            shown = each.text if len(each.text) <= _SHOWN_CHARS else each.text[:_SHOWN_CHARS] + "…"
            return JsonFault(names, "invalid-number", f"{_called(names)} is {shown}, which {each.about}")
        elif isinstance(each, str) and (fault := _text_fault(names, each, _called(names))) is not None:
            return fault
    return None


def _called(names: tuple[str | int, ...]) -> str:
    """Return what a sentence calls a value: the last name on the way to it."""
    name = next((each for each in reversed(names) if isinstance(each, str)), None)
    return "a value" if name is None else " ".join(name.split())[:_SHOWN_CHARS] or "a value"


def _text_fault(names: tuple[str | int, ...], text: str, called: str) -> JsonFault | None:
    if "\0" in text:
        return JsonFault(names, "zero-byte", f"{called} holds a zero byte (U+0000); remove it")
    if is_encodable(text):
        return None
    half = next(each for each in text if "\ud800" <= each <= "\udfff")
    reason = f"{called} holds half a character (\\u{ord(half):04x}, one of a surrogate pair); correct it"
    return JsonFault(names, "half-character", reason)
