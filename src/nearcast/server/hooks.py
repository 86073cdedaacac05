"""The webhooks of a tenant: its dispatcher, fed from the hub's outbox, for the subscribers that have a sink.

Reads the settings of subscribers from `server.db` and events from the hub, writes attempts to `webhooks.db`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

import msgspec

from nearcast.durable import Retention
from nearcast.errors import NearcastError
from nearcast.model import Message
from nearcast.server.cloud_events import cloud_event, gap_event, trial_event
from nearcast.server.event_limits import EventLimits
from nearcast.server.metrics import TenantMetrics
from nearcast.server.server_db import ServerDb
from nearcast.server.settings import WebhookSettings
from nearcast.server.webhooks import AddressPolicy, AttemptStore, Dispatcher, HookSink, QuietRules
from nearcast.server.webhooks.attempts import AttemptOutcome
from nearcast.server.webhooks.quiet import QUIET_FIELDS, CursorEvent, CursorPage
from nearcast.server.webhooks.transport import HookTransport

_log = logging.getLogger(__name__)
#: How often attempts and dead letters are looked through for those past the retention.
_SWEEP_S = 3600.0


class OutboxEvents:
    """The outbox of a hub, as a dispatcher reads it: events as CloudEvents, and one for those that were dropped."""

    def __init__(self, hub: Any, metrics: TenantMetrics, limits: EventLimits):
        self._hub, self._metrics, self._limits = hub, metrics, limits

    def events(self, subscriber: str, after: str | None, limit: int) -> CursorPage:
        """Return the next events after a cursor, None: after what was acknowledged."""
        found = self._limits.page(subscriber, after, limit)
        events = [CursorEvent(str(each.cursor), cloud_event(each)) for each in found.events]
        if found.gap:
            self._metrics.gaps.labels("retention").inc(found.gap)
            events.insert(0, CursorEvent(found.begin, gap_event(subscriber, found.begin, found.gap)))
        return CursorPage(events, None if found.cursor == found.begin else found.cursor)

    def ack(self, subscriber: str, cursor: str) -> None:
        """Acknowledge all events up to a cursor."""
        self._hub.ack(subscriber, cursor)


class TenantHooks:
    """Webhooks of one tenant. `start` and all that follows are called in the loop's thread."""

    def __init__(
        self,
        hub: Any,
        store: AttemptStore,
        db: ServerDb,
        settings: WebhookSettings,
        metrics: TenantMetrics,
        limits: EventLimits,
        retention: Retention,
    ):
        self.policy = AddressPolicy.allowing(settings.allow)
        self._hub, self._db, self._settings, self._metrics = hub, db, settings, metrics
        self.store, self._retention = store, retention
        self.source = OutboxEvents(hub, metrics, limits)
        self.dispatcher: Dispatcher
        self._stop_listening: Callable[[], None] = lambda: None
        self._sweeps: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Serve all subscribers that have a sink."""
        transport = HookTransport(self.policy, timeout_s=self._settings.timeout_seconds)
        self.dispatcher = Dispatcher(self.store, self.source, transport, observe=self._observe)
        self._stop_listening = self._hub.on_release(self.dispatcher.wake_from_thread, self.dispatcher.served)
        for subscriber, body in await asyncio.to_thread(self._db.read, "SELECT id, body FROM subscribers"):
            self.serve(subscriber, msgspec.json.decode(body))
        self._sweeps = asyncio.get_running_loop().create_task(self._sweep())

    async def _sweep(self) -> None:
        """Forget what is past the retention, now and then."""
        while self._retention.age_us is not None:
            try:
                await asyncio.to_thread(self.forget_old, time.time())
            except NearcastError as error:  # a full disk passes
                _log.warning("attempts past the retention are kept: %s", type(error).__name__)
            await asyncio.sleep(_SWEEP_S)

    def forget_old(self, now: float) -> None:
        """Forget attempts, dead letters and overdue events that are past the retention; the last are counted."""
        age_us = self._retention.age_us
        if age_us is not None:
            n_dropped = self.store.drop_before(now - age_us / 1e6, self.dispatcher.sent_to())
            self._metrics.gaps.labels("retention").inc(n_dropped)

    def serve(self, subscriber: str, body: dict[str, Any]) -> None:
        """Serve a subscriber as its settings say; not at all if it has no sink, and not while it is paused."""
        sink = body.get("sink")
        if sink is None:
            self.dispatcher.remove(subscriber)
            return
        if body.get("paused"):
            self.dispatcher.pause(subscriber)
            return
        rules = QuietRules.from_json({name: body[name] for name in QUIET_FIELDS if body.get(name)})
        self.dispatcher.put(subscriber, HookSink(sink["url"], tuple(sink["secrets"])), rules)

    def shown(self, subscriber: str, sink: dict[str, Any]) -> dict[str, Any]:
        """Return a sink as the API shows it: how it does, and never its secrets."""
        state = self.dispatcher.state(subscriber)
        held_back = self.dispatcher.held_back(subscriber)
        found = {"url": sink["url"], "n_secrets": len(sink["secrets"]), "failures": state.n_failures}
        return {**found, "disabled": state.disabled or None, "held_back": held_back}

    async def try_out(self, subscriber: str, subscription_id: str, message: Message) -> dict[str, Any] | None:
        """Send a message to a subscriber's sink as a test; return the status and reason, None if it has no sink."""
        found = await self.dispatcher.try_out(subscriber, trial_event(subscription_id, message))
        if found is None:
            return None
        return {"status": found.status, "reason": found.error or f"HTTP {found.status}"}

    def _observe(self, outcome: AttemptOutcome) -> None:
        accepted = 200 <= outcome.attempt.status < 300
        self._metrics.webhooks.labels("accepted" if accepted else "failed").inc()
        if accepted:
            self._metrics.events.labels("webhook").inc()
        if outcome.dead_letter is not None:
            self._metrics.dead_letters.inc()
            _log.warning("an event became a dead letter: %s", outcome.dead_letter.reason)
        if outcome.endpoint.disabled:
            _log.warning("a webhook was disabled: %s", outcome.endpoint.disabled)

    async def close(self) -> None:
        """Stop; what is under way is made again at the next start."""
        self._stop_listening()
        if self._sweeps is not None:
            self._sweeps.cancel()
            await asyncio.wait([self._sweeps])
        await self.dispatcher.close()
        self.store.close()
