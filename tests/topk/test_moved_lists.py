"""Top-k subscriptions that move: the list they had, scored where they are now, says what a message must reach."""

import random
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from nearcast import Hub, Message, TopK
from nearcast.topk.keeper import Keeper

pytestmark = pytest.mark.modes

WORDS = ["ramen", "sushi", "pizza", "tea", "cake", "beer"]
BEGIN = datetime(2024, 5, 1, tzinfo=UTC)


class TopKCity:
    """A hub with a window, top-k subscriptions that go about, and messages."""

    def __init__(self, window, seed=1, index="trigger"):
        self.rng, self.hub, self.minute = random.Random(seed), Hub(index=index, window=window), 0
        self.n_messages, self.told = 0, []
        for i in range(14):
            self.hub.subscribe(
                TopK(
                    i,
                    " ".join(self.rng.sample(WORDS, self.rng.randint(1, 3))),
                    place=self.place(),
                    k=1 + i % 5,
                    text_weight=[0.0, 0.3, 0.9][i % 3],
                    max_distance=[3_000.0, 200_000.0][i % 2],
                )
            )

    def place(self):
        return (self.rng.uniform(-1, 1), self.rng.uniform(44, 46))

    def publish(self, n):
        for _ in range(n):
            self.minute += self.rng.random()
            self.n_messages += 1
            text = " ".join(self.rng.choices(WORDS, k=self.rng.randint(1, 4)))
            time = BEGIN + timedelta(minutes=self.minute)
            self.told += self.hub.publish(Message(self.n_messages, text, place=self.place(), time=time))

    def move(self, n):
        """Move some, a little or far."""
        moves = []
        for i in self.rng.sample(range(14), n):
            x, y = self.place()
            if self.rng.random() < 0.5:
                x, y = (here + self.rng.uniform(-0.02, 0.02) for here in self.hub.get(i).place)
            moves.append({"id": i, "lon": x, "lat": y})
        self.told += self.hub.move_many(moves)

    def live(self):
        self.publish(60)
        for _ in range(20):
            self.move(self.rng.randint(1, 6))
            self.publish(self.rng.randint(0, 4))
        return self.told


@pytest.mark.parametrize(
    ("index", "window"),
    [
        ("trigger", 40),
        ("trigger", 400),
        ("trigger", "20m"),
        ("trigger:messages=ir-tree", 400),
        ("trigger:messages=scan", "20m"),
    ],
)
def test_what_is_told_is_that_of_whole_searches(window, index, monkeypatch):
    """Every delivery is the same as where each move searches the window from nothing."""
    told = TopKCity(window, index=index).live()
    monkeypatch.setattr(Keeper, "move", Keeper.look_again)

    assert TopKCity(window, index=index).live() == told
    assert any(each.change == "-" for each in told)


def test_a_move_looks_at_less_than_a_whole_search():
    """Of the postings that a search from nothing looks at, a short move looks at some."""
    city = TopKCity(2000)
    city.publish(700)
    keeper = city.hub._state.topk
    slots = np.arange(14, dtype=np.int32)
    holders = keeper.holding.of_slots(slots)
    keeper.look_again(slots, city.hub._state.weights)
    whole = keeper.holders.work[holders].sum()
    keeper.move(slots, city.hub._state.weights)

    assert 0 < keeper.holders.work[holders].sum() < 0.8 * whole


def test_scores_of_messages_that_left_the_window_are_not_known():
    """A row that is not held, or does not count, has no score."""
    city = TopKCity(5)
    city.publish(30)
    keeper = city.hub._state.topk
    holders = keeper.holding.of_slots(np.array([0, 1], np.int32))
    rows = np.tile(np.arange(28, dtype=np.int64), 2)
    score = keeper.messages.scores(
        keeper._asked(holders), np.array([0, 28, 56]), rows, keeper._alive(keeper.sliding.next_row - 1)
    )

    assert (score[rows < 25] == -1.0).all()
    assert (score[rows >= 25] >= 0.0).any()
