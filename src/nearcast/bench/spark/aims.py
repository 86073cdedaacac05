"""What the project aims at on Spark, beside what a run of `nearcast bench spark` measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_MANY, _TOPIC, _HUGE = 1_000_000, 100_000, 5_000_000


@dataclass(frozen=True)
class SparkAim:
    """A figure that should be `aim` at least, or with `is_most` at most, at the size that the aim is stated for."""

    figure: str
    value: float
    unit: str
    aim: float
    stated_for: str
    #: Whether the run has that size.
    is_of_size: bool
    is_most: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the figure as the report has it."""
        return {
            "figure": self.figure,
            "value": round(self.value, 3),
            "unit": self.unit,
            "aim": self.aim,
            "aim_is": "at most" if self.is_most else "at least",
            "stated_for": self.stated_for,
            "is_of_size": self.is_of_size,
            "is_met": self.value <= self.aim if self.is_most else self.value >= self.aim,
        }


def aims_of(about: dict[str, Any], results: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the aims that a run tells something of, each with what it measured."""
    found = _of_topk if about["kind"] == "topk" else _of_boolean
    return [each.to_json() for each in found(about, results)]


def _of_topk(about: dict[str, Any], results: dict[str, Any]) -> Iterator[SparkAim]:
    n, window = about["subscriptions"], str(about["window"])
    is_of_size = n >= _MANY and window.isdigit() and int(window) >= _MANY
    for name in (name for name in results if name.startswith("stream")):
        mode = name.removeprefix("stream").lstrip("_") or about["window_mode"]
        told = f"{_MANY:,} top-k subscriptions, window {_MANY:,}"
        yield SparkAim(f"stream of hub, window {mode}", 100 * results[name]["ratio"], "%", 70, told, is_of_size)


def _of_boolean(about: dict[str, Any], results: dict[str, Any]) -> Iterator[SparkAim]:
    n, stream = about["subscriptions"], results["stream"]
    size = f"{_MANY:,} subscriptions"
    batches = f"{size}, batches of 50,000 and 500,000"
    is_of_size = n == _MANY and about["batch"] in (50_000, 500_000)
    yield SparkAim("stream of local", 100 * stream["ratio"], "%", 70, batches, is_of_size)
    if "match" in results:
        yield SparkAim("batch match of local", 100 * results["match"]["ratio"], "%", 85, size, n == _MANY)
    is_warm = stream["tiny_batches"] >= 100
    yield SparkAim(
        "ten messages",
        stream["tiny_batch_ms_late"],
        "ms",
        250,
        "a warm stream, past 100 batches",
        is_warm,
        is_most=True,
    )
    if stream["worker_private_mb"]:
        most = max(stream["worker_private_mb"])
        told = f"{_HUGE:,} subscriptions"
        yield SparkAim("private memory of a worker", most, "MB", 500, told, n >= _HUGE, is_most=True)
    if "topic" in results:
        yield from _of_topic(n, results["topic"])


def _of_topic(n: int, topic: dict[str, Any]) -> Iterator[SparkAim]:
    told, is_of_size = f"{_TOPIC:,} subscriptions, without what the broker takes", n >= _TOPIC
    rate, changes = topic["messages_per_s_without_broker"], topic["changes_per_s_without_broker"]
    yield SparkAim("messages from Kafka to Parquet", rate, "/s", 100_000, told, is_of_size)
    yield SparkAim("changes from Kafka", changes, "/s", 50_000, told, is_of_size)
