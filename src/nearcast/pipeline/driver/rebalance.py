"""Rebalancing: a running stream moves all subscriptions to another plan or number of partitions between two batches.

Old partitions write out what they hold, a plan is learned of that and of recent messages, and new partitions are built.
Nothing of it counts before the next batch commits the manifest that names it: whoever stops in between goes on with the
old ones, and the request is still there.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.columns import TOPK, Messages
from nearcast.errors import IncompatibleStore, InvalidInput
from nearcast.pipeline.batch.segments import MessageSegment, concat
from nearcast.pipeline.driver.building import built, learned_plan, sample_step
from nearcast.pipeline.driver.first_state import SAMPLE
from nearcast.pipeline.driver.placing import PlacedShare, PlaceTask
from nearcast.pipeline.driver.state import DriverState, plan_entry
from nearcast.pipeline.driver.window_rounds import batches_of_window
from nearcast.pipeline.store.checkpoint_report import state_of
from nearcast.pipeline.store.manifest import Manifests
from nearcast.pipeline.store.manifest_entries import LoadBalance, PartitionEntry, RebalanceNote
from nearcast.pipeline.worker.tasks import BuildTask, ExportTask, export_partition, held
from nearcast.plans import parse_spec

if TYPE_CHECKING:
    from nearcast.pipeline.driver.directory import Directory
    from nearcast.pipeline.runner import Runner
    from nearcast.pipeline.settings import PipelineSettings
    from nearcast.pipeline.store.manifest import Manifest
    from nearcast.pipeline.store.manifest_entries import BatchFiles
    from nearcast.pipeline.store.store import Store
    from nearcast.pipeline.worker.share import SharePart
    from nearcast.pipeline.worker.tasks import StepResult
    from nearcast.text.words import WordTable

REQUEST = "requests/rebalance.json"
#: Of so many sources the messages stay, for a plan to be learned from.
RECENT = 32
#: Batches that the average load of partitions reaches back, and after which it is trusted.
_AVERAGED, _TRUSTED_AFTER = 10, 20
#: The first batch in which it is counted what the thresholds after it need, and from how many pairs on that tells.
_COUNTED_FROM, _COUNTED_PAIRS = 8, 1000
#: How many times as many partitions as at first keys may lead to, and how many moves a subscription must have made
#: meanwhile, before a stream places all again by itself: placing is dear, and to be rare beside moves.
_SCATTERED, _MOVES_EACH = 1.2, 20
#: If they need a smaller share of what routes are made for, subscriptions are placed again.
_NEEDED = 0.5


# --- requests ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RebalanceRequest:
    """A request for a plan and a number of partitions; None stands for the present ones, learned again."""

    id: str
    plan: str | None = None
    partitions: int | None = None

    def resolved(self, manifest: Manifest) -> tuple[str, int]:
        """Return the plan and the partitions that are meant; `InvalidInput` if they do not go together."""
        spec = manifest.plan.name if self.plan is None else self.plan
        partitions = self.partitions
        if partitions is None:
            named = parse_spec(spec)
            is_spelled_out = spec != named.name
            partitions = named.first * named.second if is_spelled_out else manifest.plan.partitions
        parse_spec(spec, partitions)
        return spec, partitions


def ask(store: Store, manifest: Manifest, plan: str | None, partitions: int | None) -> RebalanceRequest:
    """Leave a request for the next batch, in place of one that waits; `InvalidInput` if it cannot be met."""
    request = RebalanceRequest(secrets.token_hex(8), plan, partitions)
    request.resolved(manifest)
    store.put(REQUEST, lambda path: path.write_text(json.dumps(asdict(request))))
    return request


def ask_checkpoint(checkpoint: str, plan: str | None, partitions: int | None) -> dict[str, Any]:
    """Leave a request in a checkpoint; return what was asked for, as plain values under keys that stay."""
    store = state_of(checkpoint)
    manifest = Manifests(store).last()
    if manifest is None:
        raise InvalidInput(f"{checkpoint} is a checkpoint, but no batch was finished yet; ask again later")
    request = ask(store, manifest, plan, partitions)
    spec, n = request.resolved(manifest)
    return {
        "checkpoint": checkpoint,
        "request": request.id,
        "plan": spec,
        "partitions": n,
        "after_batch": manifest.batch,
        "was": {"plan": manifest.plan.name, "partitions": manifest.plan.partitions},
    }


def waiting(store: Store) -> RebalanceRequest | None:
    """Return the request that was left, whether it was met or not."""
    if not store.exists(REQUEST):
        return None
    try:
        return RebalanceRequest(**json.loads(store.read_bytes(REQUEST)))
    except (ValueError, TypeError):
        raise InvalidInput(f"{store.root}/{REQUEST} is no request; delete it and ask again") from None


def wanted(store: Store, manifest: Manifest, above: float | None) -> RebalanceRequest | None:
    """Return the request to meet before the next batch: one that was left, or our own if that saves work."""
    request = waiting(store)
    if request is not None and request.id != _last_met(manifest):
        return request
    if above is not None and (is_uneven(manifest.balance, above) or is_scattered(manifest, above)):
        return RebalanceRequest(f"load-{manifest.batch}")
    if is_scattered(manifest, _SCATTERED) and have_all_moved(manifest):
        return RebalanceRequest(f"moves-{manifest.batch}")
    if has_risen(manifest.balance):
        return RebalanceRequest(f"thresholds-{manifest.batch}")
    return None


def settle(store: Store, manifest: Manifest) -> None:
    """Remove the request that this manifest met."""
    met = _last_met(manifest)
    if met is None:
        return
    request = waiting(store)
    if request is not None and request.id == met:
        store.delete([REQUEST])


def _last_met(manifest: Manifest) -> str | None:
    return None if manifest.rebalance is None else manifest.rebalance.id


# --- load -------------------------------------------------------------------------------------------------------


def balance_after(
    balance: LoadBalance | None, seconds: Sequence[float], needed: float | None = None, moves: int = 0
) -> LoadBalance:
    """Return the load after one more batch, of so many seconds in each partition and so many moves."""
    if balance is None or len(balance.seconds) != len(seconds):
        balance = LoadBalance((0.0,) * len(seconds), 0)
    batches = balance.batches + 1
    share = 1 / min(batches, _AVERAGED)
    averages = [old + share * (new - old) for old, new in zip(balance.seconds, seconds, strict=True)]
    return LoadBalance(tuple(round(each, 6) for each in averages), batches, needed, balance.moves + moves)


def is_uneven(balance: LoadBalance | None, above: float) -> bool:
    """Tell whether the busiest partition takes more than `above` times the mean, averaged over enough batches."""
    if balance is None or balance.batches < _TRUSTED_AFTER:
        return False
    mean = sum(balance.seconds) / len(balance.seconds)
    return mean > 0.0 and max(balance.seconds) > above * mean


def is_scattered(manifest: Manifest, above: float) -> bool:
    """Tell whether keys lead to `above` times as many partitions as at first: movers have gone far from their homes.

    As for the load, some batches go by between two rebalances.
    """
    plan, balance = manifest.plan, manifest.balance
    if balance is None or balance.batches < _TRUSTED_AFTER:
        return False
    return 0.0 < plan.spread_at_first < plan.spread / above


def have_all_moved(manifest: Manifest) -> bool:
    """Tell whether subscriptions have moved often enough, on average, since they were placed."""
    balance, n = manifest.balance, manifest.counts.get("subscriptions", 0)
    return balance is not None and n > 0 and balance.moves >= _MOVES_EACH * n


# --- thresholds -------------------------------------------------------------------------------------------------


def counts_needed(state: DriverState, files: BatchFiles) -> bool:
    """Tell whether partitions count in this batch what the thresholds after it need: in the 8th, 16th, 32nd, and so on.

    Only where keys have cells, which get fewer as thresholds rise. The number of the batch decides, so that a re-run
    does the same, and a stream places again by itself at most once while it doubles its age.
    """
    batch, plan = files.batch, state.router.plan
    if batch < _COUNTED_FROM or batch & (batch - 1) != 0 or files.vocabulary is not None:
        return False
    return plan.grid is not None and plan.partitions > 1 and bool((state.directory.kind == TOPK).any())


def needed_share(results: Sequence[StepResult]) -> float | None:
    """Return the share of what routes are made for that thresholds need; None if not counted, or too little to tell."""
    counts = [each.needed for each in results if each.needed is not None]
    needed, placed = sum(each[0] for each in counts), sum(each[1] for each in counts)
    if len(counts) < len(results) or placed < _COUNTED_PAIRS:
        return None
    return round(needed / placed, 4)


def has_risen(balance: LoadBalance | None) -> bool:
    """Tell whether thresholds have risen so far that routes made for these would bring far fewer messages."""
    return balance is not None and balance.needed is not None and balance.needed < _NEEDED


# --- rebalancing ------------------------------------------------------------------------------------------------


def carried_out(
    request: RebalanceRequest, state: DriverState, runner: Runner, *, claims: str | None = None
) -> DriverState:
    """Carry out a request and note it in the manifest; one that cannot be met is noted with the reason."""
    try:
        spec, partitions = request.resolved(state.manifest)
    except InvalidInput as error:
        note = RebalanceNote(request.id, refused=str(error))
        state.manifest = replace(state.manifest, rebalance=note, balance=None)
        return state
    batch = state.manifest.batch
    state = rebalanced(state, state.settings, runner, spec, partitions, claims=claims)
    note = RebalanceNote(request.id, after_batch=batch, plan=spec, partitions=partitions)
    state.manifest = replace(state.manifest, rebalance=note)
    return state


def rebalanced(
    state: DriverState,
    settings: PipelineSettings,
    runner: Runner,
    spec: str,
    partitions: int,
    *,
    claims: str | None = None,
) -> DriverState:
    """Return the same stream at the same batch with all subscriptions in the partitions of a plan learned anew.

    The manifest in it is for the next batch to go on from, and not to be committed itself.
    """
    store, manifest = state.store, state.manifest
    settings = replace(settings, plan=spec, partitions=partitions)
    parts = _exported(state, runner, claims)
    plan = learned_plan(parts, settings, partial(_recent_messages, store, manifest), state.vocabulary)
    vocabulary = manifest.vocabulary.folder
    first = BuildTask(
        store=store,
        settings=settings,
        batch=manifest.batch,
        vocabulary=vocabulary,
        window=parts[0].name if settings.has_steps else None,
        next_step=manifest.next_step,
        now=state.now,
        published=manifest.counts.get("messages", 0),
    )
    shares = [PlaceTask(store, manifest.batch, "", vocabulary, part.name) for part in parts]
    made = built(plan, shares, first, runner, len(state.directory))
    router = made.router
    _move_homes(state.directory, made.placed)
    folder, directory = store.unique("plans", manifest.batch), store.unique("directories", manifest.batch)
    store.put_folder(folder, router.save)
    store.put_folder(directory, state.directory.save)
    store.delete([part.name for part in parts])
    batch = manifest.batch
    manifest = replace(
        manifest,
        partitions=tuple(PartitionEntry(name, batch) for name in made.snapshots),
        plan=plan_entry(spec, folder, router),
        directory=directory,
        directory_batch=batch,
        batches=batches_of_window(manifest),
        load=(),
        balance=None,
    )
    return DriverState(
        store=store,
        settings=settings,
        manifest=manifest,
        directory=state.directory,
        router=router,
        vocabulary=state.vocabulary,
        id_types=state.id_types,
    )


def _exported(state: DriverState, runner: Runner, claims: str | None) -> list[SharePart]:
    """Export all partitions; the first one with the window, which is the same everywhere."""
    numbers = range(len(state.manifest.partitions))
    plan, every = state.plan_ref, sample_step(len(state.directory))
    tasks = [ExportTask(state.partition_ref(number), plan, number == 0, every) for number in numbers]
    exports: list[SharePart] = runner.map(export_partition, tasks, claims=claims, prefer=held)
    return exports


def _move_homes(directory: Directory, placed: Sequence[PlacedShare]) -> None:
    """Note the new homes and copies of all subscriptions."""
    number = np.concatenate([each.number for each in placed])
    places = directory.places_of_numbers(number)
    if len(places) != len(directory) or (places < 0).any():
        raise IncompatibleStore(
            f"the partitions hold {len(places):,} subscriptions, the directory names {len(directory):,}, and they are"
            " not the same; restore the checkpoint from a copy"
        )
    home, copies = (np.concatenate(each) for each in ([p.home for p in placed], [p.copies for p in placed]))
    directory.set(places, home=home, copies=copies)


# --- recent messages --------------------------------------------------------------------------------------------


def recent_after(recent: Sequence[str], segments: Sequence[str]) -> tuple[str, ...]:
    """Return the segments that stay for a plan to be learned from, after a batch with these."""
    return (*recent, *segments)[-RECENT:]


def _recent_messages(store: Store, manifest: Manifest, words: WordTable) -> Messages:
    """Return the newest messages that are still at hand; words that no subscription has are left out."""
    names = manifest.recent
    segments: list[MessageSegment] = []
    n = 0
    for name in reversed(names):
        segments.insert(0, MessageSegment.read(store.local(name)))
        n += len(segments[0])
        if n >= SAMPLE:
            break
    if not n:
        return Messages.none()
    segment = concat(segments)
    messages = replace(segment.messages, terms=segment.terms_in(words))
    return messages if n <= SAMPLE else messages.take(np.linspace(0, n - 1, SAMPLE).astype(np.int64))
