"""What a finished batch left behind: one small file that names all others, written last."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from nearcast.errors import IncompatibleStore
from nearcast.pipeline.store.state_format import STATE_FORMAT, check_format, format_in
from nearcast.pipeline.store.store import Store, batch_of
from nearcast.saved_files.contents import read_signed, signed

_FOLDER = "manifests"
_NAME = re.compile(rf"{_FOLDER}/(-?\d+)\.json")
_NOT_NAMES = ("fingerprint", "outputs")


@dataclass(frozen=True)
class Manifest:
    """The state of a stream after a batch; all values are plain JSON.

    Files are named as `Store.unique` names them, wherever in a field (or an unknown key) they stand.
    """

    batch: int
    #: The settings the stream was begun with: space, window, plan, partitions, vocabulary version, ...
    fingerprint: dict[str, Any] = field(default_factory=dict)
    query_id: str | None = None
    #: The number of the step the next batch begins with.
    next_step: int = 0
    #: Messages so far.
    messages: int = 0
    #: The clock in microseconds since 1970.
    now: int | None = None
    #: For each partition {snapshot: name or null, snapshot_batch, deltas: [names of the batches after it]}.
    partitions: list[dict[str, Any]] = field(default_factory=list)
    #: The message segments of the window, oldest first: {name, batch, first_row, rows, first_step, ...}.
    segments: list[dict[str, Any]] = field(default_factory=list)
    #: The files of changes since the oldest snapshot.
    changes: list[str] = field(default_factory=list)
    #: The plan by name, and its file if it has one.
    plan: dict[str, Any] = field(default_factory=dict)
    directory: str | None = None
    #: The vocabulary by version, and its file.
    vocabulary: dict[str, Any] = field(default_factory=dict)
    #: What the sinks staged: {staged, final, rows}.
    outputs: list[dict[str, Any]] = field(default_factory=list)
    #: messages, changes, deliveries, rejected: so far.
    counts: dict[str, int] = field(default_factory=dict)
    #: For each partition {seconds, messages}.
    load: list[dict[str, Any]] = field(default_factory=list)
    #: Sizes in bytes of files, where they were noted.
    sizes: dict[str, int] = field(default_factory=dict)
    #: How long the batch took.
    seconds: float = 0.0
    #: Keys that this version does not know; they are written again as they were read.
    more: dict[str, Any] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Return it as JSON, with the version of the format and a digest of the content."""
        known = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "more"}
        return signed({"format": STATE_FORMAT, **self.more, **known})

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
        known = {each.name for each in fields(cls)} - {"more"}
        if "batch" not in content:
            raise _damaged(called, "it names no batch")
        more = {key: value for key, value in content.items() if key not in known}
        return cls(**{key: value for key, value in content.items() if key in known}, more=more)


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
    values = [getattr(manifest, each.name) for each in fields(manifest) if each.name not in (*_NOT_NAMES, "sizes")]
    return {text for text in _texts(values) if batch_of(text) is not None}


def _texts(value: Any) -> Iterator[str]:
    """Yield every string in a JSON value but the keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, (list, tuple)):
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
