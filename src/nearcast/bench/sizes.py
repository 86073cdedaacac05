"""One table over sizes: every index at each number of subscriptions, in one run.

What would take too long, or not fit into memory, is not begun: the size before tells what to expect, and before the
first one a tenth of its rows does. The row then says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from nearcast.bench.answers import answers_of_scan
from nearcast.bench.encoding import EncodedWorkload, encoded, must_be_of_kind
from nearcast.bench.figures.measurement import first_rows
from nearcast.bench.figures.race import matching
from nearcast.bench.limits import Expectation, free_memory, note_trial
from nearcast.bench.run import QUESTIONS
from nearcast.bench.timing import Say, built

if TYPE_CHECKING:
    from nearcast.bench.answers import Answers
    from nearcast.bench.data.workloads import Workload
    from nearcast.bench.request import BenchRequest

_FIGURES = (
    "messages",
    "build_s",
    "bytes_per_subscription",
    "us_per_message",
    "matches_per_message",
    "candidates_per_message",
    "verified_per_message",
)
CHECKED = (
    "at each size all indexes agree on every message that several were asked, and with scan on a sample; `messages`"
    " tells how many each was asked"
)


def run_sizes(workload: Workload, request: BenchRequest, say: Say) -> dict[str, Any]:
    """Return the report of a run: the workload, the machine, a row for each size and index.

    A smaller size is the first rows of the workload. `limit_s` of the request is how long building an index may take,
    and how long it is asked messages.
    """
    from nearcast.bench.report import machine

    say("encoding the workload")
    columns, about = encoded(workload, request.space), workload.about
    del workload  # the columns are enough, and much is needed beside them
    must_be_of_kind(columns.subscriptions, "within")
    sizes = sorted(request.sizes)
    rows = list(_rows(columns, sizes, request.indexes, request.limit_s, say))
    more = {"space": columns.space.kind, "sizes": sizes, "limit_s": request.limit_s, "checked": CHECKED}
    return {
        "workload": {"question": QUESTIONS["within"], **about, **more, "command": request.command},
        "machine": machine(),
        "results": rows,
    }


def _rows(
    columns: EncodedWorkload, sizes: Sequence[int], specs: Sequence[str], limit_s: float, say: Say
) -> Iterator[dict[str, Any]]:
    limit = f"the limit is --limit-s {limit_s:g}"
    expected = {spec: Expectation(limit_s, limit) for spec in specs}
    for at, n in enumerate(sizes):
        where = f"{n:,} subscriptions"
        say(f"{where}: asking scan")
        here = columns if n == len(columns.subscriptions) else first_rows(columns, n)
        here, answers = answers_of_scan(here, lambda _: None)
        for number, spec in enumerate(specs, at * len(specs) + 1):
            say(f"{where}: {spec}, {number} of {len(sizes) * len(specs)}")
            yield _row(here, spec, expected[spec], answers)


def _row(columns: EncodedWorkload, spec: str, expected: Expectation, answers: Answers) -> dict[str, Any]:
    n = len(columns.subscriptions)
    head = {"index": spec, "subscriptions": n}
    note_trial(expected, columns, spec)
    reason = expected.why_not(n, free_memory())
    if reason is not None:
        return head | dict.fromkeys(_FIGURES) | {"skipped": reason}
    made = built(columns, spec)
    expected.note(n, made.seconds, made.n_bytes)
    row = {"build_s": round(made.seconds, 3), "bytes_per_subscription": round(made.n_bytes / n, 1)}
    row |= matching(made.index, columns, spec, answers, expected.limit_s)
    return head | {name: row[name] for name in _FIGURES} | {"skipped": None}
