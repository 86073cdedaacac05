"""A stream, batch by batch: read, put in order, match in every partition, commit, publish.

The manifest of a batch is its commit: before it nothing of the batch counts, after it everything does. Plain Python
over a `Runner`: Spark runs the tasks in a stream, this process does in tests.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from nearcast.columns import NO_TIME
from nearcast.errors import IncompatibleStore, NearcastError
from nearcast.pipeline.batch.order import AheadLimit
from nearcast.pipeline.batch.router import NamedKeys
from nearcast.pipeline.divided_window.window_part import write_part
from nearcast.pipeline.driver.batch_reading import BatchReader, tasks_by_kind
from nearcast.pipeline.driver.batch_report import Report, report_of
from nearcast.pipeline.driver.batch_sequencer import BatchSequencer, SequencedBatch
from nearcast.pipeline.driver.first_state import begin, begin_from, pieces_of
from nearcast.pipeline.driver.identity import forget_claims, this_driver
from nearcast.pipeline.driver.phases import PhaseClock
from nearcast.pipeline.driver.rebalance import (
    balance_after,
    carried_out,
    counts_needed,
    needed_share,
    recent_after,
    settle,
    wanted,
)
from nearcast.pipeline.driver.source_identity import check_again, identities_of, sources_after
from nearcast.pipeline.driver.state import DriverState, Snapshots
from nearcast.pipeline.driver.table_snapshots import write_tables
from nearcast.pipeline.driver.window_rounds import (
    QuestionCount,
    entries_after,
    entries_of,
    part_refs,
    run_steps,
    snapshot_tasks,
)
from nearcast.pipeline.host_window.host_window import write_window
from nearcast.pipeline.store.manifest import Manifest, Manifests
from nearcast.pipeline.store.manifest_entries import BatchFiles, PlanEntry, VocabularyEntry
from nearcast.pipeline.store.store import Store, StoreConflict
from nearcast.pipeline.worker.source_reader import Kind, ReadResult, ReadTask
from nearcast.pipeline.worker.tasks import DetectTask, StepResult, StepTask, detect_batch, held
from nearcast.plans import Keys
from nearcast.tables import Rejected

if TYPE_CHECKING:
    from nearcast.pipeline.driver.batch_source import BatchSource
    from nearcast.pipeline.runner import Runner
    from nearcast.pipeline.settings import PipelineSettings
    from nearcast.pipeline.sinks.base import Output, Sink
    from nearcast.tables.time_limits import MaxAhead
    from nearcast.text import Vocabulary

#: Manifests that are kept: the last one, and the one a re-run of it would begin from.
KEPT_MANIFESTS = 2
#: How many times the keys that it needs a partition may have in the routes, and as many more in any case.
SPARE_KEYS, FEW_KEYS = 1.25, 64
#: Batches between two looks for files that are no longer needed.
SWEEP_EVERY = 8


class ReadyBatch(NamedTuple):
    """A batch that can be read: the driver's state after what goes before it, and the vocabulary it begins with."""

    batch: int
    state: DriverState
    vocabulary: str | None


class BatchClock(NamedTuple):
    """The beat of the wall clock that ends a batch, and the one that waits until a backlog is worked off."""

    beat: int | None
    due: int | None


class Pipeline:
    """Runs the batches of one stream, from where the last one ended."""

    def __init__(
        self,
        store: Store,
        settings: PipelineSettings,
        runner: Runner,
        sink: Sink,
        rejected_sink: Sink | None = None,
        *,
        claims: str | None = None,
        rebalance_above: float | None = None,
        max_ahead: MaxAhead | None = None,
    ):
        self.store, self.settings, self.runner = store, settings, runner
        self.sink, self.rejected_sink = sink, rejected_sink
        self.manifests = Manifests(store)
        #: Where the jobs of all drivers agree on who runs what, and where those of this one do.
        self._all_claims = self._claims = claims
        self._state: DriverState | None = None
        #: The last batch that was begun; without a state it was not finished.
        self._begun: int | None = None
        #: That batch, while it is to be read.
        self._ready: ReadyBatch | None = None
        self._vocabulary: Vocabulary | None = None
        #: The Spark query this is the state of; None outside a stream.
        self.query_id: str | None = None
        #: Whether time puts the rows of a batch in order; else they come as they stand in their sources.
        self.by_time = True
        #: Whether a batch may come again, after a restart: then it is noted what tells its sources from others.
        self.notes_sources = True
        #: Whether what is staged can be merged into one order over all partitions.
        self.with_keys = False
        #: Whether a batch goes on without a file that is gone, which it rejects; else it fails.
        self.skip_missing_files = False
        #: Told the rows that each batch rejects.
        self.on_rejected: Callable[[Rejected], object] | None = None
        #: Batches from one snapshot of a partition to its next, each written at the end of a step; None for none.
        self.snapshot_every: int | None = None
        self._rebalance_above = rebalance_above
        self._max_ahead = max_ahead
        #: Snapshots that are being written, or wait to be taken in.
        self._in_the_making: Snapshots | None = None

    # Beginning

    @property
    def state(self) -> DriverState:
        """The driver's state after the last batch; `IncompatibleStore` before the first, and after one that failed."""
        if self._state is not None:
            return self._state
        if self._begun is None:
            raise IncompatibleStore(f"{self.store.root} holds no stream yet; begin one first")
        raise IncompatibleStore(
            f"batch {self._begun} of {self.store.root} was not finished; call resume to go on behind the last that was"
        )

    def fingerprint(self) -> dict[str, Any]:
        """Return the settings that must not change while a stream goes on."""
        mode = "partitioned" if self.settings.window_parts else None
        mode = "host" if self.settings.window_by_host else mode
        return {**self.settings.fingerprint(), "sink": self.sink.name, "window_mode": mode}

    def begin(
        self,
        subscriptions: pa.Table,
        vocabulary: Vocabulary,
        *,
        sample: pa.Table | None = None,
        source: str = "subscriptions",
        rejected: Rejected | None = None,
    ) -> Rejected:
        """Store the subscriptions that a new stream begins with; return the rows that were not stored."""
        rejected = Rejected() if rejected is None else rejected
        self._take_over(self._check_new)
        with self.naming_winner():
            self.manifests.sweep([], at_start=True)  # of a beginning that was interrupted
            state = begin(
                self.store,
                self.settings,
                self.runner,
                pieces_of(subscriptions),
                vocabulary,
                sample=sample,
                source=source,
                rejected=rejected,
            )
            outputs = self._staged_rejected(state.manifest.batch, rejected)
            manifest = replace(self._first_manifest(state.manifest), outputs=tuple(outputs))
            self._follow_up(self._commit(state, manifest))
        return rejected

    def _first_manifest(self, built: Manifest) -> Manifest:
        return replace(built, fingerprint=self.fingerprint(), stream_id=secrets.token_hex(8))

    def _check_new(self, manifest: Manifest | None) -> None:
        """Refuse places that cannot be written to, or that hold what another stream wrote."""
        if manifest is not None:
            raise IncompatibleStore(
                f"{self.store.root} holds a stream already, at batch {manifest.batch}; start again to go on with it"
            )
        self.store.check_commits()
        for sink in self._sinks:
            sink.check()
            sink.check_new()

    @property
    def _sinks(self) -> list[Sink]:
        return [self.sink] if self.rejected_sink is None else [self.sink, self.rejected_sink]

    def _take_over(self, check: Callable[[Manifest | None], object]) -> Manifest | None:
        """Become the one driver of this stream, unless `check` refuses; return the last manifest."""
        manifest = self.manifests.take_over(this_driver(), check)
        self.store = self.manifests.store
        for sink in self._sinks:
            sink.enter_epoch(self.store.epoch)
        if self._all_claims is not None:
            self._claims = forget_claims(self._all_claims, self.store.epoch)
        return manifest

    def begin_from(self, prepared: str) -> None:
        """Begin a new stream with what `nearcast prepare` built."""
        self._take_over(self._check_new)
        with self.naming_winner():
            self.manifests.sweep([], at_start=True)
            state = begin_from(Store(prepared), self.store, self.settings)
            plan = state.manifest.plan
            self.settings = replace(self.settings, plan=plan.name, partitions=plan.partitions)
            state.settings = self.settings
            self._follow_up(self._commit(state, self._first_manifest(state.manifest)))

    def resume(self, check: Callable[[Manifest], object] | None = None) -> bool:
        """Go on where the stream ended, unless `check` refuses its last manifest; False if it has not begun."""

        def checked(manifest: Manifest | None) -> None:
            assert manifest is not None
            self._check_old(manifest)
            if check is not None:
                check(manifest)

        if self.manifests.last() is None:
            return False
        self.store.check_commits()
        manifest = self._take_over(checked)
        assert manifest is not None
        self.settings = replace(
            self.settings,
            plan=manifest.plan.name,
            partitions=manifest.plan.partitions,
            window_parts=len(entries_of(manifest, self.settings.window_parts)),
        )
        with self.naming_winner():
            self._go_on(manifest)
        return True

    def _go_on(self, manifest: Manifest) -> None:
        """Sweep what an earlier driver left, finish what it had committed, and open the state."""
        self.manifests.sweep([manifest], at_start=True)
        for sink in self._sinks:
            sink.sweep(manifest.outputs)
        self._publish(manifest)
        settle(self.store, manifest)
        self._in_the_making = self._ready = None
        self._state = DriverState.opened(self.store, self.settings, manifest)

    def _check_old(self, manifest: Manifest) -> None:
        """Refuse to go on with other settings, from damaged files, or where nothing can be written."""
        self.manifests.check(manifest, self.fingerprint(), self.query_id)
        self.manifests.verify(manifest)
        self.sink.check()

    def use_vocabulary(self, vocabulary: Vocabulary) -> None:
        """Weigh words by this vocabulary from the next batch on; it delivers the difference."""
        if vocabulary.version != self.state.vocabulary.version:
            self._vocabulary = vocabulary.snapshot()

    # A batch

    def run(
        self,
        batch: int,
        given: Sequence[BatchSource],
        *,
        beat: int | None = None,
        wall: int | None = None,
        is_backlog: bool = False,
    ) -> Report | None:
        """Run a batch and commit it; one that was committed before is only published again, and None is returned.

        `IncompatibleStore` if that one held other sources. `StoreConflict` names the driver that took the stream over.
        `beat` is the time that the clock alone moves on to at the end. With `is_backlog` sources may hold more that was
        there before: then the beat waits for the first batch without, lest the rest come late. `wall` is the wall clock
        as the batch was given it, in microseconds: messages may lie ahead of that, else of event time, by `max_ahead`.
        """
        phases = PhaseClock()
        ready = self._made_ready(batch)
        if ready is None:
            manifest = self.state.manifest
            check_again(manifest, batch, given, self.store.root)
            self._publish(manifest)
            return None
        state = ready.state
        self._ready = None
        limit = None if self._max_ahead is None else AheadLimit(self._max_ahead, wall)
        due = max((each for each in (state.manifest.beat_due, beat) if each is not None), default=None)
        clock = BatchClock(None, due) if is_backlog else BatchClock(due, None)
        with self.naming_winner():
            phases.end("ready")
            return self._run(ready, given, clock, limit, phases)

    def row_tasks(self, batch: int) -> dict[Kind, ReadTask]:
        """Return the tasks that read rows of a batch before it is run, by kind; none if it was committed before.

        Whoever runs them gives `run` what they returned, as `reads` of its sources.
        """
        ready = self._made_ready(batch)
        return {} if ready is None else self._read_tasks(ready)

    def _read_tasks(self, ready: ReadyBatch) -> dict[Kind, ReadTask]:
        return tasks_by_kind(ready.state, ready.batch, ready.vocabulary)

    def _made_ready(self, batch: int) -> ReadyBatch | None:
        """Rebalance and take a new vocabulary into use, which go before a batch; None if it was committed before."""
        if self._ready is not None and self._ready.batch == batch:
            return self._ready
        state = self.state
        if batch <= state.manifest.batch:
            return None
        if batch > state.manifest.batch + 1:
            raise IncompatibleStore(
                f"{self.store.root} ends with batch {state.manifest.batch}, and batch {batch} comes next: the states"
                " of Spark and of nearcast are of two runs; bring back the right one, or choose another checkpoint"
            )
        # After an error in the middle, what the driver knows is of no batch: it is found again by `resume`.
        self._state, self._begun = None, batch
        with self.naming_winner():
            state = self._rebalanced(state, batch)
            self._ready = ReadyBatch(batch, state, self._new_vocabulary(state, batch))
        return self._ready

    @contextmanager
    def naming_winner(self) -> Iterator[None]:
        """Name the driver that took the stream over, if there is one, instead of what was missed because of it."""
        try:
            yield
        except Exception as error:
            conflict = self.conflict()
            if conflict is None:
                raise
            raise conflict from error

    def conflict(self) -> StoreConflict | None:
        """Return the error that names the driver which took this stream over; None if none has, or nobody can tell."""
        try:
            return self.manifests.conflict()
        except NearcastError:
            return None

    def _run(
        self,
        ready: ReadyBatch,
        given: Sequence[BatchSource],
        clock: BatchClock,
        limit: AheadLimit | None,
        phases: PhaseClock,
    ) -> Report:
        batch, state, vocabulary = ready
        rejected = Rejected()
        identities = identities_of(given) if self.notes_sources else {}
        reads = BatchReader(self.runner, self.skip_missing_files).read(given, self._read_tasks(ready))
        for each in reads:
            rejected.extend(each.rejected)
        phases.end("read")
        files, batch_changes, keys, count = self._put_in_order(
            state, batch, reads, rejected, clock.beat, vocabulary, limit
        )
        phases.end("order")
        results, asked = self._match(state, files)
        phases.end("match")
        plan = self._grow(state, files, results, keys)
        outputs = self.sink.placed([each.output for each in results if each.output is not None], files.now)
        outputs += self._staged_rejected(batch, rejected)
        report = report_of(files, results, batch_changes, count, len(rejected), phases.total)
        report = replace(report, asked=asked)
        manifest = replace(
            self._manifest(state, files, results, report, outputs, plan),
            sources=sources_after(state.manifest, batch, identities),
            last_sources=identities,
            beat_due=clock.due,
        )
        manifest = self._commit(state, manifest)
        phases.end("commit")
        self._follow_up(manifest)
        phases.end("publish")
        if self.on_rejected is not None:
            self.on_rejected(rejected)
        return replace(report, phases=phases.seconds)

    def _rebalanced(self, state: DriverState, batch: int) -> DriverState:
        """Rebalance before the batch, if a request or an uneven load asks for it."""
        request = wanted(self.store, state.manifest, self._rebalance_above)
        if request is None:
            return state
        claims = None if self._claims is None else f"{self._claims}/{batch:08d}-export"
        line = state.manifest.plan.line
        state = carried_out(request, state, self.runner, claims=claims)
        self.settings = state.settings
        if state.manifest.plan.line != line:  # else the request was refused, and what is being written is of use
            self._in_the_making = None
        return state

    def _new_vocabulary(self, state: DriverState, batch: int) -> str | None:
        """Take a vocabulary into use that was given since the last batch."""
        if self._vocabulary is None:
            return None
        name = self.store.unique("vocabularies", batch)
        self.store.put_folder(name, self._vocabulary.save)
        state.vocabulary = self._vocabulary
        self._vocabulary = None
        return name

    def _put_in_order(
        self,
        state: DriverState,
        batch: int,
        reads: Sequence[ReadResult],
        rejected: Rejected,
        beat: int | None,
        vocabulary: str | None,
        limit: AheadLimit | None,
    ) -> SequencedBatch:
        """Number the steps of a batch; write the sequence of its messages and the changes that were accepted."""
        sequencer = BatchSequencer(state, batch, rejected, limit, by_time=self.by_time)
        return sequencer.put_in_order(reads, beat, vocabulary)

    def _put(self, kind: str, batch: int, write: Any, suffix: str = ".pickle") -> str:
        return self.store.put_summed(self.store.unique(kind, batch, suffix=suffix), write).name

    def _match(self, state: DriverState, files: BatchFiles) -> tuple[list[StepResult], QuestionCount]:
        refs = [state.partition_ref(number) for number in range(self.settings.partitions)]
        plan = state.plan_ref
        spare = _spare_keys(state)
        candidates: tuple[str, ...] = ()
        claims = None if self._claims is None else f"{self._claims}/{files.batch:08d}"
        # With another vocabulary homes see all messages themselves.
        if state.router.plan.has_copies and self.settings.window is not None and files.vocabulary is None:
            last = (entry.last_delta for entry in state.manifest.partitions)
            deltas = tuple(name for name in last if name is not None)
            detects = [DetectTask(ref, plan, files, deltas) for ref in refs]
            candidates = tuple(self.runner.map(detect_batch, detects, claims=_of(claims, "detect"), prefer=held))
        kinds = (state.id_types[0] or "string", state.id_types[1] or "string")
        stager, is_counted = self.sink.stager, counts_needed(state, files)
        is_recorded = state.is_recorded(files)
        window = part_refs(state, files.vocabulary)[0] if self.settings.window_by_host else None
        turns = {} if self.snapshot_every is None else state.snapshot_turns(files.batch, self.snapshot_every)
        steps = [
            StepTask(
                ref=ref,
                plan=plan,
                files=files,
                candidates=candidates,
                stager=stager,
                id_types=kinds,
                with_keys=self.with_keys,
                spare_keys=spare[ref.number],
                counts_needed=is_counted,
                is_recorded=is_recorded,
                snapshot=turns.get(ref.number) if is_recorded else None,
                window=window,
            )
            for ref in refs
        ]
        results = run_steps(self.runner, state, files, steps, claims)
        self.store.delete(candidates)
        return results

    def _grow(self, state: DriverState, files: BatchFiles, results: Sequence[StepResult], placed: Keys) -> PlanEntry:
        """Add the keys that partitions need from now on, and those of copies placed in this batch, to the routes.

        Return the plan after that.
        """
        router = state.router
        growth = [] if files.growth is None else [files.growth]
        if router.plan.has_copies:
            router.grow(placed)
        found = [each.keys for each in results if each.keys is not None]
        whole = tuple(number for each in found for number in each.whole)
        if found:
            keys = Keys.concat([each.into(router.plan) for each in found])
            router.grow(keys, whole)
            growth.append(self._put("growth", files.batch, NamedKeys.of(keys, router.plan, whole).write))
        return state.plan_after(growth, whole)

    def _manifest(
        self,
        state: DriverState,
        files: BatchFiles,
        results: Sequence[StepResult],
        report: Report,
        outputs: list[Output],
        plan: PlanEntry,
    ) -> Manifest:
        last = state.manifest
        partitions = state.partitions_after(files.batch, results)
        directory, directory_batch = state.directory_after()
        windows = entries_after(state)
        snapshots = [*(entry.snapshot_batch for entry in partitions), *(entry.snapshot_batch for entry in windows)]
        oldest = min(directory_batch, *snapshots)
        history = (*state.history, files) if state.is_recorded(files) else state.history
        batches = tuple(each for each in history if each.batch > oldest)
        counts = {
            "messages": last.counts.get("messages", 0) + report.messages,
            "changes": last.counts.get("changes", 0) + report.changes,
            "deliveries": last.counts.get("deliveries", 0) + report.deliveries,
            "rejected": last.counts.get("rejected", 0) + report.rejected,
            "subscriptions": len(state.directory),
        }
        vocabulary = last.vocabulary
        if files.vocabulary is not None:
            vocabulary = VocabularyEntry(state.vocabulary.version, files.vocabulary)
        return replace(
            last,
            batch=files.batch,
            query_id=self.query_id,
            next_step=files.next_step,
            now=None if files.now == NO_TIME else files.now,
            partitions=partitions,
            plan=plan,
            directory=directory,
            directory_batch=directory_batch,
            vocabulary=vocabulary,
            id_types=state.id_types,
            batches=batches,
            windows=windows,
            recent=recent_after(last.recent, files.segments),
            outputs=tuple(outputs),
            counts=counts,
            load=tuple(report.load),
            balance=balance_after(
                last.balance, [each.seconds for each in results], needed_share(results), report.moves
            ),
            seconds=round(report.seconds, 4),
        )

    def _commit(self, state: DriverState, manifest: Manifest) -> Manifest:
        """Commit a manifest, and go on from it; return it as it was written."""
        sizes = self._sizes(manifest, state.manifest.sizes)
        for sink, outputs in self._outputs(manifest):
            sink.settle(outputs)
        manifest = self.manifests.commit(replace(manifest, sizes=sizes))
        if state.snapshots is not None:
            self._in_the_making = None
        state.with_manifest(manifest)
        self._state = state
        return manifest

    def _follow_up(self, manifest: Manifest) -> None:
        """Publish what a manifest has committed, and remove what no kept one names."""
        self._publish(manifest)
        settle(self.store, manifest)
        kept = self.manifests.batches()[-KEPT_MANIFESTS:]
        self.manifests.forget_before(kept[0])
        if manifest.batch % SWEEP_EVERY == 0:
            spare = self.state.snapshot_costs.in_the_making
            spare += [] if self._in_the_making is None else self._in_the_making.names
            self.manifests.sweep([self.manifests.read(batch) for batch in kept], spare=spare)

    def _sizes(self, manifest: Manifest, known: Mapping[str, int]) -> dict[str, int]:
        """Return the sizes of all files that a manifest names, for a restart to compare; refuse one that is missing.

        Of files that the last manifest named it told the sizes, and they do not change.
        """
        names = sorted(self.manifests.files_in_use(manifest))
        found = {**known, **self.store.sizes_of(name for name in names if name not in known)}
        gone = [f"{self.store.root}/{name}" for name in names if name not in found]
        for sink, outputs in self._outputs(manifest):
            gone += sink.missing(outputs)
        if gone:
            more = "" if len(gone) == 1 else f" (and {len(gone) - 1} more)"
            raise IncompatibleStore(
                f"{gone[0]}{more} is missing, and batch {manifest.batch} needs it; the batch was not committed: start"
                " again, and it is run anew"
            )
        return {name: found[name] for name in names}

    def _outputs(self, manifest: Manifest) -> Iterator[tuple[Sink, list[Output]]]:
        """Yield the sinks with what they staged for a batch."""
        for sink in self._sinks:
            is_rejected = sink is self.rejected_sink
            yield sink, [each for each in manifest.outputs if bool(each.get("is_rejected")) is is_rejected]

    def _publish(self, manifest: Manifest) -> None:
        for sink, outputs in self._outputs(manifest):
            sink.publish(manifest.batch, outputs)

    def _staged_rejected(self, batch: int, rejected: Rejected) -> list[Output]:
        if self.rejected_sink is None or not len(rejected):
            return []
        output = self.rejected_sink.stage(batch, None, [rejected.to_table()])
        return [] if output is None else [{**output, "is_rejected": True}]

    # Snapshots

    def snapshots_due(self, after: int) -> bool:
        """Tell whether the driver's own state has come this many batches since it was last saved."""
        manifest = self.state.manifest
        return sum(files.batch > manifest.directory_batch for files in manifest.batches) >= after

    def snapshots_to_write(self) -> Callable[[], Snapshots]:
        """Name snapshots of the driver's state as the last batch left it; return what writes them.

        Those of the directory, the routes and the parts of a divided window: partitions are saved by their steps. To be
        called between two batches; what it returns may run while batches go on.
        """
        snapshots, tables = self.state.snapshots_to_write()
        windows = snapshot_tasks(self.state)
        snapshots = replace(snapshots, windows=tuple(task.name for task in windows))
        self._in_the_making = snapshots

        def write() -> Snapshots:
            self.runner.map(write_window if self.settings.window_by_host else write_part, windows)
            self.runner.map(write_tables, [tables])
            return snapshots

        return write

    def take_snapshots(self, snapshots: Snapshots) -> bool:
        """Let the next manifest name these snapshots in place of older ones and what came since.

        False if they are of no use any more: partitions were balanced anew since, or newer snapshots taken.
        """
        if not self.state.is_newer(snapshots):
            return False
        self.state.snapshots = snapshots
        return True


def _spare_keys(state: DriverState) -> list[int]:
    """Return how many keys each partition may add to the routes before it names those that it still needs."""
    plan = state.manifest.plan
    counts = zip(plan.needed, state.router.routes.counts(), strict=True)
    return [int(needed * SPARE_KEYS) + FEW_KEYS - held for needed, held in counts]


def _of(claims: str | None, job: str) -> str | None:
    return None if claims is None else f"{claims}-{job}"
