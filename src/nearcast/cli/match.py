"""`nearcast match`: files of subscriptions and messages in, a file of deliveries out."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearcast.cli._console import Steps, UsageMistake, complain
from nearcast.cli._inputs import Source, open_sources, space_of_sources
from nearcast.cli._options import JsonOption, MapOption, MessagesFile, SpaceOption, SubscriptionsFile
from nearcast.errors import InvalidColumns

if TYPE_CHECKING:
    from nearcast.files import DeliveryWriter
    from nearcast.geo import Space
    from nearcast.hub import Hub
    from nearcast.tables import Rejected
    from nearcast.text import Vocabulary

EXIT_REJECTED = 3
#: Rejected rows shown on stderr when no file is named for them.
_SHOWN = 10


def match(
    subscriptions: SubscriptionsFile,
    messages: MessagesFile,
    out: Annotated[Path, typer.Option(help="File of deliveries: .parquet, .jsonl, .ndjson or .csv.")],
    space: SpaceOption = None,
    index: Annotated[
        str, typer.Option(metavar="NAME[:KEY=VALUE,…]", help="Index to match with; nearcast indexes lists them.")
    ] = "trigger",
    threads: Annotated[int, typer.Option(min=1, help="Cores to match with.")] = 1,
    vocabulary: Annotated[
        Path | None,
        typer.Option(help="Parquet file of document frequencies (term, df); else they are learned from the messages."),
    ] = None,
    maps: MapOption = None,
    rejected: Annotated[
        Path | None, typer.Option(help="File for rows that cannot be used, with reasons; formats as for --out.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Deliver every message to every subscription it satisfies; exit 3 if some rows were rejected."""
    from nearcast.files import DeliveryWriter
    from nearcast.tables import Rejected

    began = time.perf_counter()
    _check_outputs(out, rejected, (subscriptions, messages, vocabulary))
    _check_index(index)
    sources = open_sources(subscriptions, messages, maps or [])
    job = _Job(*sources, space_of_sources(sources, space), index, threads, Rejected())
    with ExitStack() as outputs:
        # Both files are opened before the work and put in place after it: no half of an answer is left behind.
        writer = outputs.enter_context(DeliveryWriter(out))
        refused = None if rejected is None else outputs.enter_context(DeliveryWriter(rejected))
        with Steps() as steps:
            counts = job.run(vocabulary, writer, steps)
        if refused is not None:
            refused.write(job.rejected.to_table())
    summary = counts | {"rejected": len(job.rejected), "seconds": round(time.perf_counter() - began, 3)}
    keys = ("messages", "subscriptions", "deliveries", "rejected", "seconds", "index", "vocabulary_version")
    typer.echo(json.dumps({key: summary[key] for key in keys}) if as_json else _sentence(summary, out))
    if rejected is None:
        _show(job.rejected)
    return EXIT_REJECTED if len(job.rejected) else 0


@dataclass(frozen=True)
class _Job:
    """What is to be matched, and the rows that were left out of it."""

    subscriptions: Source
    messages: Source
    space: Space
    index: str
    threads: int
    rejected: Rejected

    def run(self, vocabulary: Path | None, out: DeliveryWriter, steps: Steps) -> dict[str, Any]:
        """Match everything into `out`; return the counts."""
        from nearcast.hub import Hub

        hub = Hub(self.space, index=self.index, vocabulary=self._vocabulary(vocabulary, steps))
        steps.begin("reading subscriptions", self.subscriptions.total())
        self.rejected.extend(hub.subscribe_many(self.subscriptions.table(self.rejected)))
        deliveries = self._publish(hub, out, steps)
        stats = hub.stats()
        return {
            "messages": stats["published"],
            "subscriptions": stats["subscriptions"],
            "deliveries": deliveries,
            "index": self.index,
            "vocabulary_version": stats["vocabulary_version"],
        }

    def _vocabulary(self, path: Path | None, steps: Steps) -> Vocabulary:
        """Return the vocabulary of a file, or else that of all messages, from a first pass over them."""
        from nearcast.tables import Rejected, read_messages
        from nearcast.text import Analyzer, Vocabulary

        if path is not None:
            return Vocabulary.from_parquet(path)
        steps.begin("learning words", self.messages.total())
        vocabulary, analyzer = Vocabulary(), Analyzer()
        noted_later = Rejected()
        for batch in self.messages.batches(noted_later):
            found = read_messages(batch, self.space, vocabulary.table, analyzer, add_words=True, rejected=noted_later)
            vocabulary.learn(found.term_start, found.terms)
            steps.advance(batch.num_rows)
        return vocabulary

    def _publish(self, hub: Hub, out: DeliveryWriter, steps: Steps) -> int:
        """Write what all messages deliver; return how many deliveries that were."""
        steps.begin("matching messages", self.messages.total())
        count = 0
        for batch in self.messages.batches(self.rejected):
            deliveries = hub.publish_many(batch, threads=self.threads)
            self.rejected.extend(deliveries.rejected)
            for table in deliveries.tables():
                out.write(table)
            count += len(deliveries)
            steps.advance(batch.num_rows)
        return count


def _check_outputs(out: Path, rejected: Path | None, inputs: tuple[Path | None, ...]) -> None:
    """Refuse, before any work is done, outputs that could not be written or would overwrite an input."""
    from nearcast.files import DeliveryWriter

    read = {path.resolve() for path in inputs if path is not None}
    for option, path in (("--out", out), ("--rejected", rejected)):
        if path is None:
            continue
        try:
            DeliveryWriter(path)
        except InvalidColumns as error:
            raise UsageMistake(f"{option} {error}") from None
        if path.resolve() in read:
            raise UsageMistake(f"{option} {path} is an input; choose another name")
        if not path.resolve().parent.is_dir():
            raise UsageMistake(f"{option} {path}: there is no folder {path.parent}; make it first")
        read.add(path.resolve())


def _check_index(spec: str) -> None:
    """Raise `UnknownIndex` before files are read."""
    from nearcast.geo import Space
    from nearcast.indexes import create

    create(spec, Space.plane())


def _sentence(summary: dict[str, Any], out: Path) -> str:
    rejected = f", {summary['rejected']:,} rows rejected" if summary["rejected"] else ""
    return (
        f"{summary['messages']:,} messages to {summary['subscriptions']:,} subscriptions:"
        f" {summary['deliveries']:,} deliveries in {out}{rejected}; {summary['seconds']:.1f} s"
    )


def _show(rejected: Rejected) -> None:
    """Print the first rejected rows, one line each, and how to get all of them."""
    for row in list(rejected)[:_SHOWN]:
        named = f" (id {row.id})" if row.id is not None else ""
        field = f", {row.field}" if row.field is not None else ""
        complain(f"rejected {row.source} row {row.row}{named}{field}: {row.reason}")
    if len(rejected) > _SHOWN:
        complain(f"and {len(rejected) - _SHOWN:,} more; --rejected FILE writes them all")
