"""What the project aims at on Spark, beside what a run of `nearcast bench spark` measured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nearcast.bench.aims import Aim, AimedFigure

_MANY, _TOPIC, _HUGE = 1_000_000, 100_000, 5_000_000


def aims_of(about: dict[str, Any], results: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the aims that a run tells something of, each with what it measured."""
    found = _of_topk if about["kind"] == "topk" else _of_boolean
    return [each.to_json() for each in found(about, results)]


def _of_topk(about: dict[str, Any], results: dict[str, Any]) -> Iterator[AimedFigure]:
    n, window = about["subscriptions"], str(about["window"])
    is_of_size = n >= _MANY and window.isdigit() and int(window) >= _MANY
    for name in (name for name in results if name.startswith("stream")):
        mode = name.removeprefix("stream").lstrip("_") or about["window_mode"]
        told = f"{_MANY:,} top-k subscriptions, window {_MANY:,}"
        yield AimedFigure(
            f"stream of hub, window {mode}",
            100 * results[name]["ratio"],
            "%",
            Aim.at_least(70),
            stated_for=told,
            is_of_size=is_of_size,
        )


def _of_boolean(about: dict[str, Any], results: dict[str, Any]) -> Iterator[AimedFigure]:
    n, stream = about["subscriptions"], results["stream"]
    size = f"{_MANY:,} subscriptions"
    batches = f"{size}, batches of 50,000 and 500,000"
    is_of_size = n == _MANY and about["batch"] in (50_000, 500_000)
    yield AimedFigure(
        "stream of local", 100 * stream["ratio"], "%", Aim.at_least(70), stated_for=batches, is_of_size=is_of_size
    )
    if "match" in results:
        yield AimedFigure(
            "batch match of local",
            100 * results["match"]["ratio"],
            "%",
            Aim.at_least(85),
            stated_for=size,
            is_of_size=n == _MANY,
        )
    is_warm = stream["tiny_batches"] >= 100
    yield AimedFigure(
        "ten messages",
        stream["tiny_batch_ms_late"],
        "ms",
        Aim.at_most(250),
        stated_for="a warm stream, past 100 batches",
        is_of_size=is_warm,
    )
    if stream["worker_private_mb"]:
        most = max(stream["worker_private_mb"])
        told = f"{_HUGE:,} subscriptions"
        yield AimedFigure(
            "private memory of a worker", most, "MB", Aim.at_most(500), stated_for=told, is_of_size=n >= _HUGE
        )
    if "topic" in results:
        yield from _of_topic(n, results["topic"])


def _of_topic(n: int, topic: dict[str, Any]) -> Iterator[AimedFigure]:
    told, is_of_size = f"{_TOPIC:,} subscriptions, without what the broker takes", n >= _TOPIC
    rate, changes = topic["messages_per_s_without_broker"], topic["changes_per_s_without_broker"]
    yield AimedFigure(
        "messages from Kafka to Parquet", rate, "/s", Aim.at_least(100_000), stated_for=told, is_of_size=is_of_size
    )
    yield AimedFigure("changes from Kafka", changes, "/s", Aim.at_least(50_000), stated_for=told, is_of_size=is_of_size)
