"""Lives of messages at random, on every index and in every live store, against plain recomputation."""

import shutil
import tempfile
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from nearcast import Area, Box, Circle, Hub, InvalidInput, Similar, TopK, Vocabulary, Within
from nearcast.indexes import available
from nearcast.live.registry import LIVE_STORES
from support.life_model import LifeModel

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = ["tea", "ramen", "beer", "soup"]
QUERIES = ["tea", "tea AND ramen", "ramen OR soup", "tea AND NOT beer", '"tea ramen"', "NOT beer"]
TEXTS = st.lists(st.sampled_from(WORDS), min_size=0, max_size=4).map(" ".join)
IDS = st.sampled_from(["a", "b", "c", "d"])
SECONDS = st.none() | st.integers(0, 12)

#: Borders, corners, the dateline and the poles: places where points meet regions exactly.
EARTH = [(179.0, 0.0), (-179.0, 0.0), (180.0, 0.0), (-180.0, 1.0), (0.0, 90.0), (10.0, 89.0), (178.0, -1.0)]
PLANE = [(0.0, 0.0), (1.0, 0.0), (2.0, 1.0), (3.0, 0.0), (0.0, 2.0)]


def moment(second):
    return None if second is None else BEGIN + timedelta(seconds=second)


class Life(RuleBasedStateMachine):
    """A hub and its definition, which are told the same."""

    index, store, is_earth, kinds = "scan", "scan", False, ("within", "similar", "topk")
    length, tell_expiry = None, False

    def __init__(self):
        super().__init__()
        self.count = 3 if "topk" in self.kinds else None
        self.hub = Hub(
            "earth" if self.is_earth else "plane",
            index=self.index,
            window=self.count,
            lifetime="expires" if self.length is None else timedelta(seconds=self.length),
            live=self.store,
            tell_expiry=self.tell_expiry,
        )
        length = None if self.length is None else timedelta(seconds=self.length)
        self.model = LifeModel(self.hub.space, length=length, tell_expiry=self.tell_expiry, count=self.count)
        self.number = 0
        self.is_saved = False

    def compare(self, expected, call):
        """Check that a call delivers what is expected, and raises where that is None."""
        if expected is None:
            with pytest.raises(InvalidInput):
                call()
            return
        told = call()
        told = self.hub.poll() if isinstance(told, str) else told
        found = [(d.subscription_id, d.message_id, d.change, d.score, d.rank, d.cause_id) for d in told]
        assert expected == found

    def places(self):
        return EARTH if self.is_earth else PLANE

    def region(self, at, size):
        x, y = self.places()[at % len(self.places())]
        if size == 0:
            return Circle(x, y, 0)
        if size == 1:
            return Circle(x, y, 111_200.0 if self.is_earth else 1.0)
        if size == 2 and self.is_earth:
            return Box(178.0, -1.0, -179.0, 1.0)
        if size == 3:
            return Area({"type": "Polygon", "coordinates": [[(0, 0), (2, 0), (2, 2), (0, 2), (0, 0)]]})
        return Box(0.0, 0.0, 2.0, 1.0)

    @rule(id_=IDS, query=st.sampled_from(QUERIES), at=st.integers(0, 6), size=st.integers(0, 4), expires=SECONDS)
    @precondition(lambda self: "within" in self.kinds)
    def subscribe_within(self, id_, query, at, size, expires):
        self.subscribe(Within(id_, query, self.region(at, size), expires=moment(expires)))

    @rule(
        id_=IDS,
        words=st.sampled_from(["tea", "tea ramen", "soup beer tea"]),
        at=st.integers(0, 6),
        threshold=st.sampled_from([0.2, 0.5, 0.8]),
        similarity=st.sampled_from(["tsim", "jaccard", "cosine"]),
    )
    @precondition(lambda self: "similar" in self.kinds)
    def subscribe_similar(self, id_, words, at, threshold, similarity):
        place = self.places()[at % len(self.places())]
        far = 300_000.0 if self.is_earth else 3.0
        self.subscribe(Similar(id_, words, place, threshold=threshold, similarity=similarity, max_distance=far))

    @rule(id_=IDS, words=st.sampled_from(["tea", "soup tea"]), at=st.integers(0, 6), k=st.integers(1, 2))
    @precondition(lambda self: "topk" in self.kinds)
    def subscribe_topk(self, id_, words, at, k):
        place = self.places()[at % len(self.places())]
        self.subscribe(TopK(id_, words, place, k=k, max_distance=300_000.0 if self.is_earth else 3.0))

    def subscribe(self, wanted):
        self.compare(self.model.subscribe(wanted), lambda: self.hub.subscribe(wanted))

    @rule(text=TEXTS, at=st.integers(0, 6), time=SECONDS, life=st.none() | st.integers(-1, 5), is_box=st.booleans())
    def publish(self, text, at, time, life, is_box):
        x, y = self.places()[at % len(self.places())]
        names = ("lon", "lat", "lon_max", "lat_max") if self.is_earth else ("x", "y", "x_max", "y_max")
        far = (x - 359.5 if x > 179 else x + 0.5, min(y + 0.5, 90.0)) if self.is_earth else (x + 1, y + 1)
        place = dict(zip(names, (x, y, *far) if is_box else (x, y), strict=False))
        self.number += 1
        message = {"id": self.number, "text": text, **place}
        expires = None if life is None else moment((time or 0) + life)
        expected = self.model.publish(message, moment(time), expires)
        given = message | {"time": moment(time), "expires": expires}
        self.compare(expected, lambda: self.hub.publish(given))

    @rule(id_=IDS, at=st.integers(0, 6), time=SECONDS, in_table=st.booleans())
    def move(self, id_, at, time, in_table):
        wanted = self.model.subscriptions.get(id_)
        place = self.places()[at % len(self.places())]
        if wanted is None or not self.can_carry(wanted, place):
            return
        expected = self.model.move(id_, place, moment(time))
        if in_table and expected is not None:
            names = ("lon", "lat") if self.is_earth else ("x", "y")
            row = {"id": id_, "time": moment(time)} | dict(zip(names, place, strict=True))
            self.compare(expected, lambda: self.hub.move_many([row]))
        else:
            self.compare(expected, lambda: self.hub.move(id_, place, moment(time)))

    def can_carry(self, wanted, place):
        region = getattr(wanted, "region", None)
        if isinstance(region, Box) and self.is_earth:
            height = self.model.extents.get(wanted.id, (0, region.y_max - region.y_min))[1]
            return abs(place[1]) + height / 2 <= 90
        return not isinstance(region, Area)

    @rule(id_=IDS, at=st.integers(0, 6), size=st.integers(0, 4))
    def move_to_region(self, id_, at, size):
        wanted = self.model.subscriptions.get(id_)
        if isinstance(wanted, Within):
            region = self.region(at, size)
            self.compare(self.model.move(id_, region), lambda: self.hub.move(id_, region))

    @rule(second=st.integers(0, 14))
    def advance(self, second):
        self.compare(self.model.advance(moment(second)), lambda: self.hub.advance(moment(second)))

    @rule(id_=IDS)
    def unsubscribe(self, id_):
        if id_ in self.model.subscriptions:
            self.model.unsubscribe(id_)
            self.hub.unsubscribe(id_)

    @rule(often=st.lists(st.sampled_from(WORDS), max_size=4))
    def use_vocabulary(self, often):
        vocabulary = Vocabulary()
        vocabulary.learn_tokens([[word] for word in [*WORDS, *often]])
        self.compare(self.model.use_vocabulary(vocabulary), lambda: self.hub.use_vocabulary(vocabulary))

    @rule()
    @precondition(lambda self: not self.is_saved)  # once a life: files take longer than all the rest
    def save_and_open(self):
        self.is_saved = True
        folder = tempfile.mkdtemp()
        self.hub.save(folder + "/hub")
        self.hub = Hub.open(folder + "/hub")
        shutil.rmtree(folder)

    @invariant()
    def current_is_what_is_relevant(self):
        assert list(self.hub) == self.model.order
        for id_ in self.model.order:
            assert self.model.current(id_) == [(d.message_id, d.score) for d in self.hub.current(id_)]


def life(n=10, steps=25, **settings_of_life):
    machine = type("LifeHere", (Life,), settings_of_life)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=min(n, settings().max_examples),  # fewer in slow modes
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
        ),
    )


@pytest.mark.modes
@pytest.mark.parametrize("is_earth", [False, True], ids=["plane", "earth"])
@pytest.mark.parametrize("store", LIVE_STORES)
def test_a_hub_tells_the_difference(store, is_earth):
    """Each step delivers what recomputation says, and `current` is what is relevant then."""
    # A length and the telling of expiry once with either store and in either space.
    has_length = is_earth == (store == LIVE_STORES[0])
    length, tell_expiry = (4, True) if has_length else (None, False)
    life(15, store=store, index="trigger", is_earth=is_earth, length=length, tell_expiry=tell_expiry)


@pytest.mark.modes
@pytest.mark.parametrize("is_earth", [False, True], ids=["plane", "earth"])
def test_words_weigh_differently(is_earth):
    """Another vocabulary is a step that tells its difference."""
    life(10, store=LIVE_STORES[-1], index="trigger", is_earth=is_earth, kinds=("within", "similar"), tell_expiry=True)


@pytest.mark.papers
@pytest.mark.parametrize("info", available(), ids=lambda info: info.name)
def test_every_index_has_lifetimes(info):
    """A lifetime works with each registered index, for the kinds it takes."""
    life(4, 20, store=LIVE_STORES[0], index=info.name, kinds=info.kinds, length=4, tell_expiry=True)
