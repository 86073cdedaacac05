"""The load generator: plain asyncio in a process of its own, which runs jobs, one a line of JSON, and answers in lines.

A job names its kind, the port of the server, the sizes, the seed and the first number of its messages.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from nearcast.bench.server.hook_receiver import HookReceiver
from nearcast.bench.server.latencies import EventTimes, rate_of
from nearcast.bench.server.loopback_http import ARROW, JSON, LINES, HttpClient, open_stalled, open_streams
from nearcast.bench.server.server_process import memory_bytes
from nearcast.bench.server.workload import (
    WORDS,
    MessageMaker,
    ServerSizes,
    endpoint_subscription,
    every_word,
    subscriber_name,
)

#: Streams that are open beside single publishes, clients that send batches, batches a second for open streams.
_WATCHED, _SENDERS, _BEATS = 100, 4, 10
#: At most so many requests a second are made ready before the clock runs.
_SINGLES_PER_S, _BATCHES_PER_S = 4_000, 60
#: Seconds at most in which a server gives back what the load before took, before the memory of streams is measured.
_REST_S = 15.0
#: So many webhooks for each second of the measurement are made to wait, and so many seconds at most are they awaited.
_HOOKS_PER_S, _PATIENCE = 1_000, 4
#: So many subscribers resume, one after the other, each with so many events, which have come when it is quiet.
_RESUMED, _MISSED, _QUIET_S = 10, 100, 0.2


@dataclass(frozen=True)
class LoadJob:
    """What is asked of the load generator."""

    kind: str
    port: int
    pid: int
    sizes: ServerSizes
    seed: int
    first: int

    def maker(self) -> MessageMaker:
        """Return what makes the messages of the job."""
        return MessageMaker(self.seed, self.first)


async def compare(job: LoadJob) -> dict[str, Any]:
    """Publish some messages; return the events of a sample of subscribers."""
    sizes, found = job.sizes, []
    async with HttpClient(job.port) as client:
        for first in range(0, sizes.compared, sizes.batch):
            maker = MessageMaker(job.seed, job.first + first)
            await client.publish(maker.lines(min(sizes.batch, sizes.compared - first)), LINES)
        for number in range(min(sizes.sample, sizes.subscribers)):
            found += await _all_events(client, subscriber_name(number))
    return {"events": found}


async def _all_events(client: HttpClient, subscriber: str) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    cursor = "0-0"
    while True:
        page = await client.call("GET", f"/v1/subscribers/{subscriber}/events?cursor={cursor}&limit=1000")
        data = [event["data"] for event in page["events"]]
        found += [(each["subscription_id"], each["message_id"]) for each in data]
        cursor = page["cursor"]
        if not data:
            return found


async def minute(job: LoadJob) -> dict[str, Any]:
    """Publish as many messages as the log of a minute has."""
    maker, sizes = job.maker(), job.sizes
    async with HttpClient(job.port) as client:
        for first in range(0, sizes.minute, sizes.batch):
            await client.publish(maker.arrow(min(sizes.batch, sizes.minute - first)), ARROW)
    return {}


async def singles(job: LoadJob) -> dict[str, Any]:
    """Publish one message a request from many clients; time each until its events come."""
    sizes, maker, times = job.sizes, job.maker(), EventTimes()
    watched = [subscriber_name(number) for number in range(min(_WATCHED, sizes.streams, sizes.subscribers))]
    streams = await open_streams(job.port, watched, await _end(job, maker), times.on_event)
    first = maker.next
    bodies = iter(enumerate(maker.features(max(1, int(sizes.seconds * _SINGLES_PER_S))), first))

    async def publish(client: HttpClient) -> int:
        n, over = 0, time.perf_counter() + sizes.seconds
        for number, body in bodies:
            times.sent[number] = time.perf_counter()
            await client.publish(body)
            n += 1
            if time.perf_counter() > over:
                break
        return n

    n, taken = await _together(job.port, sizes.clients, publish)
    await times.until_quiet()
    _close(streams)
    return {"per_s": n / taken, **times.to_json()}


async def _end(job: LoadJob, maker: MessageMaker) -> str:
    """Return a cursor after all events there are, so that a stream does not begin with those of other rows."""
    async with HttpClient(job.port) as client:
        return await client.publish(maker.lines(1), LINES)


async def lines(job: LoadJob) -> dict[str, Any]:
    """Publish lines of Features."""
    return await _batches(job, job.maker().lines, "/v1/messages", LINES)


async def arrow(job: LoadJob) -> dict[str, Any]:
    """Publish Arrow streams."""
    return await _batches(job, job.maker().arrow, "/v1/messages", ARROW)


async def locations(job: LoadJob) -> dict[str, Any]:
    """Tell where subscribers are, many a request."""
    maker, subscribers = job.maker(), job.sizes.subscribers
    return await _batches(job, lambda n: maker.locations(n, subscribers), "/v1/locations", JSON)


async def _batches(job: LoadJob, make: Callable[[int], bytes], path: str, content_type: str) -> dict[str, Any]:
    """Send batches for some seconds; return how many items a second were accepted."""
    sizes = job.sizes
    bodies = iter([make(sizes.batch) for _ in range(max(1, int(sizes.seconds * _BATCHES_PER_S)))])

    async def send(client: HttpClient) -> int:
        n, over = 0, time.perf_counter() + sizes.seconds
        for body in bodies:
            n += (await client.call("POST", path, body, content_type))["accepted"]
            if time.perf_counter() > over:
                break
        return n

    n, taken = await _together(job.port, _SENDERS, send)
    return {"per_s": n / taken}


async def _together(port: int, clients: int, run: Callable[[HttpClient], Awaitable[int]]) -> tuple[int, float]:
    """Let some clients do the same; return the sum of what they did, and the seconds that took."""

    async def one() -> int:
        async with HttpClient(port) as client:
            return await run(client)

    began = time.perf_counter()
    done = await asyncio.gather(*(one() for _ in range(clients)))
    return sum(done), time.perf_counter() - began


async def streams(job: LoadJob) -> dict[str, Any]:
    """Open many streams and publish about an event a second for each; once more beside one that is never read."""
    sizes, maker, times = job.sizes, job.maker(), EventTimes()
    await asyncio.sleep(min(sizes.seconds, _REST_S))
    before = memory_bytes(job.pid)
    names = [subscriber_name(number) for number in range(min(sizes.streams, sizes.subscribers))]
    end = await _end(job, maker)
    opened = await open_streams(job.port, names, end, times.on_event)
    found: dict[str, Any] = {"streams": len(opened), "bytes_before": before, "bytes_open": memory_bytes(job.pid)}
    found["alone"] = await _paced(job, maker, times)
    found["bytes"] = memory_bytes(job.pid)
    async with HttpClient(job.port) as client:
        await client.call("POST", "/v1/subscriptions", msgspec.json.encode([every_word("stalled")]))
    stalled = await open_stalled(job.port, "stalled", end)
    times.clear()
    found["beside_stalled"] = await _paced(job, maker, times)
    stalled.close()
    async with HttpClient(job.port) as client:  # the server closes a connection that was idle for some seconds
        await client.call("DELETE", "/v1/subscriptions/stalled")
    _close(opened)
    return found


async def _paced(job: LoadJob, maker: MessageMaker, times: EventTimes) -> dict[str, Any]:
    """Publish batches at a steady pace, so many that each stream gets about an event a second, and some more."""
    sizes = job.sizes
    reached = sizes.matches * min(sizes.streams, sizes.subscribers) / sizes.subscribers
    n = max(1, round(1.05 * sizes.streams / reached / _BEATS))
    async with HttpClient(job.port) as client:
        began = time.perf_counter()
        for beat in range(max(1, round(sizes.seconds * _BEATS))):
            await asyncio.sleep(max(0.0, began + beat / _BEATS - time.perf_counter()))
            first, body = maker.next, maker.lines(n)
            times.sent |= dict.fromkeys(range(first, maker.next), time.perf_counter())
            await client.publish(body, LINES)
    await times.until_quiet()
    return {"per_s": rate_of(times.came, began, sizes.seconds), **times.to_json()}


async def resume(job: LoadJob) -> dict[str, Any]:
    """Publish many deliveries; time how long subscribers that missed all of theirs wait for the first of these."""
    sizes, maker = job.sizes, job.maker()
    before = await _end(job, maker)
    n_messages = max(1, round(sizes.deliveries / sizes.matches))
    async with HttpClient(job.port) as client:
        for first in range(0, n_messages, sizes.batch):
            await client.publish(maker.arrow(min(sizes.batch, n_messages - first)), ARROW)
    step = max(1, sizes.subscribers // _RESUMED)
    names = [subscriber_name(number) for number in range(0, sizes.subscribers, step)][:_RESUMED]
    found = [await _resumed(job.port, name, before) for name in names]
    return {
        "deliveries": n_messages * sizes.matches,
        "missed": float(np.median([n for n, _ in found])),
        "median_ms": float(np.median([seconds for _, seconds in found])) * 1e3,
        "largest_ms": max(seconds for _, seconds in found) * 1e3,
    }


async def _resumed(port: int, subscriber: str, after: str) -> tuple[int, float]:
    """Open a stream from a cursor on; return how many of the events that were missed came, and when all of them had."""
    came: list[float] = []
    began = time.perf_counter()
    streams_ = await open_streams(port, [subscriber], after, lambda _, now: came.append(now))
    seen = -1
    while len(came) > seen and len(came) < _MISSED:
        seen = len(came)
        await asyncio.sleep(_QUIET_S)
    _close(streams_)
    n = min(len(came), _MISSED)
    return n, (came[n - 1] if n else time.perf_counter()) - began


async def webhooks(job: LoadJob) -> dict[str, Any]:
    """Let webhooks wait at live endpoints, and time how they arrive: alone, beside dead endpoints, and alone again.

    What was published before slows all of them down, so what is beside the dead ones is compared with both.
    """
    sizes, maker = job.sizes, job.maker()
    async with HookReceiver() as receiver:
        live = [f"live-{number}" for number in range(sizes.endpoints)]
        await _add_endpoints(job, live, lambda _: receiver.live_url())
        alone = await _hooks_per_s(job, maker, receiver)
        dead = [f"dead-{number}" for number in range(sizes.dead_endpoints)]
        await _add_endpoints(job, dead, receiver.dead_url)
        await _hooks_per_s(job, maker, receiver)  # dead ones are found out by their first failures
        beside = await _hooks_per_s(job, maker, receiver)
        await _set_sinks(job, dead, lambda _: None)
        again = await _hooks_per_s(job, maker, receiver)
    return {"per_s": (alone + again) / 2, "per_s_beside_dead": beside}


async def _add_endpoints(job: LoadJob, names: list[str], url_of: Callable[[int], str]) -> None:
    async with HttpClient(job.port) as client:
        for first in range(0, len(names), job.sizes.batch):
            portion = range(first, min(first + job.sizes.batch, len(names)))
            made = [endpoint_subscription(names[number], number) for number in portion]
            await client.call("POST", "/v1/subscriptions", msgspec.json.encode(made))
    await _set_sinks(job, names, url_of)


async def _set_sinks(job: LoadJob, names: list[str], url_of: Callable[[int], str | None]) -> None:
    """Give subscribers the sink of a URL, or none."""
    numbers = iter(range(len(names)))

    async def put(client: HttpClient) -> int:
        for number in numbers:
            url = url_of(number)
            sink = msgspec.json.encode({"sink": None if url is None else {"url": url}})
            await client.call("PUT", f"/v1/subscribers/{names[number]}", sink)
        return 0

    await _together(job.port, job.sizes.clients, put)


async def _hooks_per_s(job: LoadJob, maker: MessageMaker, receiver: HookReceiver) -> float:
    """Publish messages for live endpoints; return how many webhooks a second arrived until all had, or time was up."""
    sizes = job.sizes
    receiver.arrivals.clear()
    wanted = max(1, round(sizes.seconds * _HOOKS_PER_S * WORDS / max(sizes.endpoints, 1)))
    began = time.perf_counter()
    async with HttpClient(job.port) as client:
        for first in range(0, wanted, sizes.batch):
            await client.publish(maker.lines(min(sizes.batch, wanted - first)), LINES)
    over, seen = began + _PATIENCE * sizes.seconds, -1
    while len(receiver.arrivals) > seen and time.perf_counter() < over:
        seen = len(receiver.arrivals)
        await asyncio.sleep(min(1.0, sizes.seconds))
    return len(receiver.arrivals) / (max(receiver.arrivals, default=time.perf_counter()) - began)


def _close(streams_: list[Any]) -> None:
    for stream in streams_:
        stream.transport.abort()


_KINDS = (compare, minute, singles, lines, arrow, locations, streams, webhooks, resume)
_JOBS = {job.__name__: job for job in _KINDS}


def main() -> None:
    """Run jobs until there are no more; one that fails is answered with the reason."""
    for line in sys.stdin.buffer:
        job = msgspec.json.decode(line, type=LoadJob)
        try:
            answer = asyncio.run(_JOBS[job.kind](job))
        except Exception as error:  # noqa: BLE001  told to whoever asked
            answer = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
