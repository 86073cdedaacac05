"""What is drawn for the rows of a workload."""

from __future__ import annotations

from dataclasses import dataclass

from nearcast.bench.data.word_lists import Count
from nearcast.errors import InvalidInput

#: The least and the most that regions take up, as a share of the space; equal ends fix it.
Share = tuple[float, float]


@dataclass(frozen=True)
class Recipe:
    """What is drawn for the rows of a workload: evenly between two ends, which are equal to fix a value.

    Numbers of words that are given are met exactly where there are enough words. None: messages have the words of
    their row, or 5 to 15 generated ones, and subscriptions 1 to 5, before repeats go where they are generated.
    """

    message_words: Count | None = None
    subscription_words: Count | None = None
    text_weight: tuple[float, float] = (0.0, 1.0)
    threshold: tuple[float, float] = (0.5, 1.0)
    similarity: str | None = None
    #: Of top-k subscriptions: how many messages each wants, and whether their words come by Zipf's law, the most common
    #: first, and not from a message at the same place.
    k: int = 20
    zipf_words: bool = False
    #: Messages have a time, and come in its order.
    timed: bool = False
    #: Messages are rectangles of such an area around their place, as a share of the space; else points.
    message_area: Share | None = None
    #: Regions of boolean subscriptions have such an area, as a share of the space.
    region_area: Share | None = None
    #: Boolean subscriptions are so many conjunctions joined by OR, each with words of its own and now and then a NOT.
    alternatives: Count | None = None
    #: The words of boolean subscriptions fall into two groups, with AND or OR at random in each and between them.
    mixed: bool = False
    #: What subscriptions ask for changes from the first to the last: from west to east, from some words to others.
    drifting: bool = False

    def __post_init__(self) -> None:
        for name in ("message_area", "region_area"):
            share = getattr(self, name)
            if share is not None and not 0 < share[0] <= share[1] <= 1:
                raise InvalidInput(
                    f"{name} is {share}; expected two shares of the space above 0 and up to 1", field=name
                )
        if self.alternatives is not None and self.mixed:
            raise InvalidInput("alternatives and mixed say two things of one query; give one", field="mixed")
        if self.alternatives is not None and not 1 <= self.alternatives[0] <= self.alternatives[1]:
            raise InvalidInput(f"alternatives is {self.alternatives}; expected numbers from 1 on", field="alternatives")
