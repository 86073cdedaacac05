"""What came over the sockets of a living town, counted, and what should have come and has not."""

from __future__ import annotations

from collections import Counter

from nearcast.demo.flaky_receiver import FlakyReceiver


class EventTally:
    """Counts of events by type as they came by server-sent events, beside what the webhook's receiver saw."""

    def __init__(self, receiver: FlakyReceiver):
        self.counts: Counter[str] = Counter()
        self.n_published = 0
        self._receiver = receiver

    def missing(self) -> list[str]:
        """Return what has not come yet; a town in which all is well misses nothing after some seconds."""
        wanted = {
            "a match by server-sent events": self.counts["match"],
            "an enter or an exit": self.counts["enter"] + self.counts["exit"],
            "a webhook accepted after it was refused": self._receiver.n_mended,
        }
        return [what for what, count in wanted.items() if not count]

    def __str__(self) -> str:
        """Return all of it in one line."""
        counts, hook = self.counts, self._receiver
        lists = counts["topk.added"] + counts["topk.removed"]
        return (
            f"{self.n_published:,} messages; events: {counts['match']:,} match, {counts['enter']:,} enter, "
            f"{counts['exit']:,} exit, {lists:,} of top-k lists; webhook: {hook.n_accepted:,} accepted, "
            f"{hook.n_refused:,} refused, {hook.n_mended:,} of them accepted later"
        )
