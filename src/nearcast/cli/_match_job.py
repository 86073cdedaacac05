"""The work of `nearcast match` in one process: a hub is filled with one file and fed the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nearcast.cli._inputs import (
    InputFile,
    lifetime_of,
    need_window,
    open_inputs,
    renames_from,
    space_of_inputs,
    vocabulary_of,
    window_of,
)
from nearcast.cli._options import EngineName

if TYPE_CHECKING:
    from pathlib import Path

    from nearcast.cli._console import StepProgress
    from nearcast.files import DeliveryWriter
    from nearcast.geo import Space
    from nearcast.hub import Hub
    from nearcast.tables import Rejected
    from nearcast.window import Window


@dataclass(frozen=True)
class MatchArguments:
    """What the command was given, named as its parameters."""

    subscriptions: Path
    messages: Path
    out: Path
    space: str | None = None
    index: str = "trigger"
    threads: int = 1
    engine: EngineName = EngineName.LOCAL
    plan: str = "trigger"
    partitions: int | None = None
    master: str | None = None
    vocabulary: Path | None = None
    max_distance: float | None = None
    window: str | None = None
    lifetime: str | None = None
    changes: Path | None = None
    maps: list[str] | None = None
    rejected: Path | None = None
    delivery_ids: bool = False
    strict: bool = False
    as_json: bool = False


@dataclass(frozen=True)
class MatchJob:
    """Two files that are matched as the arguments say, and the rows that were left out."""

    given: MatchArguments
    subscriptions: InputFile
    messages: InputFile
    space: Space
    window: Window | None
    rejected: Rejected
    changes: InputFile | None = None

    @classmethod
    def of(cls, given: MatchArguments) -> MatchJob:
        """Return the job of checked arguments; both files are opened."""
        from nearcast.tables import Rejected

        changes = None if given.changes is None else InputFile(given.changes, "changes", renames_from(given.maps or []))
        inputs = open_inputs(given.subscriptions, given.messages, given.maps or [], changes)
        space = space_of_inputs(inputs, given.space)
        return cls(given, *inputs, space, window_of(given.window), Rejected(), changes)

    def run(self, out: DeliveryWriter, steps: StepProgress) -> dict[str, Any]:
        """Match everything into `out`; return the counts."""
        from nearcast.hub import Hub

        given = self.given
        steps.begin("reading subscriptions", self.subscriptions.total())
        subscriptions = self.subscriptions.table(self.rejected)
        need_window(subscriptions, self.window)
        words = vocabulary_of(given.vocabulary, self.messages, self.space, steps)
        hub = Hub(
            self.space,
            index=given.index,
            vocabulary=words,
            max_distance=given.max_distance,
            window=self.window,
            lifetime=lifetime_of(given.lifetime),
        )
        steps.begin("storing subscriptions", subscriptions.num_rows)
        self.rejected.extend(hub.subscribe_many(subscriptions, strict=given.strict))
        deliveries = self._publish(hub, out, steps) if self.changes is None else self._change(hub, out, steps)
        stats = hub.stats()
        return {
            "messages": stats["published"],
            "subscriptions": stats["subscriptions"],
            "deliveries": deliveries,
            "index": given.index,
            "vocabulary_version": stats["vocabulary_version"],
        }

    def _change(self, hub: Hub, out: DeliveryWriter, steps: StepProgress) -> int:
        """Write what all messages and changes deliver, in the order of a stream; return how many deliveries that is."""
        from nearcast.cli._match_changes import ChangedMatch

        assert self.changes is not None
        messages, changes = self.messages.table(self.rejected), self.changes.table(self.rejected)
        steps.begin("matching messages and changes", None)
        count, given = 0, self.given
        for deliveries in ChangedMatch(
            hub, messages, changes, self.rejected, threads=given.threads, strict=given.strict
        ):
            for table in deliveries.tables(dictionaries=True):
                out.write(table)
            count += len(deliveries)
        return count

    def _publish(self, hub: Hub, out: DeliveryWriter, steps: StepProgress) -> int:
        """Write what all messages deliver; return how many deliveries that were."""
        from nearcast.deliveries import MessagePortions

        given, portions = self.given, MessagePortions()
        steps.begin("matching messages", self.messages.total())
        for batch in self.messages.batches(self.rejected):
            for first, last in portions.of(batch.num_rows):
                piece = batch.slice(first, last - first)
                deliveries = hub.publish_many(piece, threads=given.threads, strict=given.strict)
                self.rejected.extend(deliveries.rejected)
                for table in deliveries.tables(dictionaries=True):
                    out.write(table)
                portions.deliveries += len(deliveries)
                steps.advance(piece.num_rows)
        return portions.deliveries
