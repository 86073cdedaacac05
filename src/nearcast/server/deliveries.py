"""`/v1/deliveries`, `/v1/dead-letters` and `/v1/replay`: what became of webhooks, and sending again."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from nearcast.durable.outbox.cursors import Cursor
from nearcast.errors import InvalidInput
from nearcast.json_forms import rfc_3339
from nearcast.server.access import Caller
from nearcast.server.bodies import only
from nearcast.server.events import number_of
from nearcast.server.keyed_objects import object_once
from nearcast.server.parameters import only_known_parameters
from nearcast.server.problems import Problem, invalid
from nearcast.server.webhooks.attempts import Attempt, DeadLetter
from nearcast.server.webhooks.quiet import CursorEvent

router = APIRouter(prefix="/v1", tags=["deliveries"], dependencies=[Depends(only_known_parameters)])
#: Events of one call that sends again.
_MOST_AGAIN = 10_000
_PAGE = 1000


@router.get("/deliveries")
async def get_deliveries(request: Request) -> Response:
    """List attempts of webhooks, the newest first: about a `message`, of a `subscriber`, with a `status`."""
    caller = await _caller(request)
    subscriber = _subscriber_for(caller, request.query_params.get("subscriber"))
    status = request.query_params.get("status")
    if status not in (None, "failed", "accepted"):
        raise Problem(422, "invalid-parameter", f"status is {status[:40]!r}; expected failed or accepted")
    limit = max(1, int(number_of(request, "limit", 100, _PAGE)))
    before = int(number_of(request, "cursor", 0, 1 << 60)) or None
    found = await caller.tenant.call(
        caller.tenant.hooks.store.attempts,
        subscriber=subscriber,
        message_id=request.query_params.get("message"),
        is_accepted=None if status is None else status == "accepted",
        before=before,
        limit=limit,
    )
    following = str(found[-1][0]) if len(found) == limit else None
    return _answer({"items": [_attempt_json(number, each) for number, each in found], "next": following})


@router.get("/dead-letters")
async def get_dead_letters(request: Request) -> Response:
    """List events that were given up, the oldest first."""
    caller = await _caller(request)
    subscriber = _subscriber_for(caller, request.query_params.get("subscriber"))
    limit = max(1, int(number_of(request, "limit", 100, _PAGE)))
    after = int(number_of(request, "cursor", 0, 1 << 60))
    found = await caller.tenant.call(caller.tenant.hooks.store.dead_letters, subscriber, after=after, limit=limit)
    following = str(found[-1].number) if len(found) == limit else None
    return _answer({"items": [_letter_json(each) for each in found], "next": following})


@router.post("/dead-letters:resend", status_code=202)
async def resend_dead_letters(request: Request) -> Response:
    """Send dead letters again: those of some `numbers`, or all of a `subscriber`."""
    caller = await _caller(request)
    return await object_once(request, caller, partial(_letters_again, caller))


async def _letters_again(caller: Caller, given: dict[str, Any]) -> Response:
    only(given, "numbers", "subscriber")
    subscriber = _subscriber_for(caller, given.get("subscriber"))
    numbers = given.get("numbers")
    if numbers is not None and not (
        isinstance(numbers, list) and all(type(each) is int and 0 <= each < 1 << 63 for each in numbers)
    ):
        raise invalid("/numbers", "numbers must be a list of the numbers of dead letters")
    if numbers is None and subscriber is None:
        raise invalid("/numbers", "give the numbers of dead letters, or a subscriber")
    store = caller.tenant.hooks.store
    if numbers is None:
        chosen = await caller.tenant.call(store.dead_letters, subscriber, limit=_MOST_AGAIN)
    else:
        chosen = await caller.tenant.call(store.dead_letters_numbered, dict.fromkeys(numbers), subscriber)
    n = await caller.tenant.call(store.revive, [each.number for each in chosen], time.time())
    caller.tenant.hooks.dispatcher.wake(list({each.subscriber for each in chosen}))
    return _answer({"resent": n}, 202)


@router.post("/deliveries:resend", status_code=202)
async def resend_deliveries(request: Request) -> Response:
    """Send an event of a `subscriber` again, by its `delivery_id`, or those after `from` up to `to`."""
    return await _again(request, "subscriber", "delivery_id", "from", "to")


@router.post("/replay", status_code=202)
async def replay(request: Request) -> Response:
    """Send the events of a `subscriber` after `from` up to `to` again, while they are kept."""
    return await _again(request, "subscriber", "from", "to")


async def _again(request: Request, *fields: str) -> Response:
    caller = await _caller(request)
    return await object_once(request, caller, partial(_events_again, caller, fields))


async def _events_again(caller: Caller, fields: Sequence[str], given: dict[str, Any]) -> Response:
    only(given, *fields)
    subscriber = _subscriber_for(caller, given.get("subscriber"))
    if subscriber is None:
        raise invalid("/subscriber", "subscriber is missing; expected its id")
    async with caller.tenant.lock(subscriber):  # it may be erased meanwhile
        if not caller.tenant.hooks.dispatcher.serves(subscriber):
            detail = "the subscriber has no sink, or is paused; its events can be pulled by cursor"
            raise Problem(409, "no-sink", detail)
        events, following = await caller.tenant.call(_chosen, caller, subscriber, given)
        await caller.tenant.hooks.dispatcher.resend(subscriber, events)
    more = {} if following is None else {"next": following}
    return _answer({"resent": len(events), **more}, 202)


def _chosen(caller: Caller, subscriber: str, given: dict[str, Any]) -> tuple[list[CursorEvent], str | None]:
    """Return the events that are to be sent again, and the `from` of the next call where there may be more.

    In a thread.
    """
    hooks = caller.tenant.hooks
    if given.get("delivery_id") is not None:
        return _event_again(caller, subscriber, str(given["delivery_id"])), None
    first, last = _cursor_in(given, "from", "0-0"), _cursor_in(given, "to", "999999999999999999-0")
    events: list[CursorEvent] = []
    after = str(first)
    while len(events) < _MOST_AGAIN:
        page = hooks.source.events(subscriber, after, _PAGE)
        events += [each for each in page.events if Cursor.parse(each.cursor) <= last]
        if page.cursor is None or Cursor.parse(page.cursor) >= last:
            return events, None
        after = page.cursor
    return events, after


def _cursor_in(given: dict[str, Any], name: str, default: str) -> Cursor:
    """Return the cursor that a body gives under a name."""
    try:
        return Cursor.parse(given.get(name, default))
    except InvalidInput as error:
        raise invalid(f"/{name}", str(error).replace("cursor", name, 1)) from None


def _event_again(caller: Caller, subscriber: str, delivery_id: str) -> list[CursorEvent]:
    """Return the event that was sent under an id; in a thread."""
    hooks = caller.tenant.hooks
    known = hooks.store.cursor_of(subscriber, delivery_id)
    if known is None:
        raise Problem(404, "unknown-delivery", "no attempt of this subscriber has that delivery_id")
    last = Cursor.parse(known)
    page = hooks.source.events(subscriber, str(Cursor(last.step, max(last.row - 1, 0))), 1)
    found = [each for each in page.events if each.event["id"] == delivery_id]
    if not found:
        detail = "that delivery is a digest or a gap, or is not kept any more; send its events again by from and to"
        raise Problem(409, "no-single-event", detail)
    return found


async def _caller(request: Request) -> Caller:
    caller: Caller = await request.app.state.access.caller(request, "subscribe")
    return caller


def _subscriber_for(caller: Caller, subscriber: Any) -> str | None:
    """Return the subscriber that a caller asks about; a bound token asks about its own."""
    if subscriber is not None and not isinstance(subscriber, str):
        raise invalid("/subscriber", "subscriber must be text")
    wanted: str | None = subscriber or caller.token.subscriber
    caller.check_subscriber(wanted)
    return wanted


def _attempt_json(number: int, attempt: Attempt) -> dict[str, Any]:
    return {
        "number": number,
        "subscriber": attempt.subscriber,
        "delivery_id": attempt.event_id,
        "message_id": attempt.message_id,
        "cursor": attempt.cursor,
        "at": _moment(attempt.at),
        "status": attempt.status,
        "reason": attempt.reason,
    }


def _letter_json(letter: DeadLetter) -> dict[str, Any]:
    return {
        "number": letter.number,
        "subscriber": letter.subscriber,
        "delivery_id": letter.event_id,
        "message_id": letter.message_id,
        "cursor": letter.cursor,
        "at": _moment(letter.at),
        "reason": letter.reason,
        "event": json.loads(letter.body),
    }


def _moment(seconds: float) -> str | None:
    return rfc_3339(datetime.fromtimestamp(seconds, UTC))


def _answer(found: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(found), status, media_type="application/json")
