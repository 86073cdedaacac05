"""Webhooks: hands events to the URLs of subscribers over HTTPS, signed, until each is accepted or a dead letter.

`Dispatcher` runs them. `addresses` says which URLs may be called, `signing` how a request is signed, `schedule` when it
is tried again, `attempts` what is remembered of it, and `quiet` which events are held back or put together.
"""

from nearcast.server.webhooks.addresses import AddressPolicy, UnsafeAddress
from nearcast.server.webhooks.attempts import AttemptStore
from nearcast.server.webhooks.dispatcher import Dispatcher, EventSource
from nearcast.server.webhooks.quiet import QuietRules
from nearcast.server.webhooks.sink import HookSink

__all__ = ["AddressPolicy", "AttemptStore", "Dispatcher", "EventSource", "HookSink", "QuietRules", "UnsafeAddress"]
