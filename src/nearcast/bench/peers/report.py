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


def print_peers(report: dict[str, Any], console: Console) -> None:
    """Print the question, the data, the versions, the tables, and a line for each peer that was not timed."""
    for line in (*_head(report), *_versions(report["results"])):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    console.print()
    if report["results"]:
        print_rows(console, report["results"], _COLUMNS)
    for line in _untimed(report["results"]):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _head(report: dict[str, Any]) -> list[str]:
    about, on = report["workload"], report["machine"]
    return [
        about["question"],
        f"Data: {about['messages']:,} messages, {about['source']} ({about['distribution']}).",
        f"Answers: {about['checked']}.",
        f"Machine: {on['cpu']}, {on['cores']} cores; Python {on['python']}, Numba {on['numba']}.",
        f"Command: {about['command']}",
    ]


def _versions(results: Sequence[dict[str, Any]]) -> list[str]:
    found = {row["peer"]: row["version"] for row in results if row["version"]}
    return [f"{peer}: {version}" for peer, version in found.items()]


def _untimed(results: Sequence[dict[str, Any]]) -> list[str]:
    return [
        f"{row['peer']} at {row['subscriptions']:,}: {row['state']}: {row['note']}"
        for row in results
        if row["state"] != MEASURED
    ]
