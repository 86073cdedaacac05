"""Durable hubs: every input of a hub in a write-ahead log, and the hub made again from it.

`durable_hub` is what users hold, `writer` its thread that commits in groups, `input_log` the log in SQLite,
`wal_frames` a check of its WAL, `folder` all that lies on disk. `inputs` is one input as bytes and back, `calls` makes
inputs of a hub's calls and applies them. `receipt_clock` stamps inputs, `receipt_times` has what stamps do.
`snapshots` takes snapshots beside the calls, `folder_copies` makes backups, `folder_check` looks a folder through, and
`left_out` is the way past an input that stops the hub.

`outbox/` has the deliveries that wait for subscribers: `input_applier` hands them over as it applies inputs,
`subscriber_inputs` are the inputs that name subscribers, `subscriber_calls` is what a hub does for them.
"""

from nearcast.durable.durable_hub import DurableHub, MessagesWanted, PublishUnderWay
from nearcast.durable.folder_check import FolderReport, check
from nearcast.durable.folder_copies import backup, restore
from nearcast.durable.input_applier import SubscriberMove
from nearcast.durable.left_out import leave_out
from nearcast.durable.outbox import Cursor, Event, EventColumns, Retention, WaitingEvents, events_of
from nearcast.durable.subscriber_calls import EventsWanted

__all__ = [
    "Cursor",
    "DurableHub",
    "Event",
    "EventColumns",
    "EventsWanted",
    "FolderReport",
    "MessagesWanted",
    "PublishUnderWay",
    "Retention",
    "SubscriberMove",
    "WaitingEvents",
    "backup",
    "check",
    "events_of",
    "leave_out",
    "restore",
]
