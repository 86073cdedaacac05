"""Sinks that write files exactly once: staged by workers, renamed by the driver after the manifest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Literal

from nearcast.errors import IncompatibleStore, InvalidInput
from nearcast.pipeline.sinks.base import Output, Sink, Stager, in_order
from nearcast.pipeline.store.store import Store

FileFormat = Literal["parquet", "jsonl"]

#: Hidden from Spark and Arrow, which pass over names that begin with an underscore.
_STAGING = "_staging"
_PUBLISHED = f"{_STAGING}/published.json"


class FileSink(Sink):
    """A folder of part files, `part-<batch>-<partition>`, in Parquet or JSON lines.

    A part appears complete, after its batch was committed and not before, and once: after a restart the parts of the
    last batch are published again, which changes nothing where they are there.
    """

    def __init__(self, out: str, format: FileFormat = "parquet"):  # noqa: A002
        if format not in ("parquet", "jsonl"):
            raise InvalidInput(f"format {format!r} cannot be written by a stream; use parquet or jsonl")
        self.store = Store(out)
        self.name = f"{format} {self.store.root}"
        self.stager = Stager(self.store, _STAGING, f".{format}", has_finals=True)

    def publish(self, batch: int, outputs: Sequence[Output]) -> None:
        """Give the staged files their final names; those that have them already are left alone."""
        if not outputs:
            return
        waiting = {each["staged"]: each["final"] for each in in_order(outputs) if self.store.exists(each["staged"])}
        noted = self._published()
        self._refuse_losses(batch, [each for each in outputs if each["staged"] not in noted | waiting.keys()])
        self.store.move(waiting)
        names = [each["staged"] for each in outputs]
        if not noted.issuperset(names):
            self.store.put(_PUBLISHED, lambda path: path.write_text(json.dumps(names)))

    def _refuse_losses(self, batch: int, gone: Sequence[Output]) -> None:
        """Complain of a staged file that has gone and has not become the final one."""
        for output in gone:
            if not self.store.exists(output["final"]):
                raise IncompatibleStore(
                    f"{self.store.root}/{output['final']} is lost: {output['rows']:,} rows of batch {batch} were staged"
                    f" as {output['staged']}, and neither file is there; bring one back, or begin anew with another"
                    " checkpoint"
                )

    def check(self) -> None:
        """Refuse a folder that cannot be written to."""
        probe = f"{_STAGING}/probe"
        self.store.put(probe, lambda path: path.touch())
        self.store.delete([probe])

    def check_new(self) -> None:
        """Refuse a folder with part files of another stream: some of them would be replaced."""
        parts = self.store.list("part-")
        if parts:
            raise InvalidInput(
                f"{self.store.root} holds {parts[0]} of another run; choose another folder, or go on with its"
                " checkpoint"
            )

    def sweep(self, outputs: Iterable[Output] = ()) -> None:
        """Remove what was staged and will not be published; the note of what was published stays."""
        super().sweep([*outputs, {"staged": _PUBLISHED}])

    def _published(self) -> set[str]:
        """Return what the last `publish` published: its files may have been taken away since by whoever reads them."""
        return set(json.loads(self.store.read_bytes(_PUBLISHED))) if self.store.exists(_PUBLISHED) else set()


class RejectedSink(FileSink):
    """Rejected rows as JSON lines, `_rejected/part-<batch>.jsonl` in the folder of the deliveries."""

    def __init__(self, out: str):
        super().__init__(f"{out.rstrip('/')}/_rejected", "jsonl")
