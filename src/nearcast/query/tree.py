"""The tree of a boolean query: what it says, how it is written, what it holds for."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from nearcast.errors import InvalidQuery
from nearcast.query.clauses import MAX_CLAUSES, Clause, Expansion, clauses_of


class Query:
    """A boolean query over the words of a message; made by `parse`, or from its nodes.

    `str(query)` is text that parses to an equal query. Nodes made by hand hold words as given: only `parse`
    normalises them.
    """

    __slots__ = ()

    def __str__(self) -> str:
        return self._text()

    @property
    def needs_region(self) -> bool:
        """Tell whether some alternative requires no word, so that only a region can narrow it.

        Raises InvalidQuery if the query expands to more than `MAX_CLAUSES` alternatives.
        """
        return any(not clause.words for clause in self.clauses())

    @property
    def n_words(self) -> int:
        """Return the number of words, those in phrases and repeated ones included."""
        if isinstance(self, Phrase):
            return len(self.words)
        if isinstance(self, And | Or):
            return sum(part.n_words for part in self.parts)
        return self.part.n_words if isinstance(self, Not) else int(isinstance(self, Word))

    def clauses(self, limit: int = MAX_CLAUSES) -> tuple[Clause, ...]:
        """Return the alternatives (disjunctive normal form) of which a message must meet one; none: it never matches.

        Contradictions and alternatives implied by another are left out. More than `limit` raise InvalidQuery.
        """
        return clauses_of(self, limit)

    def holds(self, tokens: Sequence[str]) -> bool:
        """Tell whether a message with these tokens (or given terms), in this order, satisfies the query."""
        return self._holds(tokens, frozenset(tokens))

    def to_json(self) -> dict[str, Any]:
        """Return the query as JSON-ready dicts and lists; `parse` takes it back."""
        raise NotImplementedError

    def _text(self) -> str:
        raise NotImplementedError

    def _holds(self, tokens: Sequence[str], present: Collection[str]) -> bool:
        raise NotImplementedError

    def _alternatives(self, expansion: Expansion, negated: bool) -> list[int]:
        """Return the alternatives of this node, or of its negation, as `clauses` counts them."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Everything(Query):
    """The empty query: holds for every message."""

    def to_json(self) -> dict[str, Any]:  # noqa: D102 - said once, by Query
        return {}

    def _text(self) -> str:
        return ""

    def _holds(self, tokens: Sequence[str], present: Collection[str]) -> bool:
        return True

    def _alternatives(self, expansion: Expansion, negated: bool) -> list[int]:
        return [] if negated else [0]


@dataclass(frozen=True, slots=True)
class Word(Query):
    """The word must be there.

    >>> Word("ramen").holds(["hot", "ramen"])
    True
    """

    text: str

    def to_json(self) -> dict[str, Any]:  # noqa: D102 - said once, by Query
        return {"word": self.text}

    def _text(self) -> str:
        return self.text

    def _holds(self, tokens: Sequence[str], present: Collection[str]) -> bool:
        return self.text in present

    def _alternatives(self, expansion: Expansion, negated: bool) -> list[int]:
        return [expansion.bit(self.text) << negated]


@dataclass(frozen=True, slots=True)
class Phrase(Query):
    """The words must be there, next to each other and in this order; at least two.

    >>> Phrase(("hot", "dog")).holds(["dog", "hot"])
    False
    """

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.words) < 2:
            raise InvalidQuery(f"a phrase has at least two words, got {len(self.words)}: use Word for one")

    def to_json(self) -> dict[str, Any]:  # noqa: D102 - said once, by Query
        return {"phrase": list(self.words)}

    def _text(self) -> str:
        return f'"{" ".join(self.words)}"'

    def _holds(self, tokens: Sequence[str], present: Collection[str]) -> bool:
        if not all(word in present for word in self.words):
            return False
        size, wanted = len(self.words), list(self.words)
        return any(token == wanted[0] and list(tokens[at : at + size]) == wanted for at, token in enumerate(tokens))

    def _alternatives(self, expansion: Expansion, negated: bool) -> list[int]:
        return [expansion.phrase(self.words, negated)]


@dataclass(frozen=True, slots=True)
class And(Query):
    """All parts must hold; at least two.

    >>> print(And((Word("ipad"), Not(Word("used")))))
    ipad NOT used
    """

    parts: tuple[Query, ...]

    def __post_init__(self) -> None:
        if len(self.parts) < 2 or Everything in map(type, self.parts):
            raise _badly_joined("And", self.parts)

    def to_json(self) -> dict[str, Any]:  # noqa: D102 - said once, by Query
        return {"and": [part.to_json() for part in self.parts]}

    def _text(self) -> str:
        return " ".join([_written_inside(self, part) for part in self.parts])

    def _holds(self, tokens: Sequence[str], present: Collection[str]) -> bool:
        return all(part._holds(tokens, present) for part in self.parts)

    def _alternatives(self, expansion: Expansion, negated: bool) -> list[int]:
        return expansion.any_of(self.parts, True) if negated else expansion.all_of(self.parts, False)


@dataclass(frozen=True, slots=True)
class Or(Query):
    """One part must hold; at least two.

    >>> print(Or((Word("ramen"), Word("noodles"))))
    ramen OR noodles
    """

    parts: tuple[Query, ...]

    def __post_init__(self) -> None:
        if len(self.parts) < 2 or Everything in map(type, self.parts):
            raise _badly_joined("Or", self.parts)

    def to_json(self) -> dict[str, Any]:  # noqa: D102 - said once, by Query
        return {"or": [part.to_json() for part in self.parts]}

    def _text(self) -> str:
        return " OR ".join([_written_inside(self, part) for part in self.parts])

    def _holds(self, tokens: Sequence[str], present: Collection[str]) -> bool:
        return any(part._holds(tokens, present) for part in self.parts)

    def _alternatives(self, expansion: Expansion, negated: bool) -> list[int]:
        return expansion.all_of(self.parts, True) if negated else expansion.any_of(self.parts, False)


@dataclass(frozen=True, slots=True)
class Not(Query):
    """The part must not hold.

    >>> print(Not(Or((Word("used"), Word("broken")))))
    NOT (used OR broken)
    """

    part: Query

    def __post_init__(self) -> None:
        if type(self.part) is Everything:
            raise InvalidQuery("Not needs a word, a phrase or a group; Everything stands alone")

    def to_json(self) -> dict[str, Any]:  # noqa: D102 - said once, by Query
        return {"not": self.part.to_json()}

    def _text(self) -> str:
        return "NOT " + _written_inside(self, self.part)

    def _holds(self, tokens: Sequence[str], present: Collection[str]) -> bool:
        return not self.part._holds(tokens, present)

    def _alternatives(self, expansion: Expansion, negated: bool) -> list[int]:
        return self.part._alternatives(expansion, not negated)


EVERYTHING = Everything()


def needs_parentheses(outer: type[Query], inner: type[Query]) -> bool:
    """Tell whether a node of type `inner` is written in parentheses directly inside one of type `outer`."""
    return inner is Or or (inner is And and outer is not Or)


def _written_inside(outer: Query, inner: Query) -> str:
    text = inner._text()
    return f"({text})" if needs_parentheses(type(outer), type(inner)) else text


def _badly_joined(name: str, parts: tuple[Query, ...]) -> InvalidQuery:
    if len(parts) < 2:
        return InvalidQuery(f"{name} joins at least two parts, got {len(parts)}: use the part itself for one")
    return InvalidQuery(f"{name} joins words, phrases and groups; Everything stands alone")
