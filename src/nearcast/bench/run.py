"""The benchmarks of one workload: who wants these messages, and how long does each index take to say so?

No time is reported before the answers are known to be right: every index must give the slots and scores of the first
on all messages, and those of `scan` on a sample. Every figure of a report comes from one run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nearcast.bench.answers import Answers, answers_of_scan, is_scan
from nearcast.bench.encoding import EncodedWorkload, encoded, must_be_of_kind
from nearcast.bench.timing import Say, built, changes_per_s, copy_us, passes_us, single_calls

if TYPE_CHECKING:
    from nearcast.bench.data.workloads import Workload
    from nearcast.bench.request import BenchRequest
    from nearcast.indexes import Matches

QUESTIONS = {
    "within": "Which boolean subscriptions does each message reach, and how long does an index take to say so?",
    "similar": "Which similar subscriptions does each message reach, with which score, and how long does that take?",
}


def run_boolean(workload: Workload, request: BenchRequest, say: Say) -> dict[str, Any]:
    """Return the report of a run: the workload, the machine, a row for each index, the hub, and churn if asked.

    The hub and churn are measured with the first index named.
    """
    return _run("within", workload, request, say)


def run_similar(workload: Workload, request: BenchRequest, say: Say) -> dict[str, Any]:
    """Return the same report for scored subscriptions, with the time per answer beside that of copying it."""
    return _run("similar", request.max_distance.applied(workload), request, say)


def _run(kind: str, workload: Workload, request: BenchRequest, say: Say) -> dict[str, Any]:
    from nearcast.bench.churn import measure_churn
    from nearcast.bench.hubs import measure_hub
    from nearcast.bench.report import machine

    say("encoding the workload")
    columns = encoded(workload, request.space)
    must_be_of_kind(columns.subscriptions, kind)
    rows, more = measure(columns, request.indexes, say)
    more |= {"command": request.command}
    about = {"question": QUESTIONS[kind], **workload.about, "space": columns.space.kind, **more}
    report: dict[str, Any] = {"workload": about, "machine": machine(), "results": rows}
    first = request.indexes[0]
    report["hub"] = measure_hub(workload, columns, first, more["timed_messages"][first], say)
    if request.churn:
        report["churn"] = measure_churn(columns, first, say)
    return report


def measure(columns: EncodedWorkload, specs: Sequence[str], say: Say) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return a row of figures for each index, in order, and what more there is to tell of the passes.

    `scan` is timed on a sample of the messages only; `timed_messages` says on how many.
    """
    columns, answers = answers_of_scan(columns, say)
    rows, passes, timed = [], {}, {}
    for spec in specs:
        say(f"building {spec}")
        row, passes[spec], timed[spec] = _measure_index(columns, spec, answers, say)
        rows.append(row)
    others = "each index equals the first named on all messages and scan on a sample of"
    return rows, {"checked": f"{others} {len(answers.sample):,}", "passes_us": passes, "timed_messages": timed}


def _measure_index(
    columns: EncodedWorkload, spec: str, answers: Answers, say: Say
) -> tuple[dict[str, Any], list[float], int]:
    messages = columns.messages.take(answers.sample) if is_scan(spec) else columns.messages
    made, n = built(columns, spec), len(messages)
    say(f"matching {n:,} messages with {spec}")
    matches = made.index.match(messages)
    answers.check(spec, matches)
    passes = passes_us(made.index, messages)
    best = min(passes)
    singly = single_calls(made.index, messages, best)
    say(f"inserting and removing with {spec}")
    inserts, removes = changes_per_s(made.index, columns)
    row = {
        "index": spec,
        "build_s": round(made.seconds, 3),
        "bytes_per_subscription": round(made.n_bytes / len(columns.subscriptions), 1),
        "us_per_message": round(best, 3),
        "p50_us": round(singly.p50_us, 2),
        "p99_us": round(singly.p99_us, 2),
        "matches_per_message": round(len(matches.slots) / n, 3),
        "slow_matches": round(singly.slow_matches, 1),
        "candidates_per_message": round(matches.candidates / n, 2),
        "verified_per_message": round(matches.verified / n, 2),
        "inserts_per_s": round(inserts),
        "removes_per_s": round(removes),
    }
    if columns.weights is not None:
        row |= _per_answer(matches, best * n)
    return row, [round(each, 3) for each in passes], n


def _per_answer(matches: Matches, matching_us: float) -> dict[str, float | None]:
    """Return the time per answer, and what a mere copy of the answers takes; None where there are none."""
    answers = len(matches.slots)
    times = {"ns_per_answer": matching_us, "copy_ns_per_answer": copy_us(matches)}
    return {name: round(us * 1e3 / answers, 3) if answers else None for name, us in times.items()}
