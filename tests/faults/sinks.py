"""Sinks whose workers, or whose driver, come to grief: in the workers these are imported by name."""

import os
from dataclasses import dataclass
from pathlib import Path

from nearcast.pipeline.sinks import FileSink, Stager


class DriverEnded(Exception):
    """What stands for the end of a driver, here and now."""


@dataclass(frozen=True)
class DyingStager(Stager):
    """Ends the process of the worker when it has staged a part, as often as told."""

    notes: str = ""
    deaths: int = 0
    batch: int = 0

    def stage(self, batch, partition, tables):
        output = super().stage(batch, partition, tables)
        if batch == self.batch and self._may_die():
            os._exit(13)
        return output

    def _may_die(self):
        for death in range(self.deaths):
            try:
                Path(self.notes, str(death)).touch(exist_ok=False)
            except FileExistsError:
                continue
            return True
        return False


class DyingSink(FileSink):
    """A folder of Parquet whose workers die."""

    def __init__(self, out, notes, *, deaths, batch):
        super().__init__(str(out))
        notes.mkdir()
        self.stager = DyingStager(**vars(self.stager), notes=str(notes), deaths=deaths, batch=batch)


class HalfPublishingSink(FileSink):
    """A folder of Parquet whose driver fails when one part of a batch is published and the others are not."""

    def __init__(self, out, *, batch, parts):
        super().__init__(str(out))
        self.batch, self.parts = batch, parts

    def publish(self, batch, outputs):
        if batch != self.batch:
            super().publish(batch, outputs)
            return
        first = sorted(outputs, key=lambda each: each["final"])[: self.parts]
        self.store.move({each["staged"]: each["final"] for each in first})
        raise DriverEnded
