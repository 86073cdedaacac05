"""Limits of a query: its characters, its words, and how deep parentheses and NOTs stand in one another.

A query in the JSON form is measured as the text that it is kept as; given `terms` count with those of the query.
"""

from __future__ import annotations

import re
from typing import Any

from nearcast.model import Subscription, Within
from nearcast.query import parse
from nearcast.server.problems import OverLimit
from nearcast.server.settings import LimitSettings
from nearcast.text import Analyzer

_QUOTED = re.compile(r'["“”„][^"“”„]*["“”„]?')
_STEPS = re.compile(r"[()]|[^\s()]+")
_SPLIT = "split it into several"


def check_written_query(given: Any, limits: LimitSettings) -> None:
    """Raise if the text of a query, as it was given, is too long to be read."""
    if isinstance(given, str):
        _check("query", len(given), "characters", "query_chars", limits)


def check_query(value: Subscription, limits: LimitSettings) -> None:
    """Raise if the query of a subscription is over a limit."""
    terms = () if isinstance(value, Within) else value.terms or ()
    n_term_chars = sum(map(len, terms))
    blamed = "terms" if n_term_chars > len(value.query) else "query"
    _check(blamed, len(value.query) + n_term_chars, "characters", "query_chars", limits)
    n_words = parse(value.query).n_words if isinstance(value, Within) else len(Analyzer().tokens(value.query))
    blamed = "terms" if len(terms) > n_words else "query"
    _check(blamed, n_words + len(terms), "words", "query_words", limits)
    if isinstance(value, Within):
        _check("query", depth_of(value.query), "levels of parentheses and NOTs", "query_depth", limits)


def _check(field: str, given: int, what: str, limit: str, limits: LimitSettings) -> None:
    allowed = getattr(limits, limit)
    if given > allowed:
        reason = f"{field} has {given:,} {what}; limits.{limit} allows {allowed:,}, {_SPLIT}"
        raise OverLimit(reason, field=field, limit=f"limits.{limit}", given=given, allowed=allowed)


def depth_of(query: str) -> int:
    """Return how deep parentheses and NOTs stand in one another in a query that was read without a mistake."""
    deepest = depth = n_nots = 0
    outer: list[int] = []  # the NOTs before each open group
    for step in _STEPS.findall(_QUOTED.sub(" x ", query)):
        if step == ")":
            depth -= 1 + outer.pop()
        elif step == "(":
            outer.append(n_nots)
            depth, n_nots = depth + 1 + n_nots, 0
        elif step == "NOT":
            n_nots += 1
        else:
            n_nots = 0
        deepest = max(deepest, depth + n_nots)
    return deepest
