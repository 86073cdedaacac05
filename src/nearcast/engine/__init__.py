"""The one engine that every surface runs: a `State`, and `step`, which applies one input to it.

Inputs are the values of `items`: changes of subscriptions, batches of messages, time. The hub hands them over for one
process, a pipeline for each partition, and nothing else changes what a state answers. Plain Python over the indexes,
without threads, clocks or files of its own. Time is event time: it moves with the messages' `time` and with `Advance`,
never with the wall clock. A call that raises has changed nothing; `recovery` says how.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from nearcast.engine import arrivals, changes
from nearcast.engine.arrivals import about_late, count_late, deliveries_of, untimed_rows, why_late, why_untimed
from nearcast.engine.changes import adopt
from nearcast.engine.items import Advance, CountFrom, Item, Move, Publish, Subscribe, Unsubscribe, UseVocabulary
from nearcast.engine.state import State
from nearcast.engine.upkeep import compact_words, make_good, purge, renumber_if_sparse, whole

if TYPE_CHECKING:
    from nearcast.deliveries import Piece

__all__ = [
    "Advance",
    "CountFrom",
    "Item",
    "Move",
    "Publish",
    "State",
    "Subscribe",
    "Unsubscribe",
    "UseVocabulary",
    "about_late",
    "adopt",
    "compact_words",
    "count_late",
    "deliveries_of",
    "make_good",
    "purge",
    "renumber_if_sparse",
    "step",
    "untimed_rows",
    "why_late",
    "why_untimed",
]


@whole
def step(state: State, item: Item) -> list[Piece]:
    """Apply a change or messages; return what is delivered, in the order of delivery."""
    match item:
        case Publish():
            return arrivals.publish(state, item)
        case Subscribe():
            return changes.subscribe(state, item)
        case Move():
            return changes.move(state, item)
        case Unsubscribe():
            return changes.unsubscribe(state, item)
        case Advance():
            return arrivals.advance(state, item)
        case UseVocabulary():
            return changes.use_vocabulary(state, item)
        case CountFrom():
            state.next_step = item.step
            return []
        case _:
            assert_never(item)
