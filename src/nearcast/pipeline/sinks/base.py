"""What a sink is: workers stage what they deliver in files, the driver publishes them once the batch is committed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from nearcast.errors import FileUnavailable
from nearcast.files import DeliveryWriter
from nearcast.pipeline.store.store import Store, epoch_of

#: {staged: name, final: name or None, rows}: what a manifest keeps of a staged file.
Output = dict[str, Any]


@dataclass(frozen=True)
class Stager:
    """The worker's half of a sink: it is small and can be pickled."""

    store: Store
    folder: str
    extension: str
    #: Whether files get a name under which they are published.
    has_finals: bool = False
    #: Whether rows have the column `delivery_id`; None: as `DeliveryWriter` has it in this format.
    delivery_ids: bool | None = None

    def stage(self, batch: int, partition: int | None, tables: Iterable[pa.Table]) -> Output | None:
        """Write the rows to a file of this attempt's own that nobody reads yet; None where there are no rows.

        The same rows make the same bytes, however they are cut into tables.
        """
        pieces = (table for table in tables if table.num_rows)
        first = next(pieces, None)
        if first is None:
            return None
        staged = self.store.unique(self.folder, batch, partition, self.extension)
        written: list[int] = []
        self.store.put(staged, lambda path: written.append(self._write(path, chain([first], pieces))), settled=False)
        return {"staged": staged, "final": self._final(batch, partition), "rows": written[0]}

    def _final(self, batch: int, partition: int | None) -> str | None:
        of = "" if partition is None else f"-{partition:04d}"
        name = f"{batch:08d}" if batch >= 0 else "begin"  # what comes before the first batch
        return f"part-{name}{of}{self.extension}" if self.has_finals else None

    def _write(self, path: Path, tables: Iterable[pa.Table]) -> int:
        try:
            with DeliveryWriter(path, delivery_ids=self.delivery_ids) as writer:
                for table in tables:
                    writer.write(table)
        except FileUnavailable as error:
            # The store explains better what is wrong with a disk, and names the place, not a temporary file.
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise
        return writer.rows


class Sink(ABC):
    """The driver's half of a sink; `stager` is what workers get."""

    #: What the sink writes to; another one is another stream.
    name: str
    stager: Stager

    def stage(self, batch: int, partition: int | None, tables: Iterable[pa.Table]) -> Output | None:
        """Write the rows to a file that nobody reads yet, as `stager` does in a worker."""
        return self.stager.stage(batch, partition, tables)

    def placed(self, outputs: Iterable[Output], now: int) -> list[Output]:
        """Return what workers staged for a batch, with the names for it at this event time."""
        return list(outputs)

    @abstractmethod
    def publish(self, batch: int, outputs: Sequence[Output]) -> None:
        """Hand over what a committed batch staged; it is called again for the last batch after a restart."""

    def check(self) -> None:  # noqa: B027 - most sinks have nothing to refuse
        """Refuse, before the first batch, a place that cannot be written to."""

    def check_new(self) -> None:  # noqa: B027 - as above
        """Refuse a place that a new stream would spoil."""

    def enter_epoch(self, epoch: int) -> None:
        """Stage from now on for a driver of this epoch."""
        self.stager = replace(self.stager, store=self.stager.store.in_epoch(epoch))

    def missing(self, outputs: Iterable[Output]) -> list[str]:
        """Return the names of staged files that are not there."""
        names = [str(each["staged"]) for each in outputs]
        found = self.stager.store.sizes_of(names)
        return [f"{self.stager.store.root}/{name}" for name in names if name not in found]

    def settle(self, outputs: Iterable[Output]) -> None:
        """Have staged files survive a power cut, before a manifest names them."""
        self.stager.store.settle(str(each["staged"]) for each in outputs)

    def sweep(self, outputs: Iterable[Output] = ()) -> None:
        """Remove, at the start, what was staged and will not be published; `outputs` will be.

        Files of later epochs stay: they are those of a driver that has taken over since.
        """
        store = self.stager.store
        staged = {each["staged"] for each in outputs}
        found = store.sizes(f"{self.stager.folder}/", with_hidden=True)
        store.delete(name for name in found if name not in staged and not self._is_spared(name))

    def _is_spared(self, name: str) -> bool:
        """Tell whether `sweep` passes over a file that will not be published."""
        return epoch_of(name) > self.stager.store.epoch


def in_order(outputs: Iterable[Output]) -> list[Output]:
    """Return the outputs by batch and partition."""
    return sorted(outputs, key=lambda each: str(each["staged"]))
