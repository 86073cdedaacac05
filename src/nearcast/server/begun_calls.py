"""Awaitables whose first step is taken at once, without a task: most writes to clients are over then."""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from typing import Any


class BegunCall:
    """What is left of an awaitable that waits for something after its first step. Await it once."""

    def __init__(self, steps: Generator[Any, Any, Any], waits_for: Any):
        self._steps, self._waits_for = steps, waits_for

    def __await__(self) -> Generator[Any, Any, Any]:
        """Hand on to the task what is waited for, and what the task answers or throws the other way."""
        steps, waits_for = self._steps, self._waits_for
        while True:
            try:
                given = yield waits_for
            except BaseException as error:  # noqa: BLE001  it is for those steps to handle
                thrown: BaseException | None = error
            else:
                thrown = None
            try:
                waits_for = steps.send(given) if thrown is None else steps.throw(thrown)
            except StopIteration as over:
                return over.value


def begun(call: Awaitable[Any]) -> BegunCall | None:
    """Take the first step of an awaitable; return the rest of it, None if it is over. Raises what it raises."""
    steps = call.__await__()
    try:
        return BegunCall(steps, steps.send(None))
    except StopIteration:
        return None
