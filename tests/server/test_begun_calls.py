"""Coroutines that are begun without a task: over at once, or awaited from where they wait."""

import asyncio

import pytest

from nearcast.server.begun_calls import begun


def test_what_need_not_wait_is_over_at_once():
    """Nobody must be woken for it; what it raises is raised there and then."""
    done = []

    async def quick():
        done.append(1)

    async def failing():
        raise OSError("gone")

    assert begun(quick()) is None
    assert [1] == done
    with pytest.raises(OSError, match="gone"):
        begun(failing())


def test_what_waits_is_awaited_from_there():
    """Each step is made once, also where what it waited for came before somebody awaited it."""

    async def check(is_early):
        loop, steps = asyncio.get_running_loop(), []
        first, second = loop.create_future(), loop.create_future()

        async def slow():
            steps.append("begun")
            steps.append(await first)
            steps.append(await second)
            return "over"

        rest = begun(slow())
        assert ["begun"] == steps
        if is_early:
            first.set_result("first")
        else:
            loop.call_soon(first.set_result, "first")
        loop.call_soon(second.set_result, "second")

        async def wait():
            return await rest

        assert "over" == await asyncio.create_task(wait())
        assert ["begun", "first", "second"] == steps

    for is_early in (False, True):
        asyncio.run(check(is_early))


def test_who_is_cancelled_while_waiting_cancels_the_coroutine():
    """It cleans up after itself, as in a task of its own; what it raises instead is raised."""

    async def check():
        loop, steps = asyncio.get_running_loop(), []

        async def slow(*, turns):
            try:
                await loop.create_future()
            except asyncio.CancelledError:
                steps.append("cleaned up")
                if turns:
                    raise OSError("gone") from None
                raise

        for turns, error in ((False, asyncio.CancelledError), (True, OSError)):
            rest = begun(slow(turns=turns))

            async def wait(rest=rest):
                return await rest

            task = asyncio.create_task(wait())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(error):
                await task
        assert ["cleaned up"] * 2 == steps

    asyncio.run(check())
