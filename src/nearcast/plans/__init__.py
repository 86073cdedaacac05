"""Partition plans: which partition holds a subscription, and which messages that partition must see.

The six plans of the Skype paper (§7.3) and our own, for all three kinds of subscription:

    hash             by number; every message to every partition
    location         by place (Algorithm 3); every message to every partition
    keyword          a copy with the owner of every word (Algorithm 4)
    prefix           a copy with the owner of every word of the loose prefix (Def. 12)
    space-first      location, then prefix within each cell
    keyword-first    prefix, then location for each set of words
    trigger          one copy, by place or word; messages go where a needed word meets its cells

`learn` makes a plan, `Plan.place` places subscriptions, and `Routes`, made of the keys that placing gives, tells where
a message goes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import BadZipFile

import numpy as np

from nearcast.errors import IncompatibleStore, unreadable_store
from nearcast.geo import Space
from nearcast.plans.base import (
    ANY_CELL,
    ANY_WORD,
    PLAN_FILE,
    PLAN_FORMAT,
    SEVERAL_WORDS,
    Keys,
    Placement,
    Plan,
    PlanHead,
    PlanSample,
)
from nearcast.plans.copies import KeywordFirstPlan, KeywordPlan, PrefixPlan, SpaceFirstPlan
from nearcast.plans.grid import Grid
from nearcast.plans.routes import Routes
from nearcast.plans.single import HashPlan, LocationPlan
from nearcast.plans.spec import PLAN_NAMES, Spec, parse_spec
from nearcast.plans.trigger import TriggerPlan
from nearcast.text.words import WordTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages, Subscriptions

__all__ = [
    "ANY_CELL",
    "ANY_WORD",
    "PLAN_NAMES",
    "SEVERAL_WORDS",
    "Grid",
    "Keys",
    "Placement",
    "Plan",
    "Routes",
    "Spec",
    "learn",
    "open_plan",
    "parse_spec",
]

_PLANS: dict[str, type[Plan]] = {
    "hash": HashPlan,
    "location": LocationPlan,
    "keyword": KeywordPlan,
    "prefix": PrefixPlan,
    "space-first": SpaceFirstPlan,
    "keyword-first": KeywordFirstPlan,
    "trigger": TriggerPlan,
}


def learn(
    spec: str,
    partitions: int,
    space: Space,
    words: WordTable,
    subscriptions: Subscriptions,
    sample: Messages,
    weights: NDArray[np.float64],
    *,
    thresholds: NDArray[np.float64] | None = None,
    window: int | None = None,
) -> Plan:
    """Return the plan that `spec` names, balanced for these subscriptions and this sample of messages.

    Both are encoded with `words`, and both may be empty; `weights` are by word. `thresholds` are those of top-k
    subscriptions, None for 0; `window` is how many messages theirs holds, None where that is not known.
    """
    name, first, second = parse_spec(spec, partitions)
    head, given = (
        PlanHead(spec, partitions, space, words),
        PlanSample(subscriptions, sample, weights, thresholds, window),
    )
    match name:
        case "hash":
            return HashPlan(head)
        case "location":
            return LocationPlan.learned(head, given)
        case "space-first":
            return SpaceFirstPlan.learned(head, (first, second), given)
        case "keyword-first":
            return KeywordFirstPlan.learned(head, (first, second), given)
        case "trigger":
            return TriggerPlan.learned(head, given)
        case _:
            return (KeywordPlan if name == "keyword" else PrefixPlan).learned(head, given)


def open_plan(folder: Path) -> Plan:
    """Return the plan saved in a folder, with its words; IncompatibleStore if files are missing or damaged."""
    path = Path(folder) / PLAN_FILE
    try:
        with np.load(path, allow_pickle=False) as saved:
            about = json.loads(str(saved["about"]))
            if about["format"] != PLAN_FORMAT:
                raise IncompatibleStore(f"{path} has format {about['format']}, expected {PLAN_FORMAT}; learn it again")
            arrays = {name: saved[name] for name in saved.files if name != "about"}
        space = Space(about["space"], about["bounds"] and tuple(about["bounds"]))
        name, partitions = str(about["name"]), int(about["partitions"])
        kind = _PLANS[parse_spec(name, partitions).name]
        return kind.restored(PlanHead(name, partitions, space, WordTable.open(folder)), arrays)
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise unreadable_store(f"{path} is missing or damaged ({error}); learn the plan again", error) from None
