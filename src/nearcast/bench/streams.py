"""A stream over top-k subscriptions: the messages that fill the window, and those whose arrival is measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nearcast.bench.encoding import learned, must_be_of_kind
from nearcast.errors import InvalidColumns, InvalidInput
from nearcast.window import Window

if TYPE_CHECKING:
    import pyarrow as pa

    from nearcast.bench.data.workloads import Workload
    from nearcast.columns import Messages, Subscriptions
    from nearcast.engine import State
    from nearcast.geo import Space
    from nearcast.text import Analyzer, Vocabulary
    from nearcast.text.words import WordTable

#: Messages that arrive before the clock runs, unless something is said: a share of the window, and no fewer than these.
#: Buffers are at their fullest when subscriptions are new, and what was left for the first message is done by then.
WARM_UP_SHARE, FEWEST_WARM_UP = 0.1, 512
#: The window unless something is said, where there are so many messages.
USUAL_WINDOW = 100_000
#: How often a window of time is filled before the subscriptions come: by then it is known how often messages expire.
TURNS = 3


@dataclass(frozen=True)
class TopkStream:
    """Top-k subscriptions in columns, and a table of messages: those before `n_before` fill the window.

    The next `n_warm_up` arrive before the clock runs. Words weigh by the document frequencies of all messages.
    """

    space: Space
    words: WordTable
    analyzer: Analyzer
    vocabulary: Vocabulary
    subscriptions: Subscriptions
    messages: pa.Table
    window: Window
    n_before: int
    n_warm_up: int

    @property
    def first_measured(self) -> int:
        """Return the row of the first message whose arrival is measured."""
        return self.n_before + self.n_warm_up

    @property
    def n_measured(self) -> int:
        """Return of how many messages the arrival is measured."""
        return int(self.messages.num_rows) - self.first_measured

    def new_state(self, spec: str, window: Window | None = None) -> State:
        """Return an engine without subscriptions and messages."""
        from nearcast.engine import State
        from nearcast.indexes import create

        return State(
            create(spec, self.space),
            words=self.words,
            analyzer=self.analyzer,
            vocabulary=self.vocabulary,
            window=window or self.window,
        )

    def portions(self, state: State, first: int, last: int) -> Iterator[Messages]:
        """Yield the messages from `first` to `last` as the engine takes them, no more than go through it at once.

        A portion is read when the one before has been published: the window may have forgotten words by then.
        """
        from nearcast.tables import Rejected, read_messages
        from nearcast.topk.keeper import BATCH

        assert state.topk is not None
        for at in range(first, last, BATCH):
            yield read_messages(
                self.messages.slice(at, min(BATCH, last - at)),
                self.space,
                self.words,
                self.analyzer,
                weights=state.weights,
                window_words=state.topk.word_table,
                rejected=Rejected(),
            )


def stream_of(
    workload: Workload, window: Window, n_measured: int, n_warm_up: int | None = None, space: str | None = None
) -> TopkStream:
    """Return the stream of a workload: the last messages are measured, those before warm up, all others come first.

    Raises `InvalidColumns` if a row cannot be used or is of another kind, `InvalidInput` if there are too few messages.
    """
    from nearcast.tables import Rejected, read_messages, read_subscriptions, space_of
    from nearcast.text import Analyzer
    from nearcast.text.words import WordTable

    words, analyzer, rejected = WordTable(), Analyzer(), Rejected()
    found = space_of([*workload.subscriptions.column_names, *workload.messages.column_names], space)
    subscriptions = read_subscriptions(
        workload.subscriptions, found, words, analyzer, has_window=True, rejected=rejected
    )
    messages = read_messages(workload.messages, found, WordTable(), analyzer, rejected=rejected)
    for row in rejected:
        raise InvalidColumns(f"the workload cannot be used: {row.source} row {row.row}, {row.field}: {row.reason}")
    must_be_of_kind(subscriptions, "topk")
    n_warm_up = usual_warm_up(window) if n_warm_up is None else n_warm_up
    n_before = _before(window, len(messages), n_measured + n_warm_up)
    if window.is_by_time:
        _must_be_in_time_order(messages)
    vocabulary = learned(workload.messages, found, analyzer).snapshot()
    return TopkStream(
        space=found,
        words=words,
        analyzer=analyzer,
        vocabulary=vocabulary,
        subscriptions=subscriptions,
        messages=workload.messages,
        window=window,
        n_before=n_before,
        n_warm_up=n_warm_up,
    )


def usual_warm_up(window: Window) -> int:
    """Return how many messages warm up unless something is said."""
    return max(FEWEST_WARM_UP, round(WARM_UP_SHARE * (window.count or 0)))


def usual_window(n_messages: int | None, n_measured: int, n_warm_up: int | None = None) -> Window:
    """Return the largest window, up to the usual one, that so many messages fill before the others arrive."""
    if n_messages is None:
        return Window.of(USUAL_WINDOW)
    if n_warm_up is None:
        n_warm_up = max(FEWEST_WARM_UP, round(WARM_UP_SHARE * min(USUAL_WINDOW, n_messages)))
    return Window.of(max(1, min(USUAL_WINDOW, n_messages - n_measured - n_warm_up)))


def _before(window: Window, n_messages: int, n_after: int) -> int:
    """Return how many messages come before the last `n_after`: enough to fill the window, or an error."""
    needed = 1 if window.count is None else window.count
    if n_messages - n_after < needed:
        raise InvalidInput(
            f"there are {n_messages:,} messages; to fill the window {needed:,} are needed and {n_after:,} to arrive"
            " afterwards: give another --window, --warm-up or --messages",
            field="window",
        )
    return n_messages - n_after


def _must_be_in_time_order(messages: Messages) -> None:
    from nearcast.columns import NO_TIME

    if (messages.time == NO_TIME).any() or (messages.time[1:] < messages.time[:-1]).any():
        raise InvalidColumns("a window of time needs messages with a time, in order of time", field="time")
