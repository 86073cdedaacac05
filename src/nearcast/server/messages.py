"""`/v1/messages`: messages taken in, in every form, and one read back while it is kept."""

from __future__ import annotations

import functools
import re
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from nearcast.json_forms import message_feature
from nearcast.server.access import Caller
from nearcast.server.bodies import body_of, check_type
from nearcast.server.idempotency import key_of
from nearcast.server.message_bodies import ARROW, LINES, OBJECTS, GivenMessages, RejectedItem, messages_of
from nearcast.server.problems import Problem, at, invalid
from nearcast.server.tenants import Tenant
from nearcast.tables.cells import is_id

#: Bytes of a body that is read in a thread.
_LARGE = 1 << 16
_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,18}")


async def post_messages(request: Request) -> Response:
    """Publish messages; 202 says that they are on disk, and which items were rejected."""
    state = request.app.state
    caller = await state.access.caller(request, "publish")
    content_type = check_type(request, *OBJECTS, *LINES, *ARROW)
    caller.tenant.check_disk()
    body = await body_of(request, state.settings.limits.body_bytes)

    async def publish() -> Response:
        is_earth = caller.tenant.hub.space.is_earth
        read = functools.partial(messages_of, body, content_type, state.settings.limits, is_earth=is_earth)
        given = read() if len(body) < _LARGE else await caller.tenant.call(read)  # else it would hold up all others
        return await _published(caller, given, request)

    answer: Response = await caller.tenant.answers.once(request, body, publish, caller.token.id)
    return answer


async def _published(caller: Caller, given: GivenMessages, request: Request) -> Response:
    rejected, cursor, is_repeat = list(given.rejected), None, False
    if len(given.messages):
        key, is_earth = key_of(request, caller.token.id), caller.tenant.hub.space.is_earth
        found = await caller.tenant.publisher.publish(given.messages, key, given.n_bytes)
        rejected += [given.refused(row, is_earth=is_earth) for row in found.rejected]
        cursor, is_repeat = found.cursor, found.is_repeat
    if given.is_single and rejected:
        raise invalid(given.pointer_to(rejected[0]), rejected[0].reason, "invalid-message")
    answer = {
        "accepted": given.n_items - len(rejected),
        "rejected": [_item_json(given, item) for item in sorted(rejected, key=lambda item: item.row)],
        "cursor": cursor,
        "repeated": is_repeat,
    }
    return Response(msgspec.json.encode(answer), 202, media_type="application/json")


def _item_json(given: GivenMessages, item: RejectedItem) -> dict[str, Any]:
    pointer = given.pointer_to(item)
    return {"row": item.row, "id": item.id, "field": item.field, "pointer": pointer, "reason": item.reason}


async def get_message(request: Request) -> Response:
    """Return the newest message with the id in the path as a Feature, while it is kept."""
    return await _answer_about(await _reader(request), request.path_params["id"])


async def find_message(request: Request) -> Response:
    """Return the newest message with the `id` in the query, which carries every id there can be."""
    caller, given = await _reader(request), request.query_params.get("id")
    if given is None:
        raise Problem(422, "invalid-parameter", "id is missing", [at("?id", "expected the id of a message")])
    return await _answer_about(caller, given)


async def _reader(request: Request) -> Caller:
    """Return who asks for a message; raise if they may not."""
    caller: Caller = await request.app.state.access.caller(request, "subscribe", "publish")
    caller.check_unbound()
    return caller


async def _answer_about(caller: Caller, message_id: str) -> Response:
    feature = await caller.tenant.call(_kept, caller.tenant, message_id)
    if feature is None:
        raise Problem(404, "unknown-message", "no message with that id is kept")
    return Response(msgspec.json.encode(feature, enc_hook=str), media_type="application/geo+json")


def _kept(tenant: Tenant, given: str) -> dict[str, Any] | None:
    """Return the kept message of an id as text, which may be a number; without subscribers, of the newest."""
    ids: list[str | int] = [given, int(given)] if _NUMBER.fullmatch(given) else [given]
    for id_ in filter(is_id, ids):
        message = tenant.hub.kept_message(id_)
        feature = tenant.activity.newest.with_ids({id_}).get(id_) if message is None else message_feature(message)
        if feature is not None:
            return feature
    return None
