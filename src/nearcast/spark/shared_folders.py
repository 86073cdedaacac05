"""Finds out, before the work, whether all workers see the folders that driver and workers exchange files in."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nearcast.errors import InvalidInput
from nearcast.pipeline.store.places import local_root

if TYPE_CHECKING:
    from nearcast.pipeline.runner import Runner


class Sighting(NamedTuple):
    """What a worker sees: its host, and the notes of the driver that are not there."""

    host: str
    missing: list[str]


def look(notes: list[str]) -> Sighting:
    """Return which of these files this worker does not see."""
    return Sighting(socket.gethostname(), [note for note in notes if not Path(note).is_file()])


def is_embedded(master: str) -> bool:
    """Tell whether workers run in the machine of the driver, and see what it sees."""
    return master == "local" or master.startswith("local[")


def check_seen(runner: Runner, folders: Iterable[str], workers: int) -> None:
    """Refuse folders of this host that a worker does not see; places elsewhere are the same for all.

    The driver leaves a hidden note in each, and as many tasks as there are slots look for them.
    """
    paths = [path for path in map(local_root, folders) if path is not None]
    notes = {f"{path}/.seen-{secrets.token_hex(8)}": path for path in paths}
    if not notes:
        return
    try:
        for note in notes:
            Path(note).parent.mkdir(parents=True, exist_ok=True)
            Path(note).touch()
        found: list[Sighting] = runner.map(look, [list(notes)] * workers)
    finally:
        for note in notes:
            Path(note).unlink(missing_ok=True)
    blind = {notes[note]: each.host for each in found for note in each.missing}
    for folder, host in blind.items():
        raise InvalidInput(f"{folder} is not seen by the workers on {host}; give a folder that all hosts share")
