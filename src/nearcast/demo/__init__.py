"""`nearcast demo`: one evening in a made-up city, told for a person to read; then a town that lives.

`city` and `stream` make the evening. `town` runs the living town: `streets` and `people` are what it is made of,
`town_life` lets them `walk` and post, `flaky_receiver` takes webhooks, `event_tally` counts what came. `town_kernels`
compiles what the town needs while the evening is told.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.text import Text

from nearcast.delivery_ids import DELIVERY_KEY
from nearcast.demo import city as _city
from nearcast.demo.compiling import told_of_compiling
from nearcast.geo import Space
from nearcast.hub import Hub
from nearcast.query import parse
from nearcast.text import Analyzer

SINGLES = 2_000
_BAR = 30
#: A near miss is near: this many metres outside, at most.
_NEAR_M = 500.0

Row = dict[str, Any]


def run(
    console: Console, *, subscriptions: int = 20_000, messages: int = 5_000, seed: int = 1, on_spark: bool = False
) -> None:
    """Subscribe the people of a city, publish an evening of messages, and print what became of them."""
    city = _city.evening(subscriptions, messages, seed)
    _say(console, f"[bold]An evening in {_city.NAME}[/bold], a city that does not exist", gap=True)
    with told_of_compiling(console):
        streamed = _stream(console, city) if on_spark else None
        with console.status("compiling, the first time only"):
            _warm_up(city)

    hub = Hub("earth")
    began = time.perf_counter()
    hub.subscribe_many(city.subscriptions)
    subscribed_s = time.perf_counter() - began
    threads = os.cpu_count() or 1
    began = time.perf_counter()
    deliveries = hub.publish_many(city.messages, threads=threads)
    published_s = time.perf_counter() - began
    reached = deliveries.to_table()
    if streamed is not None:
        _print_comparison(console, streamed, reached)
    _print_figures(console, city, reached, subscribed_s, published_s, _one_by_one(city))
    _print_districts(console, city, reached)
    stories = _Stories(city, hub)
    _print_stories(console, "Three messages that arrived", stories.arrivals(), "green")
    _print_stories(console, "Three that just missed", stories.near_misses(), "yellow")


def _stream(console: Console, city: _city.City) -> pa.Table:
    """Let the evening go through a stream on Spark first; return what it delivered."""
    from nearcast.demo.stream import FILES, stream_evening

    _say(console, "[bold]As a stream[/bold] on Spark, embedded in this process: files arrive, part files come out")
    with console.status("starting") as status:
        reached, seconds = stream_evening(city, status.update, lambda each: _print_batch(console, each))
    rate = city.messages.num_rows * (FILES - 1) / FILES / seconds
    _say(console, f"  {reached.num_rows:,} deliveries; {rate:,.0f} messages a second after the first batch", gap=True)
    return reached


def _print_batch(console: Console, progress: Any) -> None:
    report = progress.report
    took = f"{report.seconds * 1000:,.0f} ms"
    _say(
        console,
        f"  batch {report.batch}: {report.messages:,} messages, {report.deliveries:,} deliveries in {took},"
        f" {report.tuples / max(report.messages, 1):.1f} of {len(report.load)} partitions for a message",
    )


def _print_comparison(console: Console, streamed: pa.Table, reached: pa.Table) -> None:
    """Tell whether the stream and the hub delivered the same."""
    same = _sorted(streamed).equals(_sorted(reached))
    verdict = "[green]the same[/green]" if same else "[red]something else[/red]"
    _say(console, f"[bold]In one process[/bold], without Spark: a hub delivers {verdict}")


def _sorted(deliveries: pa.Table) -> pa.Table:
    """Return the keys of deliveries, sorted."""
    return deliveries.select(DELIVERY_KEY).sort_by([(name, "ascending") for name in DELIVERY_KEY]).combine_chunks()


def _warm_up(city: _city.City) -> None:
    """Compile what is needed on a few rows, so that the clock shows matching and not the compiler."""
    hub = Hub("earth")
    hub.subscribe_many(city.subscriptions.slice(0, 6_000))
    hub.publish_many(city.messages.slice(0, 10), threads=2)
    hub.publish(city.messages.slice(0, 1).to_pylist()[0])


def _one_by_one(city: _city.City) -> float:
    """Return messages a second when each is published alone, from its text."""
    from nearcast.model import message_from

    hub = Hub("earth")
    hub.subscribe_many(city.subscriptions)
    singles = [message_from(row) for row in city.messages.slice(0, SINGLES).to_pylist()]
    began = time.perf_counter()
    for message in singles:
        hub.publish(message)
    return len(singles) / (time.perf_counter() - began)


# --- printing -----------------------------------------------------------------------------------------------------


def _say(console: Console, line: str, *, gap: bool = False) -> None:
    console.print(line, highlight=False, soft_wrap=True)
    if gap:
        console.print()


def _print_figures(
    console: Console, city: _city.City, reached: pa.Table, subscribed_s: float, published_s: float, single_rate: float
) -> None:
    n_messages, n_people = city.messages.num_rows, city.subscriptions.num_rows
    heard = len(pc.unique(reached["subscription_id"]))
    unheard = n_messages - len(pc.unique(reached["message_id"]))
    for figure, what in (
        (f"{n_people:,}", f"people subscribed, in {subscribed_s:.2f} s"),
        (f"{n_messages:,}", f"messages published, {n_messages / published_s:,.0f} a second"),
        (f"{single_rate:,.0f}", "messages a second when published one by one, from text"),
        (f"{reached.num_rows:,}", f"deliveries, {reached.num_rows / n_messages:.1f} to a message"),
        (f"{heard:,}", f"people heard of something; {unheard:,} messages concerned nobody"),
    ):
        _say(console, f"  [bold cyan]{figure:>9}[/bold cyan]  {what}")
    console.print()


def _print_districts(console: Console, city: _city.City, reached: pa.Table) -> None:
    _say(console, "[bold]Busiest districts[/bold]")
    row = pc.index_in(reached["message_id"], city.messages["id"])
    counts = pc.value_counts(city.messages["district"].take(row)).to_pylist()
    ranked = sorted(((each["counts"], each["values"]) for each in counts), reverse=True)[:5]
    for count, name in ranked:
        bar = "█" * max(1, round(_BAR * count / ranked[0][0]))
        _say(console, f"  {name:<16} [cyan]{bar}[/cyan] {count:,}")
    console.print()


@dataclass(frozen=True)
class _Story:
    """A message, somebody who waits for something, and the reason why the one does or does not reach the other."""

    message: Row
    subscription: Row
    reason: str


def _print_stories(console: Console, title: str, stories: list[_Story], colour: str) -> None:
    _say(console, f"[bold]{title}[/bold]")
    for story in stories:
        person, _, _ = story.subscription["id"].partition("-")
        for line in (
            Text.assemble("  “", (story.message["text"], "bold"), f"”, {story.message['district']}"),
            Text.assemble(f"    {person.capitalize()} asked for ", (story.subscription["query"], "italic")),
            Text.assemble("    ", ("→ ", colour), (story.reason, colour)),
        ):
            console.print(line, soft_wrap=True)
        console.print()


# --- finding stories ----------------------------------------------------------------------------------------------


class _Stories:
    """Looks through the evening for pairs of a message and a person worth telling."""

    def __init__(self, city: _city.City, hub: Hub):
        self._hub = hub
        self._people = city.subscriptions.filter(pc.is_valid(city.subscriptions["radius_m"]))
        self._lon, self._lat, self._radius = (self._people[name].to_numpy() for name in ("lon", "lat", "radius_m"))
        self._messages = city.messages.to_pylist()
        self._tokens = Analyzer().tokens

    def arrivals(self) -> list[_Story]:
        """Return three matches of messages of different kinds."""
        return self._found(
            [
                lambda words, clause: len(clause.words) >= 2 and not clause.phrases and _holds(words, clause),
                lambda words, clause: bool(clause.not_words) and _holds(words, clause),
                lambda words, clause: bool(clause.phrases) and _holds(words, clause),
            ],
            lambda outside_m: outside_m <= 0,
            matched=True,
        )

    def near_misses(self) -> list[_Story]:
        """Return one person just too far away, one whose word is missing, and one who ruled a word out."""
        near = self._found([_holds], lambda outside_m: (outside_m > 20) & (outside_m < _NEAR_M), matched=False)
        wrong_words = self._found(
            [
                lambda words, clause: len(set(clause.words) - words) == 1 < len(clause.words),
                lambda words, clause: set(clause.words) <= words and bool(set(clause.not_words) & words),
            ],
            lambda outside_m: outside_m <= 0,
            matched=False,
        )
        return near + wrong_words

    def _found(
        self, tests: list[Callable[[set[str], Any], bool]], is_close: Callable[[Any], Any], *, matched: bool
    ) -> list[_Story]:
        """Return for each test one story, of different messages, where the hub agrees."""
        stories: list[_Story] = []
        for at, message in self._spread_out():
            if len(stories) == len(tests):
                break
            words = set(self._tokens(message["text"]))
            outside_m = Space.earth().distance(self._lon, self._lat, message["lon"], message["lat"]) - self._radius
            for row in np.flatnonzero(is_close(outside_m))[: 200 + at].tolist():
                person = self._people.slice(row, 1).to_pylist()[0]
                clauses = parse(person["query"]).clauses()
                if len(clauses) == 1 and tests[len(stories)](words, clauses[0]):
                    explanation = self._hub.explain(message, person["id"])
                    if explanation.matched == matched:
                        stories.append(_Story(message, person, explanation.reason))
                        break
        return stories

    def _spread_out(self) -> Iterator[tuple[int, Row]]:
        """Yield messages from all over the evening, so that stories differ."""
        step = 37
        for at in range(min(400, len(self._messages))):
            yield at, self._messages[at * step % len(self._messages)]


def _holds(words: set[str], clause: Any) -> bool:
    return set(clause.words) <= words and not set(clause.not_words) & words
