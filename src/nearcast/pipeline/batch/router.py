"""The plan of a stream with its routing table: learned once, and extended by the keys that each batch adds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast import _arrow
from nearcast.pipeline.store import pickles
from nearcast.pipeline.store.state_cache import RecentByStore
from nearcast.pipeline.store.store import Store
from nearcast.plans import ANY_WORD, Keys, Plan, Routes, open_plan

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from nearcast.columns import Messages
    from nearcast.pipeline.batch.segments import MessageSegment

_ROUTES = "routes"


class NamedKeys(NamedTuple):
    """Keys with their words as strings, for processes that number words in their own way.

    The partitions that are `whole` need these keys and no others any more.
    """

    words: pa.Array
    keys: Keys
    whole: tuple[int, ...] = ()

    @classmethod
    def of(cls, keys: Keys, plan: Plan, whole: tuple[int, ...] = ()) -> NamedKeys:
        """Translate keys from the term ids of a plan, and collect their words."""
        terms, number = np.unique(keys.word[keys.word != ANY_WORD], return_inverse=True)
        word = np.full(len(keys.word), ANY_WORD, np.int32)
        word[keys.word != ANY_WORD] = number
        return cls(plan.words.words().take(_arrow.numbers(terms.astype(np.int64))), keys._replace(word=word), whole)

    def into(self, plan: Plan) -> Keys:
        """Translate keys to the term ids of a plan, to whose word table their words are added."""
        term_of = np.append(plan.words.ids_of_column(self.words, add=True), np.int32(ANY_WORD))
        return self.keys._replace(word=term_of[self.keys.word])

    def write(self, path: Path) -> None:
        """Write them to a file that only `read` reads."""
        pickles.write(path, self)

    @classmethod
    def read(cls, path: Path) -> NamedKeys:
        """Return what was written."""
        found = pickles.read(path)
        assert isinstance(found, cls)
        return found


@dataclass(frozen=True)
class PlanRef:
    """Names the files of a plan and its routes: a folder, and the files of keys that were added since."""

    store: Store
    folder: str
    growth: tuple[str, ...] = ()


class Router:
    """A plan, and the routes of all subscriptions placed by it so far."""

    def __init__(self, plan: Plan, routes: Routes):
        self.plan, self.routes = plan, routes
        self.n_growth = 0
        self._is_everywhere: bool | None = None

    @classmethod
    def of(cls, plan: Plan, keys: Keys) -> Router:
        """Return a plan with the routes of the subscriptions that were placed first, by their keys."""
        routes = Routes(plan.partitions, plan.grid)
        routes.add(keys)
        return cls(plan, routes)

    def save(self, folder: Path) -> None:
        """Write both into a folder."""
        self.plan.save(folder)
        self.routes.save(folder / _ROUTES)

    @classmethod
    def open(cls, folder: Path) -> Router:
        """Return what was saved."""
        return cls(open_plan(folder), Routes.open(folder / _ROUTES))

    def follow(self, ref: PlanRef) -> None:
        """Add the keys of files that were not read yet."""
        for name in ref.growth[self.n_growth :]:
            named = NamedKeys.read(ref.store.local(name))
            self.grow(named.into(self.plan), named.whole)
            self.n_growth += 1

    def grow(self, keys: Keys, whole: tuple[int, ...] = ()) -> None:
        """Add keys; partitions that are `whole` have no others from now on."""
        self._is_everywhere = None
        if whole:
            self.routes.replace(whole, keys)
        else:
            self.routes.add(keys)

    @property
    def is_everywhere(self) -> bool:
        """Tell whether every message goes to every partition; the table is looked through once after each growth."""
        if self._is_everywhere is None:
            self._is_everywhere = self.routes.is_everywhere
        return self._is_everywhere

    def route(self, segment: MessageSegment) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
        """Return the partitions each message goes to; None for all of them."""
        return None if self.is_everywhere else self.routes.route(encoded(segment, self.plan))


def encoded(segment: MessageSegment, plan: Plan) -> Messages:
    """Return the messages of a segment with the terms of a plan."""
    return replace(segment.messages, terms=segment.terms_in(plan.words))


#: Of each stream the plan that holds; one that no longer does goes with the next.
_opened: RecentByStore[Router] = RecentByStore(1)


def router_of(ref: PlanRef) -> Router:
    """Open a plan and its routes; the process keeps them, and later only reads the keys that were added."""
    known = _opened.get(ref.store, ref.folder, lambda: Router.open(ref.store.local(ref.folder)))
    known.follow(ref)
    return known
