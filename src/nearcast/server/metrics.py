"""Metrics of a tenant in the form of Prometheus; labels never hold ids or places."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import Response

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class TenantMetrics:
    """Counters of one tenant: nothing of it is seen in another's."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        made: dict[str, Any] = {"registry": self.registry, "namespace": "nearcast"}
        self.published = Counter("published", "Messages that were published", **made)
        self.rejected = Counter("rejected", "Messages, moves and subscriptions that were rejected", **made)
        self.requests = Counter("requests", "Requests by route and status", ["route", "status"], **made)
        self.seconds = Histogram("request_seconds", "Time to answer", ["route"], buckets=_BUCKETS, **made)
        self.events = Counter("events", "Events handed over", ["transport"], **made)
        self.gaps = Counter("dropped", "Events that were dropped before they were handed over", ["reason"], **made)
        self.webhooks = Counter("webhook_attempts", "Requests of webhooks by outcome", ["outcome"], **made)
        self.dead_letters = Counter("dead_letters", "Events that were given up", **made)
        self.closed = Counter("streams_closed", "Streams that the server ended", ["reason"], **made)
        self.clients = Gauge("clients", "Open streams", ["transport"], **made)
        self.waiting = Gauge("waiting_messages", "Messages taken in and not published yet", **made)
        self.subscriptions = Gauge("subscriptions", "Subscriptions in the hub", **made)
        self.delivered = Gauge("delivered", "Deliveries of the hub since its folder was made", **made)
        self.inputs = Gauge("log_inputs", "Inputs in the log since its folder was made", **made)
        self.transactions = Gauge("log_transactions", "Transactions of the log, each with an fsync", **made)
        self.outbox = {
            name: Gauge(f"outbox_{name}", help_, **made)
            for name, help_ in (
                ("files", "Files with events that wait"),
                ("bytes", "Bytes of these files"),
                ("deliveries", "Deliveries that are kept"),
                ("dropped", "Deliveries that the retention let go"),
                ("dropped_unacknowledged", "Deliveries that the retention let go before they were acknowledged"),
            )
        }
        for reason in ("retention",):
            self.gaps.labels(reason)
        self._by_route: dict[tuple[str, int], tuple[Any, Any]] = {}

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered; its counters are looked up once."""
        found = self._by_route.get((route, status))
        if found is None:
            found = self._by_route[route, status] = self.requests.labels(route, str(status)), self.seconds.labels(route)
        found[0].inc()
        found[1].observe(seconds)

    def count_published(self, accepted: int, rejected: int) -> None:
        """Count the messages of a call."""
        self.published.inc(accepted)
        self.rejected.inc(rejected)

    def set_gauges(self, stats: dict[str, Any], n_waiting: int) -> None:
        """Take the gauges from what the hub tells of itself, and the number of messages that wait for it."""
        self.subscriptions.set(stats["subscriptions"])
        self.delivered.set(stats["delivered"])
        self.inputs.set(stats["log"]["inputs"])
        self.transactions.set(stats["log"]["transactions"])
        self.waiting.set(n_waiting)
        for name, gauge in self.outbox.items():
            gauge.set(stats["outbox"][name])


async def metrics(request: Request) -> Response:
    """Answer with the metrics of the caller's tenant."""
    caller = await request.app.state.access.caller(request, "admin")
    tenant = caller.tenant
    stats = await tenant.call(tenant.hub.stats)  # in a thread, for the hub may be busy
    tenant.metrics.set_gauges(stats, tenant.publisher.n_waiting)
    return Response(generate_latest(tenant.metrics.registry), media_type=CONTENT_TYPE_LATEST)
