"""Sinks that write files exactly once: staged by workers, renamed by the driver after the manifest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Literal

from nearcast.errors import IncompatibleStore, InvalidInput
from nearcast.pipeline.sinks.base import Output, Sink, Stager, in_order
from nearcast.pipeline.sinks.hour_folders import HOUR, folder_of
from nearcast.pipeline.store.store import Store

FileFormat = Literal["parquet", "jsonl"]
#: How parts are put into folders: all into one, or by hour of event time.
PartFolders = Literal["one", "hour"]

#: Hidden from Spark and Arrow, which pass over names that begin with an underscore.
_STAGING = "_staging"
#: One for each of the last batches: what was staged for it and is published.
_NOTES = f"{_STAGING}/published-"
_PROBE = "probe"


class FileSink(Sink):
    """A folder of part files, `part-<batch>-<partition>`, in Parquet or JSON lines.

    JSON lines have the column `delivery_id`, Parquet has it with `delivery_ids`. With the `folders` "hour" a part lies
    in a folder such as hour=2026-05-01T08, by event time after its batch; `compaction` makes few files of these.

    A part appears complete, after its batch was committed and not before, and once: after a restart the parts of the
    last batch are published again, which changes nothing where they are there.
    """

    def __init__(
        self,
        out: str,
        format: FileFormat = "parquet",  # noqa: A002
        *,
        delivery_ids: bool = False,
        folders: PartFolders = "one",
    ):
        if folders not in ("one", "hour"):
            raise InvalidInput(f"folders is {folders!r}; expected one or hour")
        self.folders = folders
        if format not in ("parquet", "jsonl"):
            raise InvalidInput(f"format {format!r} cannot be written by a stream; use parquet or jsonl")
        self.store = Store(out)
        self.name = f"{format} {self.store.root}"
        has_names = delivery_ids or format == "jsonl"
        self.stager = Stager(self.store, _STAGING, f".{format}", has_finals=True, delivery_ids=has_names)

    def placed(self, outputs: Iterable[Output], now: int) -> list[Output]:
        """Return what workers staged, to be published in the folder of its hour where there are such."""
        if self.folders == "one":
            return list(outputs)
        folder = folder_of(now)
        return [{**each, "final": f"{folder}/{each['final']}"} for each in outputs]

    def publish(self, batch: int, outputs: Sequence[Output]) -> None:
        """Give the staged files their final names; those that have them already are left alone.

        That it begins is noted before: from then on a staged file that is missing has been published, by this driver or
        another one, though its part may have been taken away since by whoever reads the folder.
        """
        if not outputs:
            return
        names = [each["staged"] for each in outputs]
        if not self._noted(batch).issuperset(names):
            self._refuse_losses(batch, outputs)
            note = f"{_notes_of(batch)}{self.store.epoch}.json"
            self.store.put(note, lambda path: path.write_text(json.dumps(names)))
        waiting = {each["staged"]: each["final"] for each in in_order(outputs) if self.store.exists(each["staged"])}
        self.store.move(waiting, missing_ok=True)
        self.store.delete(name for name in self.store.list(_NOTES) if _batch_of_note(name) < batch)

    def _refuse_losses(self, batch: int, outputs: Sequence[Output]) -> None:
        """Complain of a staged file that has gone and has not become the final one."""
        for output in outputs:
            if not self.store.exists(output["staged"]) and not self.store.exists(output["final"]):
                raise IncompatibleStore(
                    f"{self.store.root}/{output['final']} is lost: {output['rows']:,} rows of batch {batch} were staged"
                    f" as {output['staged']}, and neither file is there; bring one back, or begin anew with another"
                    " checkpoint"
                )

    def check(self) -> None:
        """Refuse a folder that cannot be written to."""
        probe = f"{_STAGING}/{_PROBE}"
        self.store.put(probe, lambda path: path.touch())
        self.store.delete([probe])

    def check_new(self) -> None:
        """Refuse a folder with part files of another stream: some of them would be replaced."""
        parts = self.store.list("part-") or self.store.list(HOUR)
        if parts:
            raise InvalidInput(
                f"{self.store.root} holds {parts[0]} of another run; choose another folder, or go on with its"
                " checkpoint"
            )

    def enter_epoch(self, epoch: int) -> None:
        """Stage from now on for a driver of this epoch."""
        super().enter_epoch(epoch)
        self.store = self.stager.store

    def _is_spared(self, name: str) -> bool:
        """Tell whether it is a note of what was published, or the probe of a driver that is about to start."""
        return name.startswith(_NOTES) or name.endswith(_PROBE) or super()._is_spared(name)

    def _noted(self, batch: int) -> set[str]:
        """Return what drivers have noted of a batch that they published, or began to."""
        notes = self.store.list(_notes_of(batch))
        return {staged for note in notes for staged in json.loads(self.store.read_bytes(note))}


def _notes_of(batch: int) -> str:
    """Return how the names of the notes of a batch begin; the epoch of a driver follows."""
    return f"{_NOTES}{batch:08d}-e"


def _batch_of_note(name: str) -> int:
    return int(name.removeprefix(_NOTES).rpartition("-e")[0])


class RejectedSink(FileSink):
    """Rejected rows as JSON lines, `_rejected/part-<batch>.jsonl` in the folder of the deliveries."""

    def __init__(self, out: str):
        super().__init__(f"{out.rstrip('/')}/_rejected", "jsonl")
