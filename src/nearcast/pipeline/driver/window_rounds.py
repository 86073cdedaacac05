"""The driver's side of a divided window: where its parts lie, and the rounds of questions and answers in a batch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nearcast.errors import NearcastError
from nearcast.pipeline.divided_window.window_part import Ask, PartRef, Round, SnapshotPart, answer_questions, holding
from nearcast.pipeline.store.manifest_entries import WindowEntry
from nearcast.pipeline.worker.tasks import Step, Stepped, Waiting, held, step_batch

if TYPE_CHECKING:
    from nearcast.pipeline.driver.state import Standing
    from nearcast.pipeline.runner import Runner
    from nearcast.pipeline.store.manifest import Manifest
    from nearcast.pipeline.store.manifest_entries import BatchFiles

#: Rounds after which a batch is given up. Every round answers at least the first open question of every subscription,
#: and a subscription has at most as many as the batch has steps; with buffers they are few.
MOST_ROUNDS = 1000
_BEFORE = -1


@dataclass(frozen=True)
class Asked:
    """How often the homes went to the window in a batch: questions, and rounds in which they were answered."""

    questions: int = 0
    rounds: int = 0


NOTHING_ASKED = Asked()


def stepped_by(
    runner: Runner, standing: Standing, files: BatchFiles, steps: list[Step], claims: str | None
) -> tuple[list[Stepped], Asked]:
    """Take all partitions through a batch, and as often again as they have questions to the window."""
    done: dict[int, Stepped] = {}
    asked = NOTHING_ASKED
    spent: list[str] = []
    while True:
        round_claims = None if claims is None else f"{claims}-step-{asked.rounds}"
        waiting: list[tuple[Step, Waiting]] = []
        for step, outcome in zip(steps, runner.map(step_batch, steps, claims=round_claims, prefer=held), strict=True):
            if isinstance(outcome, Waiting):
                waiting.append((step, outcome))
            else:
                done[step.ref.number] = outcome
        if not waiting:
            standing.store.delete(spent)
            return [done[number] for number in sorted(done)], asked
        asked = Asked(asked.questions + sum(each.n for _, each in waiting), asked.rounds + 1)
        if asked.rounds > MOST_ROUNDS:
            raise NearcastError(
                f"batch {files.batch} asked the window {MOST_ROUNDS} times and has questions left; give fewer messages"
                " at once, or begin anew with a window that is not divided"
            )
        answers = _answers(runner, standing, files, waiting, claims, asked.rounds)
        spent += [*answers, *(each.questions for _, each in waiting)]
        steps = [replace(step, rounds=(*step.rounds, Round(each.questions, answers))) for step, each in waiting]


def _answers(
    runner: Runner,
    standing: Standing,
    files: BatchFiles,
    waiting: list[tuple[Step, Waiting]],
    claims: str | None,
    number: int,
) -> tuple[str, ...]:
    """Let every part of the window answer the questions of all homes; return the names of their files."""
    questions = tuple((step.ref.number, each.questions) for step, each in waiting)
    tasks = [Ask(ref, files.batch, questions) for ref in part_refs(standing, files.vocabulary)]
    place = None if claims is None else f"{claims}-answer-{number}"
    return tuple(runner.map(answer_questions, tasks, claims=place, prefer=holding))


def entries_of(manifest: Manifest, parts: int) -> tuple[WindowEntry, ...]:
    """Return for each part of the window its snapshot and the batch that is of."""
    return manifest.windows or (WindowEntry(None, _BEFORE),) * parts


def part_refs(standing: Standing, vocabulary: str | None = None) -> list[PartRef]:
    """Return where the parts of the window lie as they are after the last batch; `vocabulary` is used from now on."""
    settings, manifest = standing.settings, standing.manifest
    folder = vocabulary or manifest.vocabulary.folder
    return [
        PartRef(
            standing.store,
            settings,
            number,
            entry.snapshot,
            tuple(files for files in standing.history if files.batch > entry.snapshot_batch),
            folder,
        )
        for number, entry in enumerate(entries_of(manifest, settings.window_parts))
    ]


def entries_after(standing: Standing) -> tuple[WindowEntry, ...]:
    """Return the parts of the next manifest, from a newer snapshot where there is one."""
    newer = standing.snapshots
    if newer is not None and newer.windows:
        return tuple(WindowEntry(name, newer.batch) for name in newer.windows)
    return entries_of(standing.manifest, standing.settings.window_parts)


def batches_of_window(manifest: Manifest) -> tuple[BatchFiles, ...]:
    """Return the batches that parts of the window are still to be made of."""
    if not manifest.windows:
        return ()
    oldest = min(entry.snapshot_batch for entry in manifest.windows)
    return tuple(files for files in manifest.batches if files.batch > oldest)


def snapshot_tasks(standing: Standing) -> list[SnapshotPart]:
    """Return what writes all parts of the window as they are after the last batch."""
    store, batch = standing.store, standing.manifest.batch
    return [SnapshotPart(ref, store.unique("windows", batch, ref.number)) for ref in part_refs(standing)]
