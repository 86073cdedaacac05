"""A run as JSON and as tables; into a pipe or a file the tables are Markdown."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

#: Heading and format of each figure of a result.
_COLUMNS = {
    "index": ("index", "{}"),
    "build_s": ("build s", "{:,.2f}"),
    "bytes_per_subscription": ("bytes/sub", "{:,.0f}"),
    "us_per_message": ("µs/message", "{:,.2f}"),
    "p50_us": ("p50 µs", "{:,.1f}"),
    "p99_us": ("p99 µs", "{:,.1f}"),
    "matches_per_message": ("matches", "{:,.1f}"),
    "slow_matches": ("of slow calls", "{:,.1f}"),
    "candidates_per_message": ("candidates", "{:,.1f}"),
    "verified_per_message": ("verified", "{:,.1f}"),
    "inserts_per_s": ("inserts/s", "{:,.0f}"),
    "removes_per_s": ("removes/s", "{:,.0f}"),
    "ns_per_answer": ("ns/answer", "{:,.1f}"),
    "copy_ns_per_answer": ("copying ns", "{:,.1f}"),
}
_SIZE_COLUMNS = {
    "index": _COLUMNS["index"],
    "subscriptions": ("subscriptions", "{:,}"),
    "messages": ("messages", "{:,}"),
    **{name: column for name, column in _COLUMNS.items() if name != "index"},
    "skipped": ("skipped", "{}"),
}
_HUB_COLUMNS = {
    "index": ("hub with", "{}"),
    "subscribe_many_s": ("subscribe_many s", "{:,.2f}"),
    "publish_many_us_per_message": ("publish_many µs/message", "{:,.2f}"),
    "publish_per_s_from_terms": ("publish/s from terms", "{:,.0f}"),
    "publish_per_s_from_text": ("publish/s from text", "{:,.0f}"),
}
_CHURN_COLUMNS = {
    "index": ("under change", "{}"),
    "rate": ("changes/s", "{:,.0f}"),
    "quiet_us_per_message": ("quiet µs/message", "{:,.2f}"),
    "churn_us_per_message": ("changing µs/message", "{:,.2f}"),
    "ratio": ("ratio", "{:,.2f}"),
}
_TOPK_TIMES = {
    "index": ("µs per message", "{}"),
    "messages_per_s": ("messages/s", "{:,.0f}"),
    "messages_per_s_by_clock": ("by the clock", "{:,.0f}"),
    "us_per_message": ("all", "{:,.1f}"),
    "match_us": ("match", "{:,.1f}"),
    "buffers_us": ("buffers", "{:,.1f}"),
    "searches_us": ("searches", "{:,.1f}"),
    "thresholds_us": ("thresholds", "{:,.1f}"),
    "window_us": ("window", "{:,.1f}"),
    "other_us": ("other", "{:,.1f}"),
    "amp_us": ("AMP", "{:,.1f}"),
    "emp_us": ("EMP", "{:,.1f}"),
}
_TOPK_COUNTS = {
    "index": ("per message", "{}"),
    "affected_per_message": ("affected", "{:,.1f}"),
    "changes_per_message": ("changes", "{:,.1f}"),
    "candidates_per_message": ("candidates", "{:,.1f}"),
    "verified_per_message": ("verified", "{:,.1f}"),
    "searches_per_1000": ("searches/1,000", "{:,.1f}"),
}
_TOPK_SIZES = {
    "index": ("sizes", "{}"),
    "buffer_length": ("buffer length", "{:,.1f}"),
    "bytes_per_subscription": ("bytes/sub", "{:,.0f}"),
    "index_bytes_per_subscription": ("of the index", "{:,.0f}"),
    "buffer_bytes_per_subscription": ("of the buffers", "{:,.0f}"),
    "window_bytes": ("window bytes", "{:,.0f}"),
    "peak_bytes": ("peak of all", "{:,.0f}"),
    "insert_s": ("insert s", "{:,.2f}"),
    "join_s": ("join s", "{:,.2f}"),
}
_MOVING = {
    "measure": ("", "{}"),
    "value": ("measured", "{:,}"),
    "unit": ("unit", "{}"),
    "aim": ("aim with a million of each", "{}"),
}
_PACKAGES = ("nearcast", "numpy", "numba", "pyarrow")


def machine() -> dict[str, Any]:
    """Return what a reader needs to compare figures: processor, cores, system and versions; never a host name."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return {
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **versions,
    }


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def print_report(report: dict[str, Any], console: Console) -> None:
    """Print the question, the data, and a table for each part of a run."""
    workload = report["workload"]
    timed = ", ".join(f"{name} on {count:,}" for name, count in workload["timed_messages"].items())
    counts = f"{workload['subscriptions']:,} subscriptions, {workload['messages']:,} messages"
    _print_head(
        report,
        console,
        f"Data: {counts}, {workload['source']} ({workload['distribution']}); timed messages: {timed}.",
        *distance_lines(workload),
    )
    print_rows(console, report["results"], _COLUMNS)
    if "hub" in report:
        print_rows(console, [report["hub"]], _HUB_COLUMNS)
    if "churn" in report:
        print_rows(console, [report["churn"]], _CHURN_COLUMNS)


def print_sizes(report: dict[str, Any], console: Console) -> None:
    """Print the question, the data, and one table of all sizes."""
    workload = report["workload"]
    sizes = ", ".join(f"{size:,}" for size in workload["sizes"])
    _print_head(
        report,
        console,
        f"Data: the first {sizes} subscriptions, {workload['source']} ({workload['distribution']}).",
    )
    is_any_skipped = any(row["skipped"] for row in report["results"])
    columns = {name: each for name, each in _SIZE_COLUMNS.items() if name != "skipped" or is_any_skipped}
    print_rows(console, report["results"], columns)


def print_topk_report(report: dict[str, Any], console: Console) -> None:
    """Print the question, the data, and tables of what a message costs, what it concerns, and what is kept."""
    workload = report["workload"]
    window = f"a window of {workload['window']} with {workload['window_messages']:,} messages"
    counts = f"{workload['subscriptions']:,} subscriptions, {window}"
    arrivals = f"{workload['measured_messages']:,} arrivals measured after {workload['warm_up_messages']:,} to warm up"
    cores = "one core" if workload["threads"] == 1 else f"{workload['threads']} threads, CPU time of all of them"
    _print_head(
        report,
        console,
        f"Data: {counts}, {workload['source']} ({workload['distribution']}); {arrivals}, on {cores}.",
        f"Join: all subscriptions with the window at once, {workload['join_threads']} threads.",
        *distance_lines(workload),
    )
    for columns in (_TOPK_TIMES, _TOPK_COUNTS, _TOPK_SIZES):
        print_rows(console, report["results"], columns)


def print_moving_report(report: dict[str, Any], console: Console) -> None:
    """Print the question, the data, and one table of what moves take and leave behind."""
    workload = report["workload"]
    counts = f"{workload['subscriptions']:,} subscriptions, {workload['live_messages']:,} live messages"
    calls = f"index {workload['index']}, {workload['batch']:,} moves a call"
    _print_head(
        report,
        console,
        f"Data: {counts}, {workload['source']} ({workload['distribution']}); {calls}.",
    )
    print_rows(console, report["results"], _MOVING)


def _print_head(report: dict[str, Any], console: Console, *data: str) -> None:
    """Print the question, these lines about the data, how answers were checked, the machine and the command."""
    workload, on = report["workload"], report["machine"]
    for line in (
        workload["question"],
        *data,
        f"Answers: {workload['checked']}.",
        f"Machine: {on['cpu']}, {on['cores']} cores; Python {on['python']}, Numba {on['numba']}.",
        f"Command: {workload['command']}",
    ):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    console.print()


def distance_lines(workload: dict[str, Any]) -> list[str]:
    """Return what there is to say of `max_distance`: a line for scored subscriptions."""
    if "diameter" not in workload:
        return []
    unit = " m" if workload["space"] == "earth" else ""
    across, reach = workload["diameter"], workload["max_distance"]
    if reach is None:
        return [f"max_distance: each subscription's own; the data's diameter is {across:,.0f}{unit}."]
    return [f"max_distance: {reach:,.0f}{unit}, {reach / across:.3g} of the data's diameter of {across:,.0f}{unit}."]


def print_rows(console: Console, rows: list[dict[str, Any]], columns: dict[str, tuple[str, str]]) -> None:
    """Print the columns that the rows have, the first one to the left; a figure that is None is left empty."""
    columns = {name: column for name, column in columns.items() if name in rows[0]}
    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else box.MARKDOWN, pad_edge=console.is_terminal)
    for at, (heading, _) in enumerate(columns.values()):
        table.add_column(heading, justify="right" if at else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(_shown(row[name], pattern) for name, (_, pattern) in columns.items()))
    # Rendered apart: rich would cut a table to the width of the window, and surround Markdown with blank lines.
    with console.capture() as captured:
        console.print(table, width=max(console.width, console.measure(table).maximum), crop=False)
    console.out(captured.get().strip("\n ") + "\n", highlight=False)


def _shown(value: Any, pattern: str) -> str:
    return "" if value is None else pattern.format(value)
