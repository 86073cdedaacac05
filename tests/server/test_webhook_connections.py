"""Connections of webhooks: kept open by origin, given up when the other end closed them or there are too many."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from hook_receivers import OK, HookReceiver, status

from nearcast.server.webhooks.addresses import AddressPolicy
from nearcast.server.webhooks.transport import HookTransport


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(600):
            await test()

    asyncio.run(bounded())


def _transport(most: int = 512) -> HookTransport:
    return HookTransport(AddressPolicy.allowing(["127.0.0.0/8"]), most_connections=most)


def _url(receiver: HookReceiver) -> str:
    return f"http://127.0.0.1:{receiver.port}/"


def test_a_connection_serves_one_request_after_the_other() -> None:
    """Requests at the same time have one each; later ones share those."""

    async def test() -> None:
        receiver, transport = HookReceiver(), _transport()
        async with receiver.running():
            for _ in range(3):
                assert 204 == (await transport.post(_url(receiver), {}, b"{}")).status
            assert 1 == receiver.n_connections
            await asyncio.gather(*(transport.post(_url(receiver), {}, b"{}") for _ in range(2)))
            assert 2 == receiver.n_connections
            assert f"127.0.0.1:{receiver.port}" == receiver.requests[0].headers["host"]
            await transport.close()
            assert 0 == len(transport._connections._idle)

    run(test)


def test_a_connection_that_the_receiver_closed_is_no_failure() -> None:
    """The next request has a new one; also after an error in the middle of an answer."""

    async def test() -> None:
        answers = [status(204, "connection: close"), OK, None, OK]
        receiver, transport = HookReceiver(lambda n: answers[n]), _transport()
        async with receiver.running():
            assert [204, 204, 0, 204] == [(await transport.post(_url(receiver), {}, b"{}")).status for _ in answers]
            assert 3 == receiver.n_connections
            await transport.close()

    run(test)


def test_a_connection_that_was_closed_while_idle_is_not_used() -> None:
    """The receiver hung up after its answer, which did not say so."""

    async def test() -> None:
        receiver, transport = HookReceiver(), _transport()
        async with receiver.running():
            await transport.post(_url(receiver), {}, b"{}")
            (connection,) = transport._connections._idle
            receiver.writers[0].close()
            while not connection.has_expired():
                await asyncio.sleep(0)
            assert 204 == (await transport.post(_url(receiver), {}, b"{}")).status
            assert 2 == receiver.n_connections
            await transport.close()

    run(test)


def test_the_longest_idle_connections_make_room() -> None:
    """With three allowed, the fourth origin takes the place of the first."""

    async def test() -> None:
        receivers, transport = [HookReceiver() for _ in range(4)], _transport(3)
        async with receivers[0].running(), receivers[1].running(), receivers[2].running(), receivers[3].running():
            for each in receivers:
                await transport.post(_url(each), {}, b"{}")
            assert 3 == len(transport._connections._idle)
            for each in receivers[::-1]:
                await transport.post(_url(each), {}, b"{}")
            assert [2, 1, 1, 1] == [each.n_connections for each in receivers]
            await transport.close()

    run(test)
