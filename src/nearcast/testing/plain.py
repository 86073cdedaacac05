"""The scores of `Similar` and `TopK` subscriptions in plain Python: `scan` agrees to the last bit."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nearcast.geo import Space
    from nearcast.model import Similar, TopK

#: What words weigh; a word that is not among them weighs 1.
Weights = Mapping[str, float]
Place = tuple[float, float, float, float]

#: The text functions that depend on the words of a message which the subscription does not have.
WHOLE_MESSAGE = ("jaccard", "dice", "cosine")


def words_of(wanted: Similar | TopK) -> list[str]:
    """Return the words of a subscription, each once, in the order of their strings."""
    return sorted({*wanted.query.split(), *(wanted.terms or ())})


def totals_of(tokens: Iterable[str], weights: Weights) -> tuple[float, float, float]:
    """Return how many distinct words there are, what they weigh, and the squared length of their tf-idf vector.

    All sums go in the order of the words' strings.
    """
    count = Counter(tokens)
    words = sorted(count)
    length = 0.0
    for word in words:
        length += (count[word] * weights.get(word, 1.0)) * (count[word] * weights.get(word, 1.0))
    return float(len(words)), weight_of(words, weights), length


def weight_of(words: Iterable[str], weights: Weights) -> float:
    """Return what words weigh, added one after the other: `sum` may round otherwise."""
    total = 0.0
    for word in words:
        total += weights.get(word, 1.0)
    return total


def text_score(function: str, own: Sequence[str], tokens: Iterable[str], weights: Weights) -> float:
    """Return how well the words `own` of a subscription, sorted, fit those of a message."""
    said = set(tokens)
    shared = [word for word in own if word in said]
    count, weight, _ = totals_of(said, weights)
    if function in ("tsim", "jaccard"):
        common, mine, other = weight_of(shared, weights), weight_of(own, weights), weight
    else:
        common, mine, other = float(len(shared)), float(len(own)), count
    if common == 0.0:
        return 0.0
    below = {
        "tsim": mine,
        "overlap": mine,
        "jaccard": mine + other - common,
        "dice": (mine + other) / 2.0,
        "cosine": math.sqrt(mine * other),
    }
    return common / below[function]


def score(wanted: Similar, tokens: Iterable[str], place: Place, space: Space, weights: Weights) -> float:
    """Return the score of a message for a subscription, whose `max_distance` is given."""
    text = text_score(wanted.similarity, words_of(wanted), tokens, weights)
    return wanted.text_weight * text + (1.0 - wanted.text_weight) * _near(wanted, place, space)


def tfidf_score(own: Sequence[str], tokens: Iterable[str], weights: Weights) -> float | None:
    """Return the cosine of the tf-idf vectors of the words `own`, sorted, and a message; None with none in common."""
    count = Counter(tokens)
    shared = [word for word in own if word in count]
    if not shared:
        return None
    common = mine = 0.0
    for word in shared:
        common += weights.get(word, 1.0) * (count[word] * weights.get(word, 1.0))
    for word in own:
        mine += weights.get(word, 1.0) * weights.get(word, 1.0)
    other = totals_of(count.elements(), weights)[2]
    if common <= 0.0 or mine * other <= 0.0:
        return 0.0
    return min(1.0, common / math.sqrt(mine * other))


def topk_score(wanted: TopK, tokens: Iterable[str], place: Place, space: Space, weights: Weights) -> float | None:
    """Return the score of a message for a top-k subscription with a `max_distance`; None with no word in common."""
    text = tfidf_score(words_of(wanted), tokens, weights)
    if text is None:
        return None
    return wanted.text_weight * text + (1.0 - wanted.text_weight) * _near(wanted, place, space)


def _near(wanted: Similar | TopK, place: Place, space: Space) -> float:
    assert wanted.max_distance is not None, "a subscription of a script has its own max_distance"
    distance = float(space.distance_to_box(*wanted.place, place))
    return max(0.0, 1.0 - distance / wanted.max_distance)
