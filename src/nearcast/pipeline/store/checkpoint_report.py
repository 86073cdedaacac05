"""What a checkpoint holds: versions, sizes, plan, counts, and what each partition would have to read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nearcast.errors import InvalidInput
from nearcast.pipeline.store.manifest import Manifest, Manifests
from nearcast.pipeline.store.places import is_uri
from nearcast.pipeline.store.state_format import STATE_FORMAT
from nearcast.pipeline.store.store import Store

_STATE, _SPARK = "nearcast", "spark"
_COUNTS = ("subscriptions", "messages", "changes", "deliveries", "rejected")


def inspect_checkpoint(checkpoint: str) -> dict[str, Any]:
    """Return what a checkpoint holds, as plain values under keys that stay.

    InvalidInput where there is no checkpoint; IncompatibleStore where its newest manifest is damaged or names files
    that are.
    """
    store = state_of(checkpoint)
    manifests = Manifests(store)
    manifest, batches = manifests.verified()
    if manifest is None:
        raise InvalidInput(f"{checkpoint} is a checkpoint, but no batch was finished yet; look again later")
    return _described(checkpoint, store, manifest, manifests.files_in_use(manifest), batches)


def state_of(checkpoint: str) -> Store:
    """Return the store of a checkpoint that is there."""
    is_local = not is_uri(checkpoint)
    if is_local and not Path(checkpoint).exists():
        raise InvalidInput(f"{checkpoint}: there is no such checkpoint")
    if is_local and not Path(checkpoint).is_dir():
        raise InvalidInput(f"{checkpoint} is a file; expected the folder given as --checkpoint")
    store = Store(checkpoint).within(_STATE)
    is_there = Path(checkpoint, _STATE).is_dir() if is_local else bool(store.list())
    if not is_there:
        raise InvalidInput(f"{checkpoint} is not a checkpoint of nearcast: it has no folder {_STATE}")
    return store


def _described(checkpoint: str, store: Store, manifest: Manifest, used: set[str], batches: list[int]) -> dict[str, Any]:
    sizes = store.sizes()
    return {
        "checkpoint": checkpoint,
        "format": STATE_FORMAT,
        "batch": manifest.batch,
        "batches_kept": batches,
        "query_id": manifest.query_id,
        "driver": None if manifest.driver is None else manifest.driver.to_json(),
        "next_step": manifest.next_step,
        "now": manifest.now,
        "seconds": manifest.seconds,
        "settings": dict(manifest.fingerprint),
        "plan": manifest.plan.to_json(),
        "vocabulary": manifest.vocabulary.to_json(),
        "counts": {name: int(manifest.counts.get(name, 0)) for name in _COUNTS},
        "files": dict(sorted(Counter(map(_kind, used)).items())),
        "bytes": _bytes(sizes, used) | {"spark": _spark_bytes(checkpoint)},
        "partitions": [_partition(manifest, at, sizes) for at in range(len(manifest.partitions))],
    }


def _kind(name: str) -> str:
    return name.partition("/")[0]


def _bytes(sizes: Mapping[str, int], used: set[str]) -> dict[str, Any]:
    """Return the bytes of each kind of file, of all, and of those that the newest manifest does not need."""
    kinds: Counter[str] = Counter()
    for name, size in sizes.items():
        kinds[_kind(name)] += size
    manifests = kinds["manifests"]
    in_use = sum(size for name, size in sizes.items() if name in used)
    total = sum(sizes.values())
    return {"kinds": dict(sorted(kinds.items())), "total": total, "unused": total - in_use - manifests}


def _spark_bytes(checkpoint: str) -> int:
    return sum(Store(checkpoint).within(_SPARK).sizes(with_hidden=True).values())


def _partition(manifest: Manifest, at: int, sizes: Mapping[str, int]) -> dict[str, Any]:
    entry = manifest.partitions[at]
    load = manifest.load[at] if at < len(manifest.load) else {}
    return {
        "partition": at,
        "snapshot": entry.snapshot,
        "snapshot_batch": entry.snapshot_batch,
        "snapshot_bytes": sizes.get(entry.snapshot, 0),
        "deltas": list(entry.deltas),
        "delta_bytes": sum(sizes.get(name, 0) for name in entry.deltas),
        "messages": load.get("messages", 0),
        "seconds": load.get("seconds", 0.0),
    }
