"""Events as CloudEvents 1.0 in JSON: `id` is the delivery's, so that repeats are known; the message is a Feature.

match           a message reached a subscription
enter, exit     a message became relevant, or stopped being so, by a move, a change or a registration
expired         the end of a message
topk.added, topk.removed
digest          several events in one, made at hand-over
gap             events that were dropped before they were handed over; `data` has how many
test            what a match would look like; sent to a sink on request, and in no outbox
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from nearcast.json_forms import message_feature, rfc_3339
from nearcast.model import Message
from nearcast.server.ids import new_id

_TYPE = "nearcast.{}.v1"


def cloud_event(event: Any) -> dict[str, Any]:
    """Return an event of a durable hub as a CloudEvent."""
    delivery = event.delivery
    feature = None if event.message is None else message_feature(event.message)
    return {
        "specversion": "1.0",
        "id": delivery.delivery_id,
        "type": _TYPE.format(event.kind),
        "source": f"/v1/subscriptions/{delivery.subscription_id}",
        "subject": str(delivery.message_id),
        "time": rfc_3339(delivery.time or datetime.fromtimestamp(0, UTC)),
        "datacontenttype": "application/json",
        "sequence": str(event.cursor),
        "data": {
            "subscription_id": delivery.subscription_id,
            "message_id": delivery.message_id,
            "change": delivery.change,
            "score": delivery.score,
            "rank": delivery.rank,
            "cause_id": delivery.cause_id,
            "message": feature,
        },
    }


def trial_event(subscription_id: str, message: Message) -> dict[str, Any]:
    """Return the event that a subscription would get of a message that nobody published."""
    return {
        "specversion": "1.0",
        "id": f"test:{new_id()}",
        "type": _TYPE.format("test"),
        "source": f"/v1/subscriptions/{subscription_id}",
        "subject": str(message.id),
        "time": rfc_3339(datetime.now(UTC)),
        "datacontenttype": "application/json",
        "data": {
            "subscription_id": subscription_id,
            "message_id": message.id,
            "change": "+",
            "message": message_feature(message),
        },
    }


def gap_event(subscriber: str, after: str, dropped: int) -> dict[str, Any]:
    """Return the event that says how many events after a cursor were dropped by the retention."""
    return {
        "specversion": "1.0",
        "id": f"gap:{subscriber}:{after}",
        "type": _TYPE.format("gap"),
        "source": f"/v1/subscribers/{subscriber}",
        "subject": subscriber,
        "time": rfc_3339(datetime.now(UTC)),
        "datacontenttype": "application/json",
        "sequence": after,
        "data": {"dropped": dropped, "reason": "OutdatedCursor"},
    }


def short_type(event: dict[str, Any]) -> str:
    """Return the type of a CloudEvent without its prefix and version: match, enter, gap."""
    return str(event["type"]).removeprefix("nearcast.").removesuffix(".v1")
