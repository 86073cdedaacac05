"""Tenants: worlds apart, each with a folder, a durable hub, a `server.db` and metrics of its own."""

from __future__ import annotations

import asyncio
import functools
import logging
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import apsw
import pyarrow as pa

from nearcast.deliveries import Deliveries
from nearcast.durable import DurableHub, Retention
from nearcast.errors import NearcastError, StoreUnavailable, UnknownSubscription
from nearcast.json_forms import subscription_json
from nearcast.saved_files.folder import make_folder
from nearcast.server.activity import TenantActivity
from nearcast.server.data_folders import DATABASES
from nearcast.server.erasure import make_erasures_again
from nearcast.server.event_limits import EventLimits
from nearcast.server.feeds import EventFeeds
from nearcast.server.hooks import TenantHooks
from nearcast.server.idempotency import KeptAnswers
from nearcast.server.metrics import TenantMetrics
from nearcast.server.problems import Problem
from nearcast.server.publisher import Publisher
from nearcast.server.server_db import ServerDb
from nearcast.server.settings import Settings
from nearcast.server.stalls import StallWatch
from nearcast.server.subscription_rows import SubscriptionRow, SubscriptionRows
from nearcast.server.tokens import TokenStore
from nearcast.server.upkeep import TenantUpkeep
from nearcast.server.webhooks import AttemptStore

T = TypeVar("T")
_log = logging.getLogger("nearcast.server")
#: Calls of a hub that may be under way at once: they wait for one fsync together.
_THREADS = 32
#: While nothing comes in, only one of so many beats is made: each is an input that the next start reads.
_IDLE_BEATS = 10
#: Locks for changes of the same subscription: changes of two ids rarely share one.
_LOCKS = 256


class Tenant:
    """One tenant's hub, with the rows that the server keeps beside it."""

    def __init__(
        self,
        name: str,
        folder: Path,
        settings: Settings,
        tokens: TokenStore,
        executor: Executor,
        loop: asyncio.AbstractEventLoop,
    ):
        self.name, self.folder, self.settings, self.tokens, self._executor = name, folder, settings, tokens, executor
        make_folder(folder)
        self.hub = opened_hub(folder / "hub", settings)
        try:
            self._open_rest(loop)
        except BaseException:
            self.hub.close()
            raise

    def _open_rest(self, loop: asyncio.AbstractEventLoop) -> None:
        """Open what stands beside the hub, and make what a crash cut off."""
        folder, settings, executor = self.folder, self.settings, self._executor
        self.db = ServerDb(folder / "server.db")
        self.rows = SubscriptionRows(self.db)
        attempts = AttemptStore(folder / "webhooks.db")
        make_erasures_again(self.db, attempts.erase, self.hub.erase, self.revoke_tokens)
        self.rows.make_again(self._hold_again, self.release)
        self.activity = TenantActivity(self.hub.space, self.hub.lifetime)
        self.answers = KeptAnswers(self.db, settings.limits.key_hours)
        self.metrics = TenantMetrics()
        self.publisher = Publisher(self.hub, executor, settings.limits, self._on_published)
        retention = retention_of(settings)
        self.limits = EventLimits(
            self.db, self.hub, executor, lambda id_: loop.call_soon_threadsafe(self.on_last_event, id_), retention
        )
        self.feeds = EventFeeds(self.hub, executor, loop, self.metrics, self.limits)
        #: Called in the loop with the id of a subscription that had its last event.
        self.on_last_event: Callable[[str], None] = lambda _: None
        self.hooks = TenantHooks(self.hub, attempts, self.db, settings.webhooks, self.metrics, self.limits, retention)
        #: Streams that are open, and those of them whose clients are being written to.
        self.n_streams, self.stalls = 0, StallWatch()
        self._locks = [asyncio.Lock() for _ in range(_LOCKS)]
        self._disk = (0.0, 0)
        #: Subscribers whose erasure failed half way, because the disk was full.
        self.half_erased: set[str] = set()
        databases = [*(folder / name for name in DATABASES), self.tokens.path]
        sweeps = (self.tokens.drop_expired, self.limits.forget_old)
        self.upkeep = TenantUpkeep(self.hub, databases, retention, sweeps)
        self._tasks: list[asyncio.Task[None]] = []

    async def call(self, function: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """Call a function that may wait, for the hub's lock or for the disk, in a thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, functools.partial(function, *arguments, **options))

    async def write(self, writing: Callable[[Any], T]) -> T:
        """Write to `server.db`, and wait until it is on disk."""
        return await asyncio.wrap_future(self.db.write(writing))

    def lock(self, id_: str) -> asyncio.Lock:
        """Return the lock that changes of a subscription, or of the settings of a subscriber, take."""
        return self._locks[hash(id_) % _LOCKS]

    def locks(self, subscription_ids: Iterable[str]) -> list[asyncio.Lock]:
        """Return the locks of several subscriptions, each once, in the order in which all take them."""
        return [self._locks[at] for at in sorted({hash(each) % _LOCKS for each in subscription_ids})]

    @asynccontextmanager
    async def erasing(self) -> AsyncIterator[None]:
        """Take the locks of all subscriptions and subscribers: nothing comes up beside an erasure, which is rare."""
        async with AsyncExitStack() as stack:
            for lock in self._locks:
                await stack.enter_async_context(lock)
            yield

    def revoke_tokens(self, subscriber: str) -> int:
        """End the tokens that are bound to a subscriber; return how many there were."""
        return self.tokens.revoke_bound(self.name, subscriber)

    def check_not_half_erased(self, subscriber: str | None) -> None:
        """Raise if the erasure of a subscriber is not over: what is stored of it now would go with it."""
        if subscriber in self.half_erased:
            detail = "the erasure of the subscriber failed half way; make it again (DELETE), then this"
            raise Problem(409, "half-erased", detail)

    def _on_published(self, messages: list[Any] | pa.Table, found: Deliveries) -> None:
        self.metrics.count_published(len(messages) - len(found.rejected), len(found.rejected))
        self.activity.published(messages, found)

    def hold(self, row: SubscriptionRow) -> None:
        """Let the hub hold a subscription as its row says."""
        self.hub.subscribe(row.body, subscriber=row.subscriber)

    def _hold_again(self, row: SubscriptionRow, before: SubscriptionRow | None) -> None:
        """Make a change that a crash cut off, unless the hub has it: it may have moved the subscription since."""
        try:
            held = subscription_json(self.hub.get(row.id), self.hub.space)
            is_made = row.has_made(held, self.hub.subscriber_of(row.id), before)
        except UnknownSubscription:
            is_made = False
        if not is_made:
            self.hold(row)

    def release(self, subscription_id: str) -> None:
        """Let the hub hold no subscription of this id."""
        try:
            self.hub.unsubscribe(subscription_id)
        except UnknownSubscription:  # expired, or released before a crash
            return

    def look_again(self, subscribers: list[str]) -> None:
        """Have all who hand over events of subscribers look for those that waited; in the loop's thread."""
        self.feeds.wake(subscribers)
        self.hooks.dispatcher.wake(subscribers)
        self.limits.count_soon(subscribers)

    def check_disk(self) -> None:
        """Raise if the disk is nearly full; looked at once a second."""
        now = time.monotonic()
        if now - self._disk[0] > 1:
            self._disk = (now, shutil.disk_usage(self.folder).free)
        if self._disk[1] < self.settings.limits.free_bytes:
            raise Problem(
                429,
                "disk-nearly-full",
                f"less than {self.settings.limits.free_bytes:,} bytes are free on the disk; try again later",
                headers={"Retry-After": "10"},
            )

    def begin_tasks(self) -> None:
        """Move event time to the wall clock now and then, so that what expires does so while nothing comes in.

        Also see to it that what was erased is forgotten.
        """
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self.upkeep.run())]
        if self.settings.hub.beat_seconds > 0:
            self._tasks.append(loop.create_task(self._beat()))

    async def _beat(self) -> None:
        last, n_idle = self.hub.end, 0
        while True:
            await asyncio.sleep(self.settings.hub.beat_seconds)
            n_idle = n_idle + 1 if self.hub.end == last else 0
            last = self.hub.end
            try:
                if (len(self.hub) or self.hub.has_events) and n_idle % _IDLE_BEATS == 0:
                    await self.call(self.hub.beat)
            except NearcastError as error:  # a full disk passes; of a hub that stopped `/readyz` tells
                _log.warning("no beat: %s", type(error).__name__)

    async def close(self) -> None:
        """Publish what waits, and close all files."""
        for task in self._tasks:
            task.cancel()
            await asyncio.wait([task])
        await self.call(self.upkeep.close)  # its thread goes on though the task is cancelled
        await self.publisher.close()
        await self.hooks.close()
        self.feeds.close()
        await self.call(self.hub.close)
        await self.call(self.db.close)


def opened_hub(folder: Path, settings: Settings) -> DurableHub:
    """Return the durable hub of a folder, made if there is none; other options than it was made with are refused."""
    given = settings.hub
    return DurableHub(
        folder,
        given.space,
        index=given.index,
        window=window_of(given.window),
        lifetime=given.lifetime,
        tell_expiry=given.tell_expiry,
        max_distance=given.max_distance,
        max_ahead=given.max_ahead,
        retention=retention_of(settings),
        snapshot_bytes=given.snapshot_bytes,
        clock="wall",
    )


def retention_of(settings: Settings) -> Retention:
    """Return how long deliveries of a tenant are kept."""
    return Retention(settings.hub.retention_age, settings.hub.retention_bytes)


def window_of(given: str | None) -> str | int | None:
    """Return a window as a hub takes it: a number of messages, or a time."""
    return int(given) if given is not None and given.isdecimal() else given


class Tenants:
    """All tenants of a data folder; those that exist are opened at the start, others when they are first called."""

    def __init__(self, settings: Settings, tokens: TokenStore):
        self._settings, self._tokens = settings, tokens
        self.folder = Path(settings.server.data) / "tenants"
        self._executor = ThreadPoolExecutor(_THREADS, "nearcast-call")
        self._open: dict[str, Tenant] = {}
        self._opening = asyncio.Lock()
        self.is_ready = False
        #: Called with each tenant that was opened.
        self.on_open: Callable[[Tenant], None] = lambda _: None

    def __iter__(self) -> Any:
        return iter(list(self._open.values()))

    async def start(self) -> None:
        """Open the tenants that there are, and the default one."""
        make_folder(self.folder)
        for name in sorted({"default", *(each.name for each in self.folder.iterdir() if each.is_dir())}):
            await self.get(name)
        self.is_ready = True

    async def get(self, name: str) -> Tenant:
        """Return a tenant, opened if it is not yet."""
        found = self._open.get(name)
        if found is not None:
            return found
        async with self._opening:
            if name not in self._open:
                loop = asyncio.get_running_loop()
                folder, settings = self.folder / name, self._settings
                make = functools.partial(Tenant, name, folder, settings, self._tokens, self._executor, loop)
                try:
                    made = await loop.run_in_executor(self._executor, make)
                except apsw.Error as error:
                    raise StoreUnavailable(
                        f"{self.folder / name} cannot be opened ({error}); see to the disk"
                    ) from None
                self.on_open(made)
                await made.hooks.start()
                made.begin_tasks()
                self._open[name] = made
            return self._open[name]

    async def close(self) -> None:
        """Close all of them."""
        self.is_ready = False
        for tenant in self:
            await tenant.close()
        self._executor.shutdown()
