"""The log of manifests: slots that only one driver can fill, and fences that keep an older driver from the next one.

A slot is a file of `manifests/` that is created exclusively: `<batch>.json`, or `<batch>-<turn>.json` after fences for
the same batch. It holds a manifest, or the fence of a driver that took the stream over. A driver commits a batch by
filling the slot after the last one it knows. A new driver fills just that slot with its fence, with the next epoch; the
commit of the older one then fails.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any, NamedTuple, Self

from nearcast.errors import IncompatibleStore
from nearcast.pipeline.store.manifest_entries import DriverEpoch
from nearcast.pipeline.store.state_format import STATE_FORMAT, check_format, format_in
from nearcast.pipeline.store.store import Store
from nearcast.saved_files.contents import read_signed, signed

_FOLDER = "manifests"
_NAME = re.compile(rf"{_FOLDER}/(?:\.[0-9a-f]+\.)?(-?\d+)(?:-(\d+))?\.json")
_FENCE = "fence"


class Slot(NamedTuple):
    """The place of a manifest or fence in the log, in the order of batches and, for one batch, of turns."""

    batch: int
    turn: int = 0

    @property
    def name(self) -> str:
        """The name of the file in the store."""
        return f"{_FOLDER}/{self.batch:08d}{f'-{self.turn}' if self.turn else ''}.json"

    @classmethod
    def of(cls, name: str) -> Self | None:
        """Return the slot that a name, or that of a draft of it, stands for; None for any other name."""
        found = _NAME.fullmatch(name)
        return None if found is None else cls(int(found[1]), int(found[2] or 0))


def slots_in(store: Store) -> list[Slot]:
    """Return the slots that are filled, ascending."""
    return sorted(slot for name in store.list(f"{_FOLDER}/") if (slot := Slot.of(name)) is not None)


def next_slot(last: Slot | None, *, is_fence: bool, first: int) -> Slot:
    """Return the slot that whoever comes next fills: for the next batch, after a fence for the same; `first` if none.

    The older driver, whose next batch this is, and the one that takes over from it must name the same slot.
    """
    if last is None:
        return Slot(first)
    return Slot(last.batch, last.turn + 1) if is_fence else Slot(last.batch + 1)


def are_manifests(slots: list[Slot]) -> list[Slot]:
    """Return the slots that hold manifests, but for the last: after a fence the same batch has a further turn."""
    return [slot for slot, after in pairwise(slots) if after.batch != slot.batch]


def fence_of(epoch: DriverEpoch) -> bytes:
    """Return the content of a fence."""
    return signed({"format": STATE_FORMAT, _FENCE: epoch.to_json()})


def epoch_in(data: bytes, called: str) -> DriverEpoch | None:
    """Return the epoch that a fence begins; None if the slot holds no fence, but a manifest, whole or not."""
    try:
        if _FENCE not in json.loads(data):
            return None
    except (ValueError, TypeError, RecursionError):
        return None
    check_format(format_in(data), called)
    return _epoch_from(read_signed(data, called)[_FENCE], called)


def _epoch_from(given: Any, called: str) -> DriverEpoch:
    try:
        return DriverEpoch.from_json(given)
    except (TypeError, AttributeError) as error:
        raise IncompatibleStore(f"{called} is damaged: its fields are others ({error})") from None
