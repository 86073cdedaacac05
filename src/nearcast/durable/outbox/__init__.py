"""The outbox of a durable hub: deliveries that wait for their subscriber, in a log-structured merge tree of files.

`outbox` is the tree, `runs` its unit, `run_files` a run as a file, `released_rows` and `batches` make runs of what
inputs deliver. `events` is what subscribers read, `kept_messages` the messages of their events, `cursors` the places
from which they resume, `acks` what they have acknowledged, `subscribers` who they are, `retention` how long all of it
is kept.
"""

from nearcast.durable.outbox.cursors import Cursor
from nearcast.durable.outbox.events import Event, EventColumns, WaitingEvents, events_of
from nearcast.durable.outbox.retention import Retention

__all__ = ["Cursor", "Event", "EventColumns", "Retention", "WaitingEvents", "events_of"]
