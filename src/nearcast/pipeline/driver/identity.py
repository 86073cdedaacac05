"""Which driver this is, and which of its claims are its own."""

from __future__ import annotations

import os
import shutil
import socket
from datetime import UTC, datetime
from pathlib import Path

from nearcast.pipeline.store.manifest_entries import DriverEpoch
from nearcast.pipeline.store.store import epoch_of


def this_driver() -> DriverEpoch:
    """Return what names this process to others. Its epoch is the time in milliseconds, unless the log has come further.

    Counted through, epochs would come again in a checkpoint that was restored from a copy, and files that drivers after
    the copy left outside of it would look as if they were those of the next driver.
    """
    now = datetime.now(UTC)
    number = int(now.timestamp() * 1000)
    return DriverEpoch(number, socket.gethostname(), os.getpid(), now.isoformat().replace("+00:00", "Z"))


def forget_claims(folder: str, epoch: int) -> str:
    """Remove the claims of earlier drivers; return the folder for those of an epoch.

    A task of an earlier driver that still runs claims in the folder of that one, so it takes no payload of this one.
    """
    for each in Path(folder).glob("e*"):
        if epoch_of(f"/{each.name}/") < epoch:
            shutil.rmtree(each, ignore_errors=True)
    return f"{folder}/e{epoch}"
