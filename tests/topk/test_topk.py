"""Top-k over a sliding window against its definition: recompute everything after every step."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from nearcast import Hub, Message, Space, TopK, Vocabulary
from nearcast.indexes import available
from support.topk_model import Recomputing

pytestmark = pytest.mark.modes

EARTH, PLANE = Space.earth(), Space.plane()
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = "abcdef"
DISSEMINATION = [info.name for info in available() if "topk" in info.kinds]
#: Small numbers, so that buffers overflow, run dry, and are cut.
BUFFERS = ("buffer=cskyband", "buffer=kmax,kmax=2", "buffer=skyband,ratio=0.8")
WINDOWS = ("count", "time")
OURS = ("scan", "trigger")
#: Ours with every buffer, in both windows between them; a paper's with one, as buffers know nothing of the index.
PAIRS = [
    (name, buffer, WINDOWS[(row + column) % 2])
    for row, name in enumerate(OURS)
    for column, buffer in enumerate(BUFFERS)
] + [
    pytest.param(name, BUFFERS[number % len(BUFFERS)], WINDOWS[number % len(WINDOWS)], marks=pytest.mark.papers)
    for number, name in enumerate(sorted(set(DISSEMINATION) - set(OURS)))
]


def moment(seconds):
    return BEGIN + timedelta(seconds=seconds)


def changes(deliveries):
    """Return deliveries as the model tells them."""
    return [(d.subscription_id, d.message_id, d.change, d.score, d.rank) for d in deliveries]


_at = st.tuples(st.integers(-3, 3), st.integers(-3, 3)).map(lambda at: (float(at[0]), float(at[1])))
_shares = st.sampled_from([0.0, 1.0, 0.5, 0.3]) | st.floats(0.0, 1.0)


@st.composite
def wanted(draw, unit):
    return TopK(
        draw(st.integers(0, 9)),
        " ".join(draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4))),
        draw(_at),
        k=draw(st.sampled_from([1, 1, 2, 3, 5])),
        text_weight=draw(_shares),
        max_distance=draw(st.sampled_from([1.0, 3.0, 10.0])) * unit,
    )


_said = st.tuples(
    st.lists(st.sampled_from([*WORDS, "other"]), max_size=5),
    _at,
    st.sampled_from([(0, 0), (0, 0), (0, 0), (1, 0), (2, 2)]),
    st.sampled_from([0, 0, 0, 1, 1, 3]),  # seconds since the one before
    st.sampled_from([0, 0, 0, 0, 1, 4, 9]),  # seconds that it comes late
)


class Streams(RuleBasedStateMachine):
    """A hub and the definition get the same changes and messages, and must deliver the same."""

    index, window, space = "scan", "count", PLANE

    def __init__(self):
        super().__init__()
        self.size = None

    @rule(size=st.sampled_from([1, 2, 4, 12, 40]))
    @precondition(lambda self: self.size is None)
    def begin(self, size):
        self.size = size
        by_time = self.window == "time"
        self.hub = Hub(self.space, index=self.index, window=timedelta(seconds=size) if by_time else size)
        self.model = Recomputing(self.space, length=size) if by_time else Recomputing(self.space, count=size)
        self.seconds = self.number = 0

    def has_begun(self):
        return self.size is not None

    def has_some(self):
        return self.size is not None and bool(self.model.subscriptions)

    @rule(data=st.data())
    @precondition(has_begun)
    def subscribe(self, data):
        value = data.draw(wanted(111_195.0 if self.space.is_earth else 1.0))
        self.hub.subscribe(value)
        assert self.model.subscribe(value) == changes(self.hub.poll())

    @rule(pick=st.integers(0, 9))
    @precondition(has_some)
    def unsubscribe(self, pick):
        id_ = list(self.model.subscriptions)[pick % len(self.model.subscriptions)]
        self.hub.unsubscribe(id_)
        self.model.unsubscribe(id_)

    @rule(pick=st.integers(0, 9), at=_at)
    @precondition(has_some)
    def move(self, pick, at):
        id_ = list(self.model.subscriptions)[pick % len(self.model.subscriptions)]
        moved = replace(self.model.subscriptions[id_], place=at)
        assert self.model.subscribe(moved) == changes(self.hub.move(id_, at))

    @rule(said=st.lists(_said, min_size=1, max_size=8))
    @precondition(has_begun)
    def publish(self, said):
        expected, messages = [], []
        for tokens, (x, y), (width, height), later, late in said:
            self.seconds += later
            self.number += 1
            time = self.seconds - (late if self.window == "time" else 0)
            place = (x, y, x + width, y + height)
            told = self.model.publish(self.number, tokens, place, time)
            expected.append(told)
            messages.append(Message(self.number, None, place, terms=tokens, time=moment(time)))
        found = self.hub.publish_many(messages)
        assert 0 == len(found.rejected)
        assert [row for told in expected for row in told] == changes(found)

    @rule(later=st.sampled_from([0, 1, 5, 50]))
    @precondition(lambda self: self.has_begun() and self.window == "time")
    def advance(self, later):
        self.seconds += later
        assert self.model.advance(self.seconds) == changes(self.hub.advance(moment(self.seconds)))

    @rule(weights=st.fixed_dictionaries({word: st.sampled_from([1, 2, 5, 9]) for word in WORDS[:3]}))
    @precondition(has_begun)
    def reweigh(self, weights):
        vocabulary = Vocabulary()
        for word, times in weights.items():
            for _ in range(times):
                vocabulary.learn_tokens([[word]])
        words = [*WORDS, "other"]
        known = dict(zip(words, vocabulary.idf(words).tolist(), strict=True))
        assert self.model.reweigh(known) == changes(self.hub.use_vocabulary(vocabulary))

    @invariant()
    def current_is_the_top(self):
        if self.has_begun():
            for id_ in self.model.subscriptions:
                top = [(message, score, rank) for rank, (score, _, message) in enumerate(self.model.top(id_), 1)]
                assert top == [(d.message_id, d.score, d.rank) for d in self.hub.current(id_)]


#: Fewer of them in slow modes.
STREAMS = settings(stateful_step_count=25, max_examples=min(20, settings().max_examples))


@pytest.mark.parametrize(("name", "buffer", "window"), PAIRS)
def test_every_pair_of_index_and_buffer_delivers_what_recomputing_does(name, buffer, window):
    space = EARTH if (len(name) + len(buffer)) % 2 else PLANE
    machine = type("Streams", (Streams,), {"index": f"{name}:{buffer}", "window": window, "space": space})
    run_state_machine_as_test(machine, settings=STREAMS)


@pytest.mark.parametrize("messages", ["scan", "ir-tree"])
def test_every_message_index_serves(messages):
    machine = type("Streams", (Streams,), {"index": f"scan:messages={messages}", "window": "time", "space": EARTH})
    run_state_machine_as_test(machine, settings=STREAMS)
