"""Group commit for outcomes of webhooks: whatever waits is stored in one transaction, in a thread of its own."""

from __future__ import annotations

import asyncio

from nearcast.server.webhooks.attempts import AttemptOutcome, AttemptStore


class OutcomeRecorder:
    """Takes outcomes from many tasks; each waits until its own is on disk."""

    def __init__(self, store: AttemptStore):
        self._store = store
        self._waiting: list[tuple[AttemptOutcome, asyncio.Future[None]]] = []
        #: Those that are being written.
        self._writing: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None

    async def record(self, outcome: AttemptOutcome) -> None:
        """Store an outcome."""
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((outcome, stored))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._drain())
        # A task that is cancelled must not cancel the write that others share.
        await asyncio.shield(stored)

    async def _drain(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            self._writing = [stored for _, stored in batch]
            try:
                await asyncio.to_thread(self._store.record, [each for each, _ in batch])
            except Exception as error:  # noqa: BLE001  raised in each task that waits
                for _, stored in batch:
                    if not stored.done():
                        stored.set_exception(error)
            else:
                for _, stored in batch:
                    if not stored.done():
                        stored.set_result(None)

    async def flush(self) -> None:
        """Wait until all that was given so far is written; what others give meanwhile is not waited for."""
        given = [*self._writing, *(stored for _, stored in self._waiting)]
        if given:
            await asyncio.wait(given)

    async def close(self) -> None:
        """Wait for the last transaction; call it when no task records any more."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
