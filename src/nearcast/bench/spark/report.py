"""The tables of `nearcast bench spark`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nearcast.bench.report import print_rows

if TYPE_CHECKING:
    from rich.console import Console

#: Processes whose memory is printed: most of them are idle.
_SHOWN_WORKERS = 3
_SPEED = {
    "way": ("way", "{}"),
    "messages": ("messages", "{:,}"),
    "deliveries": ("deliveries", "{:,}"),
    "seconds": ("seconds", "{:,.2f}"),
    "messages_per_s": ("messages/s", "{:,.0f}"),
    "ratio": ("of local", "{:.0%}"),
    "cpu_us_per_message": ("CPU µs/message", "{:,.2f}"),
}
_STREAM = {
    "way": ("way", "{}"),
    "batches": ("batches", "{:,}"),
    "batch_s_median": ("median s", "{:,.3f}"),
    "batch_s_max": ("longest s", "{:,.3f}"),
    "tuples_per_message": ("tuples/message", "{:,.2f}"),
    "replication": ("replication", "{:,.2f}"),
    "balance_seconds": ("balance, time", "{:,.2f}"),
    "balance_messages": ("messages", "{:,.2f}"),
    "segment_bytes_per_message": ("bytes/message", "{:,.0f}"),
    "tiny_batch_ms": ("10 messages, ms", "{:,.0f}"),
    "tiny_batch_ms_late": ("the last third, ms", "{:,.0f}"),
    "private": ("private MB of workers", "{}"),
}
_TOPIC = {
    "broker_s": ("the topic read by Spark alone, s", "{:,.2f}"),
    "broker_messages_per_s": ("messages/s", "{:,.0f}"),
    "messages_per_s_without_broker": ("the stream without that, messages/s", "{:,.0f}"),
}
_TOPIC_CHANGES = {
    "changes": ("changes from a topic", "{:,}"),
    "changes_seconds": ("seconds", "{:,.2f}"),
    "changes_per_s": ("changes/s", "{:,.0f}"),
    "changes_broker_s": ("read by Spark alone, s", "{:,.2f}"),
    "changes_per_s_without_broker": ("the stream without that, changes/s", "{:,.0f}"),
}
_AIMS = {
    "figure": ("aim", "{}"),
    "shown_aim": ("", "{}"),
    "shown": ("here", "{}"),
    "met": ("", "{}"),
    "stated_for": ("stated for", "{}"),
}
_CPU = {
    "way": ("way", "{}"),
    "cpu_all_s": ("CPU s of all", "{:,.2f}"),
    "cpu_driver_s": ("driver", "{:,.2f}"),
    "cpu_jvm_s": ("JVM", "{:,.2f}"),
    "cpu_workers_s": ("workers", "{:,.2f}"),
    "cpu_us_per_tuple": ("µs/tuple", "{:,.2f}"),
}
_STEPS = {
    "all_us": ("in one process: µs/message", "{:,.2f}"),
    "read_us": ("reading", "{:,.2f}"),
    "kernel_us": ("kernel", "{:,.2f}"),
    "deliveries_us": ("deliveries", "{:,.2f}"),
    "step_rest_us": ("rest of step", "{:,.2f}"),
    "driver_us": ("driver", "{:,.2f}"),
    "beyond_kernel_us_per_tuple": ("beyond kernel, µs/tuple", "{:,.2f}"),
    "deliveries_ns_per_row": ("ns/delivery", "{:,.0f}"),
}
_CHANGES = {
    "changes": ("in one process: changes", "{:,}"),
    "changes_per_s": ("changes/s", "{:,.0f}"),
    "change_read_us": ("reading, µs/change", "{:,.2f}"),
    "change_step_us": ("step", "{:,.2f}"),
    "change_driver_us": ("driver", "{:,.2f}"),
}


def print_spark(report: dict[str, Any], console: Console) -> None:
    """Print the question, the data, and what each way took."""
    about, on, results = report["workload"], report["machine"], report["results"]
    window = "" if about["window"] is None else f", a window of {about['window']}"
    spread = f"plan {about['plan']} with {about['partitions']} partitions on {about['master']}"
    for line in (
        about["question"],
        f"Data: {about['subscriptions']:,} subscriptions of kind {about['kind']}, {about['source']}{window}.",
        f"Batches of {about['batch']:,} messages in {about['files_per_batch']} files; {spread}.",
        "Answers: all ways deliver as much, batch by batch.",
        f"Machine: {on['cpu']}, {on['cores']} cores; Python {on['python']}, Numba {on['numba']}.",
        f"Command: {about['command']}",
    ):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    console.print()
    blank = dict.fromkeys(_SPEED)
    streams = _stream_names(about, results)
    names = {"local": f"local, {results['local']['threads']} threads", **streams, "match": "batch match"}
    names["topic"] = "stream from a topic"
    rows = [{**blank, "way": name, **results[key]} for key, name in names.items() if key in results]
    print_rows(console, rows, _SPEED)
    if "topic" in results:
        print_rows(console, [results["topic"]], _TOPIC)
        print_rows(console, [results["topic"]], _TOPIC_CHANGES)
    rows = [{**results[key], "way": name, "private": _private(results[key])} for key, name in streams.items()]
    print_rows(console, rows, _STREAM)
    print_rows(console, rows, _CPU)
    if "steps" in results:
        print_rows(console, [results["steps"]], _STEPS)
        print_rows(console, [results["steps"]], _CHANGES)
    print_rows(console, [_shown_aim(each) for each in report["aims"]], _AIMS)


def _stream_names(about: dict[str, Any], results: dict[str, Any]) -> dict[str, str]:
    """Return what the streams of a report are called, by their keys."""
    others = {key: key.replace("_", ", ") for key in results if key.startswith("stream_")}
    return {"stream": f"stream, {about['window_mode']}" if others else "stream", **others}


def _private(row: dict[str, Any]) -> str:
    largest = row["worker_private_mb"][:_SHOWN_WORKERS]
    return ", ".join(f"{each:,.0f}" for each in largest) + (
        ", …" if len(row["worker_private_mb"]) > len(largest) else ""
    )


def _shown_aim(each: dict[str, Any]) -> dict[str, Any]:
    met = "met" if each["is_met"] else "missed"
    return {
        **each,
        "shown": f"{each['value']:,.4g} {each['unit']}"
        if each["value"] < 1000
        else f"{each['value']:,.0f} {each['unit']}",
        "shown_aim": f"{each['aim_is']} {each['aim']:,g} {each['unit']}",
        "met": met if each["is_of_size"] else f"({met}, at another size)",
    }
