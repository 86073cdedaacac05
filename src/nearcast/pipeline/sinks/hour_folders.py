"""Names of the folders that part files are in by hour of event time, as Hive and Spark name partitions."""

from __future__ import annotations

import re

import numpy as np

from nearcast.columns import NO_TIME

#: What the name of such a folder begins with.
HOUR = "hour="
#: Hive's name for no value: batches before the first message with a time.
_NONE = "__HIVE_DEFAULT_PARTITION__"
_NAME = re.compile(rf"{HOUR}(-?\d+-\d\d-\d\dT\d\d|{_NONE})")


def folder_of(now: int) -> str:
    """Return the folder of a batch that ends at this event time, in microseconds: hour=2026-05-01T08."""
    return f"{HOUR}{_NONE if now == NO_TIME else np.datetime64(now, 'us').astype('datetime64[h]')}"


def hour_of(folder: str) -> int | None:
    """Return the hours since 1970 in the name of a folder, by which they are in order; None for any other name."""
    found = _NAME.fullmatch(folder)
    if found is None:
        return None
    return int(np.iinfo(np.int64).min) if found[1] == _NONE else int(np.datetime64(found[1], "h").astype(np.int64))
