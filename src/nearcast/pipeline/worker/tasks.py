"""The tasks that run on partitions in workers: each first brings the state of its partition to the version it needs.

What a worker holds in memory is a cache and never the truth: a state is used if it is of the version asked for, or
older and of the same line; else it is opened from its snapshot. Then it is taken through the batches that are missing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearcast.columns import NO_TIME
from nearcast.errors import IncompatibleStore
from nearcast.live.registry import open_live_store
from nearcast.pipeline.batch.inputs import BatchInputs, read_inputs
from nearcast.pipeline.batch.partition_deliveries import count, keyed, net, schema_of, tables
from nearcast.pipeline.batch.router import NamedKeys, PlanRef, Router, router_of
from nearcast.pipeline.copies.candidates import Candidates
from nearcast.pipeline.copies.detection import detect, follow
from nearcast.pipeline.divided_window.remote_window import RemoteWindow
from nearcast.pipeline.divided_window.window_part import QuestionRound, WindowPartRef, answers_of, forget_parts
from nearcast.pipeline.host_window.host_window import forget_arenas
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.sinks.base import Output, Stager
from nearcast.pipeline.store import pickles
from nearcast.pipeline.store.local_place import one_line
from nearcast.pipeline.store.manifest_entries import BatchFiles
from nearcast.pipeline.store.state_cache import StateCache
from nearcast.pipeline.store.store import Store
from nearcast.pipeline.worker.batch_matcher import PartitionDelta
from nearcast.pipeline.worker.late_snapshot import LARGE, LateSnapshot, WrittenSnapshot
from nearcast.pipeline.worker.partition import Partition
from nearcast.pipeline.worker.partition_keys import PartitionKeys
from nearcast.text import Vocabulary
from nearcast.topk.saved_keeper import open_window, save_window

if TYPE_CHECKING:
    from nearcast.pipeline.worker.share import SharePart


@dataclass(frozen=True)
class PartitionRef:
    """Names the files of a partition's state: a snapshot, and the batches since with their deltas.

    `line` tells snapshots of one line of history from those of another plan.
    """

    store: Store
    settings: PipelineSettings
    number: int
    line: str
    snapshot: str
    snapshot_batch: int
    history: tuple[tuple[BatchFiles, str], ...]
    #: Event time after the last batch, where batches may be left out of the history.
    now: int = NO_TIME

    @property
    def version(self) -> int:
        """The batch whose end this is."""
        return self.history[-1][0].batch if self.history else self.snapshot_batch


_BEFORE = -1


@dataclass
class _CachedPartition:
    line: str
    version: int
    detected: int
    partition: Partition
    #: The last batch it went through: later than `version` if that was not recorded, because it leaves nothing behind
    #: but the time.
    seen: int = _BEFORE
    #: The snapshot of an earlier batch that is being written, or that no step has told of yet.
    late: LateSnapshot | None = None


_cache: StateCache[_CachedPartition] = StateCache()
#: How many batches a state may lie untouched before its memory is given back: others have taken it over.
_KEPT_BATCHES = 2


def forget_all() -> None:
    """Forget all states this process holds, as a new process would not have them."""
    _cache.clear()
    forget_parts()
    forget_arenas()


def held(payloads: list[Any]) -> list[int]:
    """Return the payloads whose state this worker has in memory: first those it can use as it is."""
    exact: list[int] = []
    near: list[int] = []
    for at, payload in enumerate(payloads):
        ref = payload.ref
        known = _cache.look(ref.store, ref.number)
        if known is not None and known.line == ref.line:
            (exact if known.version == ref.version else near).append(at)
    return exact + near


def _state_of(ref: PartitionRef, router: Router, batch: int | None = None) -> _CachedPartition:
    """Return the state of a partition as it is at the end of `ref`, taken out of the cache, to go through `batch`."""
    known = _cache.take(ref.store, ref.number)
    if known is None or not _is_usable(known, ref, batch):
        partition = Partition.open(ref.number, ref.settings, ref.store.local(ref.snapshot))
        known = _CachedPartition(ref.line, ref.snapshot_batch, ref.snapshot_batch, partition, ref.snapshot_batch)
    for files, delta in ref.history:
        if files.batch > known.version:
            _replay(known, read_inputs(ref.store, files), PartitionDelta.read(ref.store.local(delta)), router)
    known.partition.catch_up(ref.now)
    return known


def _is_usable(known: _CachedPartition, ref: PartitionRef, batch: int | None) -> bool:
    """Tell whether a state in memory can be brought to the end of `ref`.

    One that went through a batch that was not recorded can go through later ones: their driver has committed it. For
    that batch itself, which is run again, its time is too late: a subscription may have expired.
    """
    batches = [files.batch for files, _ in ref.history]
    if known.line != ref.line or known.version not in (ref.snapshot_batch, *batches):
        return False
    later = next((each for each in batches if each > known.version), batch)
    return known.seen <= known.version or (later is not None and known.seen < later)


def _replay(known: _CachedPartition, inputs: BatchInputs, delta: PartitionDelta, router: Router) -> None:
    remote, host = known.partition.remote_window, known.partition.host_window
    if remote is not None:
        remote.begin_batch(delta.answers if isinstance(delta.answers, dict) else {})
    if host is not None:
        host.begin_replay(delta.answers if isinstance(delta.answers, list) else [])
    _use_vocabulary(known.partition, inputs)
    known.partition.run(inputs, router, recorded=delta)
    if host is not None:
        host.end_replay()
    if remote is not None and remote.questions:
        raise IncompatibleStore(
            f"batch {inputs.files.batch} cannot be gone through again: {len(remote.questions)} answers of the window"
            " are not noted; bring the checkpoint back, or begin anew with another one"
        )
    if known.detected < inputs.files.batch:
        follow(known.partition, inputs)
    known.version = known.detected = known.seen = inputs.files.batch


def _use_vocabulary(partition: Partition, inputs: BatchInputs) -> None:
    if inputs.vocabulary is not None:
        partition.use_vocabulary(inputs.vocabulary)


def _keep(ref: PartitionRef, known: _CachedPartition) -> None:
    _cache.drop(ref.store, lambda other: other.seen < known.seen - _KEPT_BATCHES)
    _cache.put(ref.store, ref.number, known)


# --- a batch ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DetectTask:
    """Task: detect candidates by the copies of a partition; `deltas` are those of all homes in the batch before."""

    ref: PartitionRef
    plan: PlanRef
    files: BatchFiles
    deltas: tuple[str, ...]


def detect_batch(task: DetectTask) -> str:
    """Return the name of the file with the candidates that copies found, by home."""
    store, router = task.ref.store, router_of(task.plan)
    known = _state_of(task.ref, router)
    deltas = [PartitionDelta.read(store.local(name)) for name in task.deltas]
    if deltas:
        number, threshold = ([getattr(each, name) for each in deltas] for name in ("copy_number", "copy_threshold"))
        known.partition.detector.set_thresholds(np.concatenate(number), np.concatenate(threshold))
    inputs = read_inputs(store, task.files)
    found = detect(known.partition, inputs, router)
    known.detected = task.files.batch
    name = pickles.put(store, "candidates", task.files.batch, task.ref.number, found)
    _keep(task.ref, known)
    return name


@dataclass(frozen=True)
class StepTask:
    """Task: run a partition through a batch."""

    ref: PartitionRef
    plan: PlanRef
    files: BatchFiles
    candidates: tuple[str, ...]
    stager: Stager
    id_types: tuple[str, str]
    #: Whether staged rows carry the numbers that put them in order among those of other partitions.
    with_keys: bool = False
    #: How many keys it may add to the routes; beyond that it names all that it needs, in place of those it has.
    spare_keys: int = 0
    #: What was asked and answered in earlier runs of this batch, where the window is divided.
    rounds: tuple[QuestionRound, ...] = ()
    #: The window before this batch, where the workers of a host share one.
    window: WindowPartRef | None = None
    #: Whether to count what the thresholds after the batch need.
    counts_needed: bool = False
    #: Whether the batch leaves something behind that a replay must repeat.
    is_recorded: bool = True
    #: Given if the state after the batch shall be written as a snapshot.
    snapshot: SnapshotTurn | None = None


@dataclass(frozen=True)
class OpenQuestions:
    """The file of questions that a partition has to the window: its run of the batch is void and is repeated."""

    questions: str
    n: int


class SnapshotTurn(NamedTuple):
    """A partition shall write a snapshot; a large one `may_be_late`: written beside later steps, and named by one."""

    may_be_late: bool


class SnapshotNews(NamedTuple):
    """What a step tells of snapshots: one that was finished, or why one was not, and the name of one in the making."""

    written: WrittenSnapshot | None = None
    problem: str | None = None
    in_the_making: str | None = None


_NO_NEWS = SnapshotNews()


@dataclass(frozen=True)
class StepResult:
    """What a batch left behind in a partition: the files of its delta and output, new keys, and counts."""

    delta: str | None
    output: Output | None
    keys: NamedKeys | None
    deliveries: int
    routed: int
    seconds: float
    #: What the thresholds after it need, and what routes are made for, where that was asked for.
    needed: tuple[int, int] | None = None
    snapshots: SnapshotNews = _NO_NEWS


def step_batch(task: StepTask) -> StepResult | OpenQuestions:
    """Match a batch in one partition and write its output and delta; or only the questions it has to the window."""
    began = time.perf_counter()
    store, number, batch = task.ref.store, task.ref.number, task.files.batch
    router = router_of(task.plan)
    known = _state_of(task.ref, router, batch)
    inputs = read_inputs(store, task.files)
    remote = known.partition.remote_window
    if remote is not None:
        remote.begin_batch(answers_of(store, number, task.rounds, by_time=remote.by_time))
    if known.partition.host_window is not None:
        assert task.window is not None
        known.partition.host_window.begin_batch(task.window, task.files)
    deliveries = [] if inputs.vocabulary is None else known.partition.use_vocabulary(inputs.vocabulary)
    candidates = _candidates(store, task.candidates, number)
    outcome = known.partition.run(inputs, router, found=candidates, spare_keys=task.spare_keys)
    if remote is not None and remote.questions:
        return _waiting(store, batch, number, remote)  # and the state is forgotten: it is of no batch
    known.seen = batch
    if task.is_recorded:
        if known.detected < batch:
            follow(known.partition, inputs)
        known.version = known.detected = batch
    deliveries = [*deliveries, *outcome.deliveries]
    if task.ref.settings.lifetime is None:
        deliveries = net(deliveries)
    schema = schema_of(*task.id_types)
    made = keyed(deliveries, schema) if task.with_keys else tables(deliveries, schema)
    output = task.stager.stage(batch, number, made)
    delta = pickles.put(store, "deltas", batch, number, outcome.delta) if task.is_recorded else None
    keys = None
    if len(outcome.keys.word) or outcome.has_all_keys:
        keys = NamedKeys.of(outcome.keys, router.plan, (number,) if outcome.has_all_keys else ())
    needed = PartitionKeys(number, known.partition.state, router).count_needed(inputs) if task.counts_needed else None
    snapshots = _snapshot(task, known)
    seconds = time.perf_counter() - began
    return StepResult(
        delta=delta,
        output=output,
        keys=keys,
        deliveries=count(deliveries),
        routed=outcome.routed,
        seconds=seconds,
        needed=needed,
        snapshots=snapshots,
    )


def _snapshot(task: StepTask, known: _CachedPartition) -> SnapshotNews:
    """Keep the state after a batch, and write it where that was asked for; one that is large is only begun.

    A batch does not fail with it: its delta is there. What could not be saved is not kept, lest it be half changed.
    """
    news = _news_of(known)
    if task.snapshot is not None and known.late is None and news == _NO_NEWS:
        try:
            news = _begun(task, task.snapshot, known)
        except Exception as error:  # noqa: BLE001 - the driver reports it, whatever it is
            return SnapshotNews(problem=one_line(error))
    _keep(task.ref, known)
    return news


def _news_of(known: _CachedPartition) -> SnapshotNews:
    """Return what became of the snapshot that an earlier step began."""
    late = known.late
    if late is None:
        return _NO_NEWS
    if not late.is_done:
        return SnapshotNews(in_the_making=late.name)
    known.late = None
    try:
        return SnapshotNews(late.written, late.problem)
    except Exception as error:  # noqa: BLE001 - the store cannot tell whether it is there: as if it were not
        return SnapshotNews(problem=one_line(error))


def _begun(task: StepTask, turn: SnapshotTurn, known: _CachedPartition) -> SnapshotNews:
    """Write the state after a batch as a snapshot, or begin to.

    A step with questions to a divided window forgets the state, and what was begun with it: there none is late.
    """
    store, batch, partition = task.ref.store, task.files.batch, known.partition
    name = store.unique("snapshots", batch, task.ref.number)
    if turn.may_be_late and partition.size > LARGE and partition.remote_window is None:
        known.late = LateSnapshot(store, name, batch, partition.save, task.ref.snapshot)
        return SnapshotNews(in_the_making=name)
    store.put_folder(name, partition.save, like=task.ref.snapshot)
    return SnapshotNews(WrittenSnapshot(name, batch))


def _waiting(store: Store, batch: int, number: int, remote: RemoteWindow) -> OpenQuestions:
    name = pickles.put(store, "questions", batch, number, remote.questions)
    return OpenQuestions(name, len(remote.questions))


def _candidates(store: Store, names: tuple[str, ...], number: int) -> Candidates | None:
    if not names:
        return None
    found = [pickles.read(store.local(name)) for name in names]
    return Candidates.concat([each[number] for each in found if number in each])  # type: ignore[index,operator]


# --- subscriptions that go from one partition to another --------------------------------------------------------


@dataclass(frozen=True)
class ExportTask:
    """Task: export the subscriptions of a partition for a rebalance; `with_window` with window and live messages.

    A plan is learned from every so many subscriptions.
    """

    ref: PartitionRef
    plan: PlanRef
    with_window: bool
    every: int = 1


def export_partition(task: ExportTask) -> SharePart:
    """Return the name of the folder with what a partition held, and what a plan is learned from."""
    from nearcast.pipeline.worker.share import share_of

    ref = task.ref
    known = _state_of(ref, router_of(task.plan))
    state, share = known.partition.state, share_of(known.partition)

    def write(folder: Path) -> None:
        pickles.write(folder / SHARE, share)
        if task.with_window and state.topk is not None:
            save_window(state.topk, folder / WINDOW)
        if task.with_window and state.live is not None:
            state.live.save(folder / LIVE)

    name = ref.store.unique("exports", known.version, ref.number)
    ref.store.put_folder(name, write)
    _keep(ref, known)
    return share.part(name, task.every)


#: In the folder of an export.
SHARE, WINDOW, LIVE = "share.pickle", "window", "live"


@dataclass(frozen=True)
class BuildTask:
    """Task: build a partition of the subscriptions in some files.

    `window` is the export with the window and the live messages they look at, `next_step`, `now` and `published` are
    where the stream is.
    """

    store: Store
    settings: PipelineSettings
    batch: int
    vocabulary: str
    number: int = 0
    subscriptions: tuple[str, ...] = ()
    window: str | None = None
    next_step: int = 0
    now: int = NO_TIME
    published: int = 0


def build_partition(task: BuildTask) -> str:
    """Return the name of the folder with the first state of a partition."""
    from nearcast.pipeline.worker.share import Share

    partition = Partition.empty(task.number, task.settings, Vocabulary.open(task.store.local(task.vocabulary)))
    state = partition.state
    if task.window is not None:
        export = task.store.local(task.window)
        if state.topk is not None:
            open_window(state.topk, export / WINDOW, state.weights)
            partition.with_window_elsewhere()
        if state.live is not None:
            state.live = open_live_store(state.live_store, export / LIVE, state.index.space, state.words)
            state.live.use_index(state.index)
    state.now, state.next_step, state.published = task.now, task.next_step, task.published
    shares = [pickles.read(task.store.local(name)) for name in task.subscriptions]
    if shares:
        Share.joined([each for each in shares if isinstance(each, Share)]).into(partition)
    name = task.store.unique("snapshots", task.batch, task.number)
    task.store.put_folder(name, partition.save)
    return name
