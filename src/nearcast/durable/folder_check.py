"""A look at everything in a durable folder: head, vocabulary, inputs, snapshots, and whether they fit together."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from nearcast.durable.folder import DurableFolder
from nearcast.durable.input_log import InputLog
from nearcast.durable.inputs import decoded
from nearcast.durable.outbox.run_files import files_of, open_run
from nearcast.engine.snapshot import open_state
from nearcast.errors import NearcastError
from nearcast.hub import DURABLE_HEAD


@dataclass
class FolderReport:
    """What was found in a durable folder."""

    folder: Path
    #: What keeps the hub from being opened with all it was told.
    problems: list[str] = field(default_factory=list)
    #: What is wrong and does no harm yet: a damaged snapshot beside a sound one.
    warnings: list[str] = field(default_factory=list)
    #: The numbers of the first and the last input of the log.
    inputs: tuple[int, int] = (1, 0)
    #: Inputs that raised an error when they came, or were left out by hand, by number.
    skipped: dict[int, str] = field(default_factory=dict)
    #: The snapshots that can be opened, the newest first.
    snapshots: list[int] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Tell whether the hub can be opened with all it was told."""
        return not self.problems


def check(folder: str | Path) -> FolderReport:
    """Read all files of a durable hub that nobody has open, changing nothing, and say what is wrong with them.

    Inputs are read and not applied: one that stops the hub is found by opening the folder.
    """
    report = FolderReport(Path(folder))
    held = DurableFolder.existing(folder)
    try:
        _check(held, report)
    finally:
        held.release()
    return report


def _check(held: DurableFolder, report: FolderReport) -> None:
    try:
        options = held.options()
    except (NearcastError, KeyError) as error:
        report.problems.append(f"{held.path / DURABLE_HEAD}: {error}")
        return
    try:
        held.vocabulary()
    except (NearcastError, OSError) as error:
        report.problems.append(str(error))
    _check_log(held, options["durability"], report)
    report.problems += _faults_of_outbox(held)
    faults = _check_snapshots(held, report)
    first, last = report.inputs
    number = max(report.snapshots, default=0)
    if first > number + 1 or last < number:
        report.problems += [f"the log has inputs {first} to {last}, the newest sound snapshot is {number}", *faults]
    else:
        report.warnings += faults


def _check_log(held: DurableFolder, durability: str, report: FolderReport) -> None:
    """Read every input, and note those that are damaged or skipped."""
    try:
        log = held.log(durability, repairs=False)
    except NearcastError as error:
        report.problems.append(str(error))
        return
    try:
        report.inputs = log.first, log.last
        _read_inputs(log, report)
    except NearcastError as error:
        report.problems.append(str(error))
    finally:
        log.close(writes=False)


def _read_inputs(log: InputLog, report: FolderReport) -> None:
    for row in log.rows(0):
        if row.error is not None:
            report.skipped[row.number] = row.error
        try:
            decoded(row.data, f"input {row.number} of {log.path}")
        except NearcastError as error:
            report.problems.append(str(error))


def _faults_of_outbox(held: DurableFolder) -> list[str]:
    """Read the deliveries that wait; return what is wrong with files that cannot be read."""
    faults = []
    for _, path in files_of(held.outbox) if held.outbox.is_dir() else ():
        try:
            open_run(path, verify=True)
        except NearcastError as error:
            faults.append(str(error))
    return faults


def _check_snapshots(held: DurableFolder, report: FolderReport) -> list[str]:
    """Open every snapshot; return what is wrong with those that cannot be."""
    faults = []
    for number in held.snapshots():
        try:
            open_state(held.snapshot_path(number), verify=True)
            report.snapshots.append(number)
        except NearcastError as error:
            faults.append(str(error))
    return faults
