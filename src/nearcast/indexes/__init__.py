"""Indexes over subscriptions: who wants this message?

An index holds subscriptions in numbered *slots* and answers, for a batch of messages, which slots
match. It may only save work, never change an answer: `scan` tries every subscription and is the
definition; every other index returns the same slots in the same order on any input.

The contract, in the order a life goes:

- `insert(subscriptions)` stores rows and returns their slots: ascending, never used before, so that
  ascending slots are the order of registration.
- `remove(slots)`, `replace(slots, subscriptions)` and `move(slots, regions)` act on live slots; a
  replaced or moved subscription keeps its slot and so its place in the order. Naming a slot that is
  not alive, or one twice in a call, raises `UnknownSubscription` or `ValueError` and changes nothing.
- `renumber()` gives the live slots new numbers in the same order and returns the old ones, for the day when more
  numbers have been used than are worth keeping; slots known from before mean nothing afterwards.
- `match(messages)` returns `Matches`. It sees every change made before the call and none made during it.
- `set_weights(weights, first)` says what terms weigh, from term `first` on, and re-weighs what is held where that
  changes a term it had; a term whose weight was never set weighs 1. Only scored subscriptions care.
- `set_thresholds(slots, values)` says from which score on a message concerns subscriptions of kind `topk`, with which
  it must share a word; 0 for new ones. `match` returns those it concerns; what is done with them is not its business.
- `learn(messages)` shows an index that lays itself out by it what messages will be like; answers never depend on it.
- `stats()` counts what is held; `explain(messages, row, slot)` tells how the index came to its answer.
- `save(folder)` writes plain arrays that `open_index(folder)` maps without copying.
- `empty()` returns an empty index of the same name and options, to be filled when terms get other numbers; the old one
  is then given up by `abandon()`.

A call that raises, whatever the exception and wherever it strikes (Ctrl-C, `MemoryError`, an error of its own), has
changed nothing that a later call could see. What it had begun is undone at once or, if that is interrupted too, before
the next call begins. This holds for `match` as well, where it builds or tightens something, and for merges in the
background. One case remains: an interrupt that arrives when the work is done and the call is about to return finds the
change made; `n_slots` and `len()` tell. Every method therefore begins under the lock with `self._undo.roll_back()`, and
every change runs inside `with self._undo:` and notes there what it overwrites (`shared.undo` has the rules).

Whoever calls `insert` encodes words with one `WordTable`, and messages with the same one: an index
knows term ids only. Threads: any method may be called from any thread; changes and matching exclude
each other through one lock, background merging excludes neither. `match(threads=N)` uses several cores.

A new index subclasses `Index`, is registered with `@register(...)`, and the contract suite in
`tests/contract` runs over it by that registration.
"""

from __future__ import annotations

import importlib
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from nearcast._saved import save_text
from nearcast.errors import IncompatibleStore, NotSupported, UnknownIndex
from nearcast.indexes.shared.slot_checks import same_length
from nearcast.indexes.shared.undo import UndoLog
from nearcast.indexes.topk_options import TOPK_OPTIONS, TopKOptions
from nearcast.saved_files.contents import is_signed, read_signed, signed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages, Subscriptions
    from nearcast.geo import Regions, Space

__all__ = ["DEFAULT_INDEX", "Index", "IndexInfo", "Matches", "available", "create", "open_index", "register"]

DEFAULT_INDEX = "trigger"
#: A name for whichever index is best; docs/indexes.md says how that was found out, and that it is the default so far.
AUTO = "auto"
#: The store of live messages that goes with indexes that have none of their own.
DEFAULT_LIVE_STORE = "cells"


#: Modules that register indexes; imported when a name is first asked for, so that `import nearcast` stays light.
_MODULES = (
    "nearcast.indexes.papers.ap_plus_tree",
    "nearcast.indexes.papers.ap_tree",
    "nearcast.indexes.papers.ciq",
    "nearcast.indexes.papers.fast",
    "nearcast.indexes.papers.grid",
    "nearcast.indexes.papers.inverted",
    "nearcast.indexes.papers.ir_similar",
    "nearcast.indexes.papers.ir_tree",
    "nearcast.indexes.papers.keyword_first",
    "nearcast.indexes.papers.quad",
    "nearcast.indexes.papers.rt_similar",
    "nearcast.indexes.papers.rt_tree",
    "nearcast.indexes.scan",
    "nearcast.indexes.papers.skype",
    "nearcast.indexes.papers.spatial_first",
    "nearcast.indexes.papers.stamp",
    "nearcast.indexes.trigger",
)


@dataclass(frozen=True)
class Matches:
    """Which slots each message matched: message i owns `slots[start[i]:start[i + 1]]`, ascending, each once.

    `candidates` counts the index entries looked at and `verified` those that had to be checked in full:
    they show how well an index prunes and take no part in equality.
    """

    start: NDArray[np.int64]
    slots: NDArray[np.int32]
    score: NDArray[np.float64]
    candidates: int = field(default=0, compare=False)
    verified: int = field(default=0, compare=False)

    def __len__(self) -> int:
        return len(self.start) - 1

    def slots_of(self, row: int) -> NDArray[np.int32]:
        """Return the slots that message `row` matched."""
        return self.slots[self.start[row] : self.start[row + 1]]

    def rows(self) -> NDArray[np.int64]:
        """Return the message row of each match."""
        return np.repeat(np.arange(len(self)), np.diff(self.start))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Matches):
            return NotImplemented
        return (
            np.array_equal(self.start, other.start)
            and np.array_equal(self.slots, other.slots)
            and np.array_equal(self.score, other.score)
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class IndexInfo:
    """What the registry knows of an index: its name, the kinds it matches, its source and its options."""

    name: str
    kinds: tuple[str, ...]
    paper: str
    options: dict[str, Any]
    factory: type[Index] = field(compare=False)

    def as_json(self) -> dict[str, Any]:
        """Return the row that `nearcast indexes --json` prints."""
        return {"name": self.name, "kinds": list(self.kinds), "paper": self.paper, "options": self.options}


class Index(ABC):
    """The contract of an index; the module's docstring says what each method promises."""

    info: ClassVar[IndexInfo]

    def __init__(self, space: Space):
        self.space = space
        #: The options it was made with; a subclass that takes some notes them here.
        self._options: dict[str, Any] = {}
        #: How top-k subscriptions are kept by whoever sets their thresholds.
        self.topk_options = dict(TOPK_OPTIONS)
        #: The name of the store of live messages that goes with it.
        self.live_option = str(self.info.options["live"])
        self._lock = threading.RLock()
        #: What restores the state before the change under way. Methods may find notes of one that was cut short.
        self._undo = UndoLog()
        #: What each term weighs; the first `_n_weights` have been set or are in use.
        self._weights: NDArray[np.float64] = np.ones(0)
        self._n_weights = 0

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of live subscriptions."""

    @abstractmethod
    def insert(self, subscriptions: Subscriptions) -> NDArray[np.int32]:
        """Store subscriptions and return their slots, ascending and new."""

    @abstractmethod
    def remove(self, slots: NDArray[np.int32]) -> None:
        """Forget these slots."""

    @abstractmethod
    def replace(self, slots: NDArray[np.int32], subscriptions: Subscriptions) -> None:
        """Put other subscriptions into these slots."""

    @abstractmethod
    def subscriptions(self, slots: NDArray[np.int32]) -> Subscriptions:
        """Return what these live slots hold; ids are the slots themselves."""

    @property
    @abstractmethod
    def n_slots(self) -> int:
        """Return one more than the highest slot ever used."""

    @abstractmethod
    def renumber(self) -> NDArray[np.int32]:
        """Number the live slots anew, 0 upwards in the same order; return the old slot of each."""

    @abstractmethod
    def match(self, messages: Messages, *, threads: int = 1) -> Matches:
        """Return the matching slots of every message."""

    def learn(self, messages: Messages) -> None:  # noqa: B027 - most indexes need not know
        """Take messages as a sample of those to come."""

    @abstractmethod
    def stats(self) -> dict[str, Any]:
        """Return counts and sizes; `subscriptions` and `bytes` are always among them."""

    @abstractmethod
    def save(self, folder: str | Path) -> None:
        """Write the index as plain arrays into a new or empty folder."""

    @classmethod
    @abstractmethod
    def _open(cls, folder: Path, space: Space, options: dict[str, Any]) -> Index: ...

    def move(self, slots: NDArray[np.int32], regions: Regions) -> None:
        """Give these slots other regions; their words stay."""
        same_length(slots, regions, "regions")
        with self._lock:  # each of the two begins by itself with a roll-back
            self.replace(slots, self.subscriptions(slots).with_regions(regions))

    def set_weights(self, weights: NDArray[np.float64], first: int = 0) -> None:
        """Set what the terms `first`, `first` + 1, ... weigh, and weigh anew what is held where that changes it."""
        with self._lock:
            self._undo.roll_back()
            last = first + len(weights)
            held = max(0, min(last, self._n_weights) - first)
            is_other = not np.array_equal(self._weights[first : first + held], weights[:held])
            with self._undo:
                self._undo.attributes(self, "_weights", "_n_weights")
                if is_other:
                    self._weights = self._weights.copy()  # whoever still reads the old ones reads all of them
                self._weights_up_to(last)
                self._undo.fill(self._weights, slice(first + held, last), 1.0)
                self._weights[first:last] = weights
                if is_other:
                    self._reweigh()

    @property
    def weights(self) -> NDArray[np.float64]:
        """Return what terms weigh, those that are held at least."""
        self._roll_back_if_torn()
        return self._weights

    def _reweigh(self) -> None:  # noqa: B027 - boolean indexes have nothing to do
        """Terms that may be held weigh something else now; runs within a change."""

    def _roll_back_if_torn(self) -> None:
        """Undo a change that was cut short; for readers that need no lock otherwise. Never called within a change."""
        if self._undo:
            with self._lock:
                self._undo.roll_back()

    def _weights_up_to(self, n_terms: int) -> None:
        """Make sure that the terms below `n_terms` have a weight."""
        if n_terms > len(self._weights):
            more = max(n_terms, 2 * len(self._weights)) - len(self._weights)
            self._weights = np.concatenate([self._weights, np.ones(more)])
        self._n_weights = max(self._n_weights, n_terms)

    @property
    def lock(self) -> Any:
        """Return the lock under which the index changes."""
        return self._lock

    def begin_child(self) -> None:  # noqa: B027 - most indexes have no threads
        """Forget, in a process that was forked while the lock was held, the threads that stayed in its parent."""

    def close(self) -> None:  # noqa: B027 - most indexes have nothing to wait for
        """Wait for what runs in the background."""

    def empty(self) -> Index:
        """Return an index of the same name, options and space that holds nothing."""
        fresh = type(self)(self.space, **self._options)
        fresh.topk_options = self.topk_options
        fresh.live_option = self.live_option
        return fresh

    def abandon(self) -> None:  # noqa: B027 - most indexes have no threads
        """Stop the background work, without its result: another index has taken over."""

    def set_thresholds(self, slots: NDArray[np.int32], values: NDArray[np.float64]) -> None:
        """Set the score a message must reach (top-k only)."""
        raise NotSupported(f"the index {self.info.name!r} holds no top-k subscriptions; it has no thresholds to set")

    def explain(self, messages: Messages, row: int, slot: int, word: Callable[[int], str] = str) -> list[str]:
        """Return lines on how this index came to its answer for one message and one live slot; `word` names terms."""
        found = slot in self.match(messages.take(np.array([row]))).slots
        return [f"{self.info.name}: {'matched' if found else 'did not match'}"]


AnyIndex = TypeVar("AnyIndex", bound=type[Index])
_registry: dict[str, IndexInfo] = {}


def register(
    name: str,
    *,
    kinds: tuple[str, ...],
    paper: str,
    options: dict[str, Any] | None = None,
    has_live_store: bool = False,
) -> Callable[[AnyIndex], AnyIndex]:
    """Make an index class available under `name`; `options` maps each keyword of its constructor to its default.

    An index for top-k subscriptions takes `TOPK_OPTIONS` as well, and every index `live`, the name of a store of live
    messages: its constructor sees neither. With `has_live_store` a store of the index's own name is the default.
    """

    def enter(cls: AnyIndex) -> AnyIndex:
        every = dict(options or {}) | (TOPK_OPTIONS if "topk" in kinds else {})
        every["live"] = name if has_live_store else DEFAULT_LIVE_STORE
        cls.info = _registry[name] = IndexInfo(name, kinds, paper, every, cls)
        return cls

    return enter


def available() -> list[IndexInfo]:
    """Return every registered index, by name."""
    for module in _MODULES:
        importlib.import_module(module)
    return [_registry[name] for name in sorted(_registry)]


def _find(name: str) -> IndexInfo | None:
    """Return the index registered under `name`, if any; importing all modules takes half a second, its own a tenth."""
    own = [module for module in _MODULES if module.rpartition(".")[2] == name.replace("-", "_")]
    if name not in _registry and own:
        importlib.import_module(own[0])
    if name not in _registry:
        available()
    return _registry.get(name)


def create(spec: str, space: Space) -> Index:
    """Make an empty index from `NAME` or `NAME:key=value,key=value`; `auto` picks one."""
    name, _, given = (DEFAULT_INDEX if spec == AUTO else spec).partition(":")
    info = _find(name)
    if info is None:
        can = ", ".join(each.name for each in available())
        raise UnknownIndex(f"there is no index {name!r}; choose one of {can}")
    options = _options(info, given)
    live = options.pop("live", info.options["live"])
    kept = {key: options.pop(key) for key in TOPK_OPTIONS if key in options and "topk" in info.kinds}
    if kept:
        TopKOptions.of(kept)  # raises `UnknownIndex` for what no top-k subscription can be kept with
    index = info.factory(space, **options)
    index.topk_options |= kept
    index.live_option = live
    return index


def _options(info: IndexInfo, given: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for pair in filter(None, given.split(",")):
        key, equals, text = pair.partition("=")
        if not equals or key not in info.options:
            can = ", ".join(f"{k}={v}" for k, v in info.options.items()) or "none"
            raise UnknownIndex(
                f"the index {info.name!r} has no option {pair!r}; its options with their defaults: {can}"
            )
        try:
            options[key] = type(info.options[key])(text)
        except ValueError:
            kind = type(info.options[key]).__name__
            raise UnknownIndex(f"option {key} of the index {info.name!r} takes {kind}, not {text!r}") from None
    return options


FORMAT_VERSION = 2


def write_manifest(folder: Path, index: Index, options: dict[str, Any], **more: Any) -> None:
    """Write `index.json`, the file that makes a saved folder an index; it is written last."""
    space = {"kind": index.space.kind, "bounds": index.space.bounds}
    about = {"format": FORMAT_VERSION, "name": index.info.name, "space": space, "options": options, **more}
    save_text(folder / "index.json", signed(about).decode())


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return what `write_manifest` wrote."""
    path = folder / "index.json"
    try:
        data = path.read_bytes()
        manifest = read_signed(data, str(path)) if is_signed(data) else json.loads(data)
    except FileNotFoundError:
        raise IncompatibleStore(f"{folder} holds no saved index (index.json is missing)") from None
    except (ValueError, RecursionError):
        raise IncompatibleStore(f"{folder}/index.json is damaged: it is not JSON") from None
    found = manifest.get("format") if isinstance(manifest, dict) else None
    if found != FORMAT_VERSION:
        raise IncompatibleStore(f"{folder} has format {found!r}, this version reads {FORMAT_VERSION}; build it again")
    if not {"name", "space", "options"} <= set(manifest):
        raise IncompatibleStore(f"{folder}/index.json is damaged: it lacks the name, the space or the options")
    return dict(manifest)


def open_index(folder: str | Path) -> Index:
    """Map an index that `save` wrote, without copying its arrays."""
    from nearcast.geo import Space

    folder = Path(folder)
    manifest = read_manifest(folder)
    info = _find(manifest["name"])
    if info is None:
        raise UnknownIndex(
            f"{folder} was saved by the index {manifest['name']!r}, which is not registered here;"
            " import the module that registers it"
        )
    kind, bounds = manifest["space"]["kind"], manifest["space"]["bounds"]
    space = Space.earth() if kind == "earth" else Space.plane(bounds and tuple(bounds))
    return info.factory._open(folder, space, manifest["options"])
