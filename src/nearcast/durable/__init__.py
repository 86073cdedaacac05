"""Durable hubs: every input of a hub in a write-ahead log, and the hub made again from it.

`durable_hub` is what users hold, `writer` its thread that commits in groups, `input_log` the log in SQLite,
`wal_frames` a check of its WAL, `folder` all that lies on disk. `inputs` is one input as bytes and back, `calls` makes
inputs of a hub's calls and applies them.
"""

from nearcast.durable.durable_hub import DurableHub
from nearcast.durable.input_applier import SubscriberMove
from nearcast.durable.outbox import Cursor, Event, Retention, WaitingEvents

__all__ = ["Cursor", "DurableHub", "Event", "Retention", "SubscriberMove", "WaitingEvents"]
