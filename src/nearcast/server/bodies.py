"""Bodies of requests: read up to a limit, unpacked up to the same limit, and decoded from JSON with a pointer."""

from __future__ import annotations

import asyncio
import re
import zlib
from typing import Any

import msgspec
from starlette.requests import Request

from nearcast.errors import InvalidInput
from nearcast.nesting import is_deep, is_deep_json
from nearcast.server.json_faults import fault_within, may_have_faults, read_with_faults
from nearcast.server.problems import Problem, at, pointer_to

JSON = ("application/json",)
#: Seconds in which a body must be there.
_BODY_SECONDS = 60.0
#: Files put end to end are one gzip file; each costs a copy of what follows.
_MOST_MEMBERS = 1000
#: Marks of UTF-8 and of both orders of UTF-16, of which JSON has none.
_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_LENGTH = re.compile(r"[0-9]{1,18}")
_BYTE = re.compile(r"byte (\d+)")


async def body_of(request: Request, most: int) -> bytes:
    """Return the body of a request, unpacked if it is gzip; raise if it holds more than `most` bytes."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip"):
        raise Problem(415, "content-encoding", f"Content-Encoding is {encoding[:40]!r}; send gzip or none")
    length = request.headers.get("content-length", "0")
    if _LENGTH.fullmatch(length) and int(length) > most:
        raise _too_large(most)
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            body = await _read(request, most)
    except TimeoutError:
        headers = {"Connection": "close"}
        raise Problem(408, "slow-body", f"the body took more than {_BODY_SECONDS:g} s", headers=headers) from None
    return _unpacked(body, most) if encoding == "gzip" else body


async def _read(request: Request, most: int) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise _too_large(most)
        parts.append(part)
    return b"".join(parts)


def _unpacked(body: bytes, most: int) -> bytes:
    """Return what gzip packed, in one member or several, without ever holding more than `most` bytes of it."""
    found, left, n_members = bytearray(), body, 0
    while left or not n_members:
        n_members += 1
        if n_members > _MOST_MEMBERS:
            raise Problem(400, "invalid-gzip", f"the body has more than {_MOST_MEMBERS:,} gzip members; join them")
        part, left = _member(left, most - len(found), most)
        found += part
    return bytes(found)


def _member(body: bytes, room: int, most: int) -> tuple[bytes, bytes]:
    """Return what the first member of a gzip file packed, and the members after it."""
    unpacker = zlib.decompressobj(wbits=31)
    try:
        found = unpacker.decompress(body, room + 1)
    except zlib.error as error:
        raise Problem(400, "invalid-gzip", f"the body is not gzip: {error}") from None
    if len(found) > room or unpacker.unconsumed_tail:
        raise _too_large(most)
    if not unpacker.eof:
        raise Problem(400, "invalid-gzip", "the gzip stream is cut off; send all of it")
    return found, unpacker.unused_data.lstrip(b"\0")  # some writers fill up a block


def _too_large(most: int) -> Problem:
    # What is left of the body is not read, so the connection ends with the answer.
    detail = f"the body is larger than {most:,} bytes; send less at a time"
    return Problem(413, "too-large", detail, headers={"Connection": "close"})


def content_type(request: Request, default: str = "application/json") -> str:
    """Return the content type of a request, without parameters."""
    return request.headers.get("content-type", default).partition(";")[0].strip().lower()


def check_type(request: Request, *allowed: str) -> str:
    """Return the content type of a request; raise if it is none of these."""
    found = content_type(request, allowed[0])
    if found not in allowed:
        raise Problem(415, "content-type", f"Content-Type is {found[:80]!r}; expected {', '.join(allowed)}")
    return found


def decoded(body: bytes, called: str = "the body") -> Any:
    """Return the JSON of a body; raise with the position, or the pointer to a value that cannot be used."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise fault_problem(read_with_faults(body)) or _not_json(body, error, called) from None
    if is_deep_json(body) and is_deep(found):  # the first is quick where there are few brackets
        raise Problem(422, "too-deep", "the JSON is nested more than 100 deep; make it flatter", [at("", "too deep")])
    if may_have_faults(body) and (problem := fault_problem(read_with_faults(body))) is not None:
        raise problem
    return found


def decoded_items(body: bytes) -> Any:
    """Return the JSON of a body; in a list or FeatureCollection, an item with a fault is its problem."""
    try:
        return decoded(body)
    except Problem:
        found = read_with_faults(body)
        is_collection = isinstance(found, dict) and found.get("type") == "FeatureCollection"
        items = found.get("features") if is_collection else found
        if not isinstance(items, list) or (is_collection and fault_within({**found, "features": []}) is not None):
            raise
        items = [fault_problem(each) or each for each in items]
        return {**found, "features": items} if is_collection else items


def decoded_lines(lines: list[bytes]) -> list[Any]:
    """Return the JSON of each line, or the problem with it: one bad line stops no other."""
    found: list[Any] = []
    for line in lines:
        try:
            found.append(decoded(line, "the line"))
        except Problem as problem:
            found.append(problem)
    return found


def lines_in(body: bytes) -> list[bytes]:
    """Return the lines of a body that hold anything; GeoJSON sequences have a mark before each."""
    return [line for line in body.replace(b"\x1e", b"").split(b"\n") if line.strip()]


def fault_problem(value: Any) -> Problem | None:
    """Return the problem of a value that JSON, or what stores it, cannot have; None if there is none in it."""
    fault = fault_within(value)
    if fault is None:
        return None
    return Problem(422, fault.slug, fault.reason, [at(pointer_to(*fault.names), fault.reason)])


def _not_json(body: bytes, error: Exception, called: str) -> Problem:
    if not body:
        return Problem(400, "no-content", "the body is empty; expected JSON")
    if body.startswith(_MARKS):
        message = f"{called} begins with a byte order mark; send UTF-8 without one"
        return Problem(400, "invalid-json", message, [at("", message, offset=0)])
    where = _BYTE.search(str(error))
    about = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
    more = {"offset": int(where[1])} if where else {}
    return Problem(400, "invalid-json", f"{called} is not JSON: {about}", [at("", about, **more)])


async def object_of(request: Request, most: int, *types: str) -> dict[str, Any]:
    """Return the JSON object of a request; raise if it is anything else."""
    check_type(request, *(types or JSON))
    return decoded_object(await body_of(request, most))


def decoded_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a body; raise if it is anything else."""
    found = decoded(body)
    if not isinstance(found, dict):
        raise Problem(422, "invalid-content", "the body is not an object", [at("", "expected a JSON object")])
    return found


def only(given: dict[str, Any], *names: str) -> None:
    """Raise if an object has another key than these."""
    from nearcast.model.spelling import did_you_mean

    for name in given:
        if name not in names:
            instead = did_you_mean(name, names) or f"; expected {', '.join(names)}"
            raise InvalidInput(f"{name!r} means nothing here{instead}", field=name)
