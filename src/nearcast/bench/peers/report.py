"""A race as tables, and in words what became of peers that were not timed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nearcast.bench.peers.race import MEASURED
from nearcast.bench.report import print_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

_COLUMNS = {
    "peer": ("peer", "{}"),
    "subscriptions": ("subscriptions", "{:,}"),
    "state": ("", "{}"),
    "load_s": ("load s", "{:,.2f}"),
    "messages": ("messages", "{:,}"),
    "us_per_message": ("µs/message", "{:,.1f}"),
    "times_ours": ("× nearcast", "{:,.1f}"),
    "p50_us": ("p50 µs singly", "{:,.1f}"),
    "p99_us": ("p99 µs singly", "{:,.1f}"),
    "matches_per_message": ("matches", "{:,.1f}"),
}


_TOPK_COLUMNS = {
    "peer": ("top-k", "{}"),
    "state": ("", "{}"),
    "s_each_second": ("s of work each second", "{:,.3f}"),
    "us_per_message": ("µs/message", "{:,.1f}"),
    "changes_per_message": ("changes", "{:,.1f}"),
}


def print_peers(report: dict[str, Any], console: Console) -> None:
    """Print the question, the data, the versions, the tables, and a line for each peer that was not timed."""
    for line in (*_head(report), *_versions(report["results"])):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if report["results"]:
        console.print()
        print_rows(console, report["results"], _COLUMNS)
    for line in _untimed(report["results"]):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if "topk" in report:
        _print_topk(report["topk"], console)


def _print_topk(report: dict[str, Any], console: Console) -> None:
    about, rows = report["workload"], report["results"]
    counts = f"{about['subscriptions']:,} subscriptions, k = {about['k']}, a window of {about['window']:,} messages"
    for line in ("", about["question"], f"Data: {counts}, {about['rate']:,} messages a second."):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    print_rows(console, rows, _TOPK_COLUMNS)
    for row in rows:
        if row["note"]:
            line = f"{row['peer']}: {row['state']}: {row['note']}"
            console.print(line, highlight=False, markup=False, soft_wrap=True)


def _head(report: dict[str, Any]) -> list[str]:
    about, on = report["workload"], report["machine"]
    lines = [
        f"Machine: {on['cpu']}, {on['cores']} cores; Python {on['python']}, Numba {on['numba']}.",
        f"Command: {about['command']}",
    ]
    if not report["results"]:
        return lines
    data = f"{about['messages']:,} messages, {about['source']} ({about['distribution']})"
    return [about["question"], f"Data: {data}.", f"Answers: {about['checked']}.", *lines]


def _versions(results: Sequence[dict[str, Any]]) -> list[str]:
    found = {row["peer"]: row["version"] for row in results if row["version"]}
    return [f"{peer}: {version}" for peer, version in found.items()]


def _untimed(results: Sequence[dict[str, Any]]) -> list[str]:
    return [
        f"{row['peer']} at {row['subscriptions']:,}: {row['state']}: {row['note']}"
        for row in results
        if row["state"] != MEASURED
    ]
