"""The commit of a batch: one small JSON file that names all files of a stream's state, written last."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from nearcast.errors import IncompatibleStore
from nearcast.pipeline.store.manifest_entries import (
    BatchFiles,
    LoadBalance,
    PartitionEntry,
    PlanEntry,
    RebalanceNote,
    VocabularyEntry,
    WindowEntry,
)
from nearcast.pipeline.store.state_format import STATE_FORMAT, check_format, format_in
from nearcast.pipeline.store.store import Store, batch_of
from nearcast.saved_files.contents import read_signed, signed

_FOLDER = "manifests"
_NAME = re.compile(rf"{_FOLDER}/(-?\d+)\.json")
#: Fields without names of files of the state.
_NOT_NAMES = ("fingerprint", "outputs", "sizes")


@dataclass(frozen=True)
class Manifest:
    """The state of a stream after a batch: what is in it never changes, the next batch makes another one.

    Files are named as `Store.unique` names them, in whatever field they stand.
    """

    batch: int
    plan: PlanEntry
    vocabulary: VocabularyEntry
    #: The driver's directory of subscriptions as it was after `directory_batch`.
    directory: str
    directory_batch: int
    partitions: tuple[PartitionEntry, ...]
    #: The settings the stream was begun with: space, window, index, analyzer, ...
    fingerprint: Mapping[str, Any] = field(default_factory=dict)
    query_id: str | None = None
    #: The number of the step the next batch begins with.
    next_step: int = 0
    #: The clock in microseconds since 1970.
    now: int | None = None
    #: The newest beat of the wall clock that has not moved it yet, because a backlog was not worked off.
    beat_due: int | None = None
    #: The types of the ids of subscriptions and of messages, once there are some.
    id_types: tuple[str | None, str | None] = (None, None)
    #: The batches since the oldest snapshot, oldest first.
    batches: tuple[BatchFiles, ...] = ()
    #: The parts of a divided window; none before its first batch.
    windows: tuple[WindowEntry, ...] = ()
    #: The newest segments of messages, for a plan to be learned from.
    recent: tuple[str, ...] = ()
    #: What the sinks staged: {staged, final, rows}.
    outputs: tuple[dict[str, Any], ...] = ()
    #: subscriptions now; messages, changes, deliveries, rejected so far.
    counts: Mapping[str, int] = field(default_factory=dict)
    #: For each partition {seconds, messages} of this batch.
    load: tuple[Mapping[str, Any], ...] = ()
    balance: LoadBalance | None = None
    rebalance: RebalanceNote | None = None
    #: Sizes in bytes of files, where they were noted.
    sizes: Mapping[str, int] = field(default_factory=dict)
    #: How long the batch took.
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return all fields as plain JSON values."""
        return {each.name: _plain(getattr(self, each.name)) for each in fields(self)}

    def to_bytes(self) -> bytes:
        """Return it as JSON, with the format number and a digest of the content."""
        return signed({"format": STATE_FORMAT, **self.to_json()})

    @classmethod
    def from_bytes(cls, data: bytes, called: str = "the manifest") -> Manifest:
        """Return what `to_bytes` wrote; IncompatibleStore if a byte differs, or if another version wrote it."""
        try:
            found = format_in(data)
        except ValueError:
            raise _damaged(called, "it is cut off or was edited") from None
        check_format(found, called)
        try:
            content = read_signed(data, called)
        except IncompatibleStore:
            raise _damaged(called, "it was edited, or is not what was written") from None
        del content["format"]
        try:
            return cls(**{name: _typed(name, value) for name, value in content.items()})
        except (TypeError, AttributeError) as error:
            raise _damaged(called, f"its fields are others ({error})") from None


_ENTRY_OF: dict[str, Any] = {
    "plan": PlanEntry,
    "vocabulary": VocabularyEntry,
    "partitions": PartitionEntry,
    "batches": BatchFiles,
    "windows": WindowEntry,
    "balance": LoadBalance,
    "rebalance": RebalanceNote,
}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value.to_json() if hasattr(value, "to_json") else value


def _typed(name: str, value: Any) -> Any:
    """Return the value of a field as JSON has it in its own type."""
    entry = _ENTRY_OF.get(name)
    if isinstance(value, list):
        return tuple(value if entry is None else (entry.from_json(each) for each in value))
    return value if entry is None or value is None else entry.from_json(value)


class Manifests:
    """The manifests of a store, one for each of the last batches."""

    def __init__(self, store: Store):
        self.store = store

    def batches(self) -> list[int]:
        """Return the batches that have a manifest, ascending."""
        found = (_NAME.fullmatch(name) for name in self.store.list(f"{_FOLDER}/"))
        return sorted(int(each[1]) for each in found if each is not None)

    def last(self) -> Manifest | None:
        """Return the manifest of the newest batch; None where no batch was finished."""
        batches = self.batches()
        return self.read(batches[-1]) if batches else None

    def read(self, batch: int) -> Manifest:
        """Return the manifest of a batch."""
        name = _name(batch)
        manifest = Manifest.from_bytes(self.store.read_bytes(name), f"{self.store.root}/{name}")
        if manifest.batch != batch:
            raise _damaged(f"{self.store.root}/{name}", f"it is that of batch {manifest.batch}")
        return manifest

    def commit(self, manifest: Manifest) -> None:
        """Make a batch finished: after this everything the manifest names counts, before it nothing.

        StoreConflict if the batch was finished with another manifest: a batch that is run again must find that out
        before, with `read`.
        """
        self.store.commit(_name(manifest.batch), manifest.to_bytes())

    def check(self, manifest: Manifest, fingerprint: Mapping[str, Any], query_id: str | None = None) -> None:
        """Refuse to go on with other settings, naming the first that differs, or with the state of another query."""
        place = f"the checkpoint {self.store.root}"
        if None not in (query_id, manifest.query_id) and query_id != manifest.query_id:
            raise IncompatibleStore(
                f"{place} belongs to query {manifest.query_id}, not {query_id}: the states of Spark and of nearcast are"
                " of two runs; bring back the one that is missing, or begin anew with another checkpoint"
            )
        now = json.loads(json.dumps(dict(fingerprint)))  # as it would come back: tuples as lists
        for name in dict.fromkeys([*now, *manifest.fingerprint]):
            begun, given = manifest.fingerprint.get(name), now.get(name)
            if begun != given:
                raise IncompatibleStore(
                    f"{place} was begun with {_difference(name, begun, given)}; go on with the settings it was begun"
                    " with, or choose another checkpoint"
                )

    def files_in_use(self, manifest: Manifest) -> set[str]:
        """Return the names of all files and folders of the store that a manifest needs."""
        state = _state_files(manifest)
        return state | {each["staged"] for each in manifest.outputs if batch_of(str(each.get("staged"))) is not None}

    def verify(self, manifest: Manifest) -> None:
        """Refuse a manifest that names a file that is missing, cut off or, where its size was noted, of another."""
        for name in sorted(_state_files(manifest)):
            problem = self.store.problem(name, manifest.sizes.get(name))
            if problem is not None:
                raise IncompatibleStore(
                    f"{self.store.root}/{name} {problem}, and batch {manifest.batch} needs it; bring it back, or begin"
                    " anew with another checkpoint"
                )

    def sweep(self, keep: Iterable[Manifest], *, spare: Iterable[str] = (), at_start: bool = False) -> list[str]:
        """Delete what no kept manifest names and return the names.

        Only files named by `Store.unique` are looked at, and of these only those of batches up to the newest kept one:
        the next may be in the making. `at_start`, when nobody is writing, later ones and half-written files go too.
        `spare` names files of finished batches that are still being made, such as snapshots in the background.
        """
        kept = list(keep)
        newest = max((manifest.batch for manifest in kept), default=None)
        used = set(spare).union(*(self.files_in_use(manifest) for manifest in kept))
        unused = []
        for name in self.store.sizes(with_hidden=at_start):
            batch = batch_of(name)
            if batch is None:
                is_unused = "/." in f"/{name}"
            else:
                is_old = at_start or (newest is not None and batch <= newest)
                is_unused = is_old and not used.intersection(_with_parents(name))
            if is_unused:
                unused.append(name)
        self.store.delete(unused)
        return unused

    def forget_before(self, batch: int) -> None:
        """Delete the manifests of earlier batches; `sweep` then deletes what only they named."""
        self.store.delete(_name(each) for each in self.batches() if each < batch)


def _name(batch: int) -> str:
    return f"{_FOLDER}/{batch:08d}.json"


def _damaged(called: str, why: str) -> IncompatibleStore:
    return IncompatibleStore(f"{called} is damaged: {why}; bring it back, or begin anew with another checkpoint")


def _state_files(manifest: Manifest) -> set[str]:
    values = [value for name, value in manifest.to_json().items() if name not in _NOT_NAMES]
    return {text for text in _texts(values) if batch_of(text) is not None}


def _texts(value: Any) -> Iterator[str]:
    """Yield every string in a JSON value but the keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def _with_parents(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:n]) for n in range(1, len(parts) + 1)]


def _difference(name: str, begun: Any, given: Any) -> str:
    """Return such as "window 1000, not 2000", of the first value that differs in a setting with several."""
    if isinstance(begun, dict) and isinstance(given, dict):
        inner = next(key for key in dict.fromkeys([*given, *begun]) if begun.get(key) != given.get(key))
        return _difference(f"{name} {inner}", begun.get(inner), given.get(inner))
    named = name.replace("_", " ")
    return f"no {named}, not {given}" if begun is None else f"{named} {begun}, not {'none' if given is None else given}"
