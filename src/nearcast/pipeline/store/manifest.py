"""The commit of a batch: one small JSON file that names all files of a stream's state, written last."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, TypeVar

from nearcast.errors import IncompatibleStore, NearcastError
from nearcast.pipeline.store.manifest_entries import (
    BatchFiles,
    DriverEpoch,
    LoadBalance,
    PartitionEntry,
    PlanEntry,
    RebalanceNote,
    SourcesEntry,
    VocabularyEntry,
    WindowEntry,
)
from nearcast.pipeline.store.manifest_log import Slot, are_manifests, epoch_in, fence_of, next_slot, slots_in
from nearcast.pipeline.store.state_format import STATE_FORMAT, check_format, format_in
from nearcast.pipeline.store.store import Store, StoreConflict, StoreError, batch_of, draft_of, epoch_of
from nearcast.saved_files.contents import read_signed, signed

#: Fields without names of files of the state.
_NOT_NAMES = ("fingerprint", "outputs", "sizes", "sources", "last_sources")
#: The batch before the first.
_BEFORE = -1


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
    #: Drawn when the stream begins: tells it from another one that was begun at the same place, before or after.
    stream_id: str = ""
    #: The driver that wrote it; none outside a stream.
    driver: DriverEpoch | None = None
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
    #: What the last batches were made of, oldest first.
    sources: tuple[SourcesEntry, ...] = ()
    #: The sources of this batch by path, or by name where they are no files, with what tells their content from others.
    last_sources: Mapping[str, str] = field(default_factory=dict)
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

    def with_names(self, names: Mapping[str, str]) -> Manifest:
        """Return the same state under other names of files, {old: new}; their sizes are no longer noted."""
        fields_now = {name: _renamed(value, names) for name, value in self.to_json().items() if name not in _NOT_NAMES}
        kept = {name: getattr(self, name) for name in _NOT_NAMES if name != "sizes"}
        return Manifest(**{name: _typed(name, value) for name, value in fields_now.items()}, **kept)

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
    "driver": DriverEpoch,
    "sources": SourcesEntry,
    "windows": WindowEntry,
    "balance": LoadBalance,
    "rebalance": RebalanceNote,
}


def _plain(value: Any) -> Any:
    if isinstance(value, str):  # most are names of files
        return value
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value.to_json() if hasattr(value, "to_json") else value


def _typed(name: str, value: Any) -> Any:
    """Return the value of a field as JSON has it in its own type."""
    entry = _ENTRY_OF.get(name)
    if isinstance(value, list):
        return tuple(value if entry is None else (entry.from_json(each) for each in value))
    return value if entry is None or value is None else entry.from_json(value)


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Return a JSON value with names of files in it replaced by others."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, dict):
        return {key: _renamed(each, names) for key, each in value.items()}
    return [_renamed(each, names) for each in value] if isinstance(value, list) else value


_Found = TypeVar("_Found")


class _LogEnd(NamedTuple):
    """The last slot of the log that is filled, the epoch of the driver that filled it, and whether with its fence."""

    slot: Slot | None
    epoch: DriverEpoch | None
    is_fence: bool


class Manifests:
    """The manifests of a store, one for each of the last batches, in a log that one driver at a time may add to."""

    def __init__(self, store: Store):
        self.store = store
        #: What `take_over` began; None for whoever only reads, or writes where no other can be.
        self.epoch: DriverEpoch | None = None
        self._fence: Slot | None = None

    # Reading

    def batches(self) -> list[int]:
        """Return the batches that have a manifest, ascending."""
        slots = slots_in(self.store)
        return [slot.batch for slot in self._manifest_slots(slots)]

    def verified(self) -> tuple[Manifest | None, list[int]]:
        """Return the newest manifest, all files of which are there, and what `batches` does, of the same moment."""

        def looked(slots: list[Slot]) -> tuple[Manifest | None, list[int]]:
            found = self._manifest_slots(slots)
            if not found:
                return None, []
            manifest = self._read(found[-1])
            self.verify(manifest)
            return manifest, [slot.batch for slot in found]

        return self._found_by_slots(looked)

    def last(self) -> Manifest | None:
        """Return the manifest of the newest batch; None where no batch was finished."""
        return self._looked(lambda _, manifest: manifest)

    def _looked(self, look: Callable[[_LogEnd, Manifest | None], _Found]) -> _Found:
        """Return what is found at the end of the log."""

        def looked(slots: list[Slot]) -> _Found:
            fence = self._fenced_by(slots[-1]) if slots else None
            found = are_manifests(slots) + (slots[-1:] if fence is None else [])
            manifest = self._read(found[-1]) if found else None
            newest = fence or (None if manifest is None else manifest.driver)
            return look(_LogEnd(slots[-1] if slots else None, newest, is_fence=fence is not None), manifest)

        return self._found_by_slots(looked)

    def _found_by_slots(self, look: Callable[[list[Slot]], _Found]) -> _Found:
        """Return what is found by the slots of the log; look again if a running driver has gone on and removed it."""
        while True:
            slots = slots_in(self.store)
            try:
                return look(slots)
            except NearcastError:
                if slots_in(self.store) == slots:
                    raise

    def read(self, batch: int) -> Manifest:
        """Return the manifest of a batch."""
        turns = [slot for slot in self._manifest_slots(slots_in(self.store)) if slot.batch == batch]
        return self._read(turns[-1] if turns else Slot(batch))

    def _manifest_slots(self, slots: list[Slot]) -> list[Slot]:
        """Return the slots that hold manifests; only the content of the last one tells."""
        return [*are_manifests(slots), *(slot for slot in slots[-1:] if self._fenced_by(slot) is None)]

    def _fenced_by(self, slot: Slot) -> DriverEpoch | None:
        """Return the epoch whose fence a slot holds; None if it holds a manifest."""
        return epoch_in(self.store.read_bytes(slot.name), f"{self.store.root}/{slot.name}")

    def _read(self, slot: Slot) -> Manifest:
        called = f"{self.store.root}/{slot.name}"
        manifest = Manifest.from_bytes(self.store.read_bytes(slot.name), called)
        if manifest.batch != slot.batch:
            raise _damaged(called, f"it is that of batch {manifest.batch}")
        return manifest

    # Writing

    def take_over(self, driver: DriverEpoch, check: Callable[[Manifest | None], object]) -> Manifest | None:
        """Begin the next epoch: no driver of an earlier one can commit any more. Return the last manifest.

        Its number is that of `driver`, unless the last epoch has come further: then it is the next one. `check` may
        refuse to go on from a manifest: it is called before anything changes, so that a start that cannot succeed
        leaves a running driver alone.
        """

        def checked(end: _LogEnd, manifest: Manifest | None) -> tuple[_LogEnd, Manifest | None]:
            check(manifest)
            return end, manifest

        while True:
            end, manifest = self._looked(checked)
            epoch = replace(driver, number=max(driver.number, 1 + (0 if end.epoch is None else end.epoch.number)))
            mine = next_slot(end.slot, is_fence=end.is_fence, first=_BEFORE)
            if self._fill(mine, fence_of(epoch)):
                self.epoch, self._fence = epoch, mine
                self.store = self.store.in_epoch(epoch.number)
                return manifest

    def commit(self, manifest: Manifest) -> Manifest:
        """Make a batch finished: after this everything the manifest names counts, before it nothing.

        Return what was written. StoreConflict names the driver that took the stream over, or tells that the batch was
        finished with another manifest: a batch that is run again must find that out before, with `read`.
        """
        manifest = replace(manifest, driver=self.epoch)
        self.store.settle(_state_files(manifest))
        if self.epoch is None or self._fence is None:
            self.store.commit(Slot(manifest.batch).name, manifest.to_bytes())
            return manifest
        is_first = manifest.batch == self._fence.batch
        slot = Slot(manifest.batch, self._fence.turn + 1 if is_first else 0)
        if not self._fill(slot, manifest.to_bytes()):
            raise self.conflict() or StoreConflict(f"{self.store.root}/{slot.name} is there already; stop and look why")
        return manifest

    def _fill(self, slot: Slot, data: bytes) -> bool:
        """Fill a slot of the log; tell whether that was done, and nobody has gone on behind it.

        A slot is empty again when its batch is no longer kept. Whoever fills it then finds that the log goes on. So
        does one whose draft was swept by the driver that filled it.
        """
        try:
            self.store.commit(slot.name, data)
        except StoreConflict:
            return False
        except StoreError:
            if not self._is_lost(slot, data):
                raise
            return False
        return slots_in(self.store)[-1] == slot

    def _is_lost(self, slot: Slot, data: bytes) -> bool:
        """Tell whether the log has come to a slot, or past it, without these bytes in it."""
        slots = slots_in(self.store)
        return slots[-1:] >= [slot] and (slot not in slots or self.store.read_bytes(slot.name) != data)

    def conflict(self) -> StoreConflict | None:
        """Return the error of a driver whose stream another one has taken over; None if none has."""
        if self.epoch is None:
            return None
        winner = self._looked(lambda end, _: end.epoch)
        if winner is None or winner.number <= self.epoch.number:
            return None
        return StoreConflict(
            f"{self.store.root} was taken over by {winner}; this driver, {self.epoch}, ends and commits nothing more:"
            " let only one of them run"
        )

    def check(self, manifest: Manifest, fingerprint: Mapping[str, Any], query_id: str | None = None) -> None:
        """Refuse to go on with other settings, naming the first that differs, or with the state of another query."""
        place = f"the checkpoint {self.store.root}"
        if None not in (query_id, manifest.query_id) and query_id != manifest.query_id:
            raise IncompatibleStore(
                f"{place} belongs to query {manifest.query_id}, not {query_id}: the states of Spark and of nearcast are"
                " of two runs; bring back the one that is missing, or begin anew with another checkpoint"
            )
        different = difference(manifest, fingerprint)
        if different is not None:
            raise IncompatibleStore(
                f"{place} was begun with {different}; go on with the settings it was begun with, or choose another"
                " checkpoint"
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
        the next may be in the making. `at_start`, when this driver is not yet writing, later ones and drafts go too.
        Files of later epochs stay: they are those of a driver that has taken over since.
        `spare` names files of finished batches that are still being made, such as snapshots in the background.
        """
        kept = list(keep)
        newest = max((manifest.batch for manifest in kept), default=None)
        used = set(spare).union(*(self.files_in_use(manifest) for manifest in kept))
        unused = []
        for name in self.store.sizes(with_hidden=at_start):
            batch = batch_of(name)
            if self._is_of_newer_epoch(name):
                is_unused = False
            elif batch is None:
                is_unused = _is_draft(name)
            else:
                is_old = at_start or (newest is not None and batch <= newest)
                is_unused = is_old and not used.intersection(_with_parents(name))
            if is_unused:
                unused.append(name)
        self.store.delete(unused)
        return unused

    def _is_of_newer_epoch(self, name: str) -> bool:
        """Tell whether a file belongs to a driver that came after this one, which may be slow to sweep."""
        slot = Slot.of(name)
        if slot is not None:
            return self._fence is not None and slot > self._fence
        return self.epoch is not None and epoch_of(name) > self.epoch.number

    def forget_before(self, batch: int) -> None:
        """Delete the manifests of earlier batches; `sweep` then deletes what only they named."""
        self.store.delete(slot.name for slot in slots_in(self.store) if slot.batch < batch)


def _damaged(called: str, why: str) -> IncompatibleStore:
    return IncompatibleStore(f"{called} is damaged: {why}; bring it back, or begin anew with another checkpoint")


def _is_draft(name: str) -> bool:
    """Tell whether a name is that of a half-written file of the state or of the log; others may be in use elsewhere."""
    whole = draft_of(name)
    return whole is not None and (batch_of(whole) is not None or Slot.of(whole) is not None)


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


def difference(manifest: Manifest, fingerprint: Mapping[str, Any]) -> str | None:
    """Return the first setting that is another than that of a manifest, such as "window 1000, not 2000"; else None."""
    now = json.loads(json.dumps(dict(fingerprint)))  # as it would come back: tuples as lists
    for name in dict.fromkeys([*now, *manifest.fingerprint]):
        begun, given = manifest.fingerprint.get(name), now.get(name)
        if begun != given:
            return _difference(name, begun, given)
    return None


def _difference(name: str, begun: Any, given: Any) -> str:
    """Return such as "window 1000, not 2000", of the first value that differs in a setting with several."""
    if isinstance(begun, dict) and isinstance(given, dict):
        inner = next(key for key in dict.fromkeys([*given, *begun]) if begun.get(key) != given.get(key))
        return _difference(f"{name} {inner}", begun.get(inner), given.get(inner))
    named = name.replace("_", " ")
    return f"no {named}, not {given}" if begun is None else f"{named} {begun}, not {'none' if given is None else given}"
