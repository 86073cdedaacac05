"""Names that are nearly right: which known name was meant by an unknown one."""

from collections.abc import Iterable
from functools import lru_cache

#: What other systems call things.
_ALIASES = {
    "lng": "lon",
    "long": "lon",
    "longitude": "lon",
    "latitude": "lat",
    "keywords": "query",
    "words": "query",
    "geometry": "region",
    "polygon": "region",
    "ttl": "expires",
    "timestamp": "time",
}
#: Shorter names are within one edit of half the alphabet.
_SHORTEST = 4


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that an unknown one probably stands for, None if there is none."""
    known = list(known)
    alias = _ALIASES.get(name.lower())
    if alias in known:
        return alias
    most = 1 if len(name) <= _SHORTEST else 2
    found = min(((edits(name.lower(), each), each) for each in known), default=(most + 1, ""))
    return found[1] if found[0] <= most else None


def one_edit_away(name: str, known: Iterable[str]) -> str | None:
    """Return the known name of four letters or more that differs in one letter, or two swapped ones; else None."""
    near = (each for each in known if len(each) >= _SHORTEST and abs(len(each) - len(name)) <= 1)
    return next((each for each in near if edits(name.lower(), each) == 1), None)


def other_spelling(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that differs in case alone, or the coordinate that others call so; else None."""
    lower = name.strip().lower()
    meant = {"lng": "lon", "long": "lon", "longitude": "lon", "latitude": "lat"}.get(lower, lower)
    return meant if meant in known else None


@lru_cache(4096)  # the same columns come with every batch
def edits(one: str, other: str) -> int:
    """Return the edit distance: letters added, removed, replaced, and neighbours swapped."""
    rows = [list(range(len(other) + 1))]
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            best = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                best = min(best, rows[-2][j - 2] + 1)
            row.append(best)
        rows.append(row)
    return rows[-1][-1]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question to put behind an error about an unknown name, or nothing."""
    meant = nearest(name, known)
    return "" if meant is None else f"; did you mean {meant}?"
