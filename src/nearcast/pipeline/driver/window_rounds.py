"""The driver's side of a divided window: where its parts lie, and the rounds of questions and answers in a batch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nearcast.errors import NearcastError
from nearcast.pipeline.divided_window.window_part import (
    AnswerTask,
    PartSnapshotTask,
    QuestionRound,
    WindowPartRef,
    answer_questions,
    holding,
)
from nearcast.pipeline.store.manifest_entries import WindowEntry
from nearcast.pipeline.worker.tasks import OpenQuestions, StepResult, StepTask, held, step_batch

if TYPE_CHECKING:
    from nearcast.pipeline.driver.state import DriverState
    from nearcast.pipeline.runner import Runner
    from nearcast.pipeline.store.manifest import Manifest
    from nearcast.pipeline.store.manifest_entries import BatchFiles

#: Rounds after which a batch is given up. Every round answers at least the first open question of every subscription,
#: and a subscription has at most as many as the batch has steps; with buffers they are few.
MOST_ROUNDS = 1000
_BEFORE = -1


@dataclass(frozen=True)
class QuestionCount:
    """How many questions partitions asked a divided window in a batch, and in how many rounds."""

    questions: int = 0
    rounds: int = 0


NO_QUESTIONS = QuestionCount()


def run_steps(
    runner: Runner, state: DriverState, files: BatchFiles, steps: list[StepTask], claims: str | None
) -> tuple[list[StepResult], QuestionCount]:
    """Run all partitions through a batch; those with open questions run again with the answers."""
    done: dict[int, StepResult] = {}
    asked = NO_QUESTIONS
    spent: list[str] = []
    while True:
        round_claims = None if claims is None else f"{claims}-step-{asked.rounds}"
        waiting: list[tuple[StepTask, OpenQuestions]] = []
        for step, outcome in zip(steps, runner.map(step_batch, steps, claims=round_claims, prefer=held), strict=True):
            if isinstance(outcome, OpenQuestions):
                waiting.append((step, outcome))
            else:
                done[step.ref.number] = outcome
        if not waiting:
            state.store.delete(spent)
            return [done[number] for number in sorted(done)], asked
        asked = QuestionCount(asked.questions + sum(each.n for _, each in waiting), asked.rounds + 1)
        if asked.rounds > MOST_ROUNDS:
            raise NearcastError(
                f"batch {files.batch} asked the window {MOST_ROUNDS} times and has questions left; give fewer messages"
                " at once, or begin anew with a window that is not divided"
            )
        answers = _answers(runner, state, files, waiting, claims, asked.rounds)
        spent += [*answers, *(each.questions for _, each in waiting)]
        steps = [replace(step, rounds=(*step.rounds, QuestionRound(each.questions, answers))) for step, each in waiting]


def _answers(
    runner: Runner,
    state: DriverState,
    files: BatchFiles,
    waiting: list[tuple[StepTask, OpenQuestions]],
    claims: str | None,
    number: int,
) -> tuple[str, ...]:
    """Let every part of the window answer the questions of all homes; return the names of their files."""
    questions = tuple((step.ref.number, each.questions) for step, each in waiting)
    tasks = [AnswerTask(ref, files.batch, questions) for ref in part_refs(state, files.vocabulary)]
    place = None if claims is None else f"{claims}-answer-{number}"
    return tuple(runner.map(answer_questions, tasks, claims=place, prefer=holding))


def entries_of(manifest: Manifest, parts: int) -> tuple[WindowEntry, ...]:
    """Return for each part of the window its snapshot and the batch that is of."""
    return manifest.windows or (WindowEntry(None, _BEFORE),) * parts


def part_refs(state: DriverState, vocabulary: str | None = None) -> list[WindowPartRef]:
    """Return the refs of all parts of the window after the last batch; `vocabulary` is one used from now on."""
    settings, manifest = state.settings, state.manifest
    folder = vocabulary or manifest.vocabulary.folder
    return [
        WindowPartRef(
            store=state.store,
            stream_id=manifest.stream_id,
            settings=settings,
            number=number,
            snapshot=entry.snapshot,
            history=tuple(files for files in state.history if files.batch > entry.snapshot_batch),
            vocabulary=folder,
        )
        for number, entry in enumerate(entries_of(manifest, settings.window_parts))
    ]


def entries_after(state: DriverState) -> tuple[WindowEntry, ...]:
    """Return the parts of the next manifest, from a newer snapshot where there is one."""
    newer = state.snapshots
    if newer is not None and newer.windows:
        return tuple(WindowEntry(name, newer.batch) for name in newer.windows)
    return entries_of(state.manifest, state.settings.window_parts)


def batches_of_window(manifest: Manifest) -> tuple[BatchFiles, ...]:
    """Return the batches that parts of the window are still to be made of."""
    if not manifest.windows:
        return ()
    oldest = min(entry.snapshot_batch for entry in manifest.windows)
    return tuple(files for files in manifest.batches if files.batch > oldest)


def snapshot_tasks(state: DriverState) -> list[PartSnapshotTask]:
    """Return what writes all parts of the window as they are after the last batch."""
    store, batch = state.store, state.manifest.batch
    return [PartSnapshotTask(ref, store.unique("windows", batch, ref.number)) for ref in part_refs(state)]
