"""Words of subscriptions that went: a hub forgets them, and nothing else changes by that."""

import random
import threading

import numpy as np
import pytest

from nearcast import Area, Box, Circle, Hub, Similar, TopK, Vocabulary, Within, engine
from nearcast.engine import upkeep, word_compaction
from nearcast.indexes import available, create
from nearcast.model import SIMILARITIES
from support.torn import Tracer, rows

RING = [[0.0, 0.0], [5.0, 0.0], [5.0, 5.0], [0.0, 5.0], [0.0, 0.0]]
FORMS = ("{} OR {}", "{} AND NOT {}", '"{} {}" AND {}', '{} AND NOT "{} {}"', "{} AND NOT {} AND {}")


@pytest.fixture(autouse=True)
def few_spare_words(monkeypatch):
    """Let words be forgotten when there are a dozen too many."""
    monkeypatch.setattr(upkeep, "SPARE_WORDS", 12)


def at(second):
    return f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}Z"


class Chance:
    """Random subscriptions and messages, whose words go out of use as time goes by."""

    def __init__(self, seed):
        self.random, self.now = random.Random(seed), 0

    def words(self, n):
        """Return words of this time; some are of all times."""
        recent = [f"w{self.now + self.random.randrange(12)}" for _ in range(n)]
        return [self.random.choice(["tea", "jazz"]) if self.random.random() < 0.3 else word for word in recent]

    def point(self):
        return self.random.uniform(0, 5), self.random.uniform(0, 5)

    def subscription(self, id_):
        chance, kind, (x, y) = self.random, self.random.randrange(4), self.point()
        expires = at(self.now + chance.randrange(1, 30)) if chance.random() < 0.2 else None
        if kind == 0:
            return TopK(id_, " ".join(self.words(3)), (x, y), k=chance.randrange(1, 4), expires=expires)
        if kind == 1:
            similarity = chance.choice(SIMILARITIES)
            return Similar(id_, " ".join(self.words(3)), (x, y), threshold=0.2, similarity=similarity, expires=expires)
        area = Area({"type": "Polygon", "coordinates": [RING]})
        region = chance.choice([None, Box(x, y, x + 3, y + 3), Circle(x, y, 2.0), area])
        word = self.words(1)[0]
        query = f"tea AND {word} AND NOT {word}" if chance.random() < 0.05 else chance.choice(FORMS)
        return Within(id_, query.format(*self.words(3)), region, expires=expires)

    def message(self, id_):
        x, y = self.point()
        return {"id": id_, "text": " ".join(self.words(6)), "x": x, "y": y, "time": at(self.now)}

    def vocabulary(self):
        made = Vocabulary()
        made.learn_tokens([self.words(4) for _ in range(9)])
        return made


def made(index, *, forgets=True, window=20):
    hub = Hub("plane", index=index, max_distance=5.0, window=window)
    if not forgets:
        hub._state.n_words_counted = 1 << 40
    return hub


class Pair:
    """A hub and its twin that never forgets a word; whatever both do must be the same."""

    def __init__(self, index):
        self.hubs = [made(index), made(index, forgets=False)]
        self.n_compactions = 0

    def both(self, call):
        one, two = (call(hub) for hub in self.hubs)
        if hasattr(one, "to_table"):
            assert rows(two) == rows(one)
        else:
            assert two == one
        return one

    def subscribe(self, call):
        """Change both, and see whether that was the moment to forget words."""
        before = self.hubs[0]._state.index
        self.both(call)
        if self.hubs[0]._state.index is not before:
            self.n_compactions += 1
            self.compare()

    def compare(self):
        ids = self.both(list)
        self.both(lambda hub: [hub.get(id_) for id_ in ids])
        self.both(lambda hub: hub.to_table().to_pylist())
        state = self.hubs[0]._state
        held = [id_ for id_ in ids if state.topk.holds(state.slot(id_))]
        self.both(lambda hub: [hub.current(id_) for id_ in held])
        return held


def live(pair, chance, n, first=0):
    """Let both live through n random operations."""
    for number in range(first, first + n):
        chance.now += chance.random.randrange(3)
        what, ids = chance.random.random(), list(pair.hubs[0])
        if what < 0.35:
            wanted = chance.subscription(chance.random.choice([number, *ids[:2]]))
            pair.subscribe(lambda hub, wanted=wanted: hub.subscribe(wanted))
        elif what < 0.45:
            many = [chance.subscription(f"{number}-{i}") for i in range(4)]
            pair.subscribe(lambda hub, many=many: len(hub.subscribe_many(many)))
        elif what < 0.6 and len(ids) > 10:
            gone = chance.random.sample(ids, len(ids) // 3)
            pair.both(lambda hub, gone=gone: len(hub.unsubscribe_many(gone)))
        elif what < 0.65 and ids:
            scored = [i for i in ids if not isinstance(pair.hubs[0].get(i), Within)]
            place = chance.point()
            for id_ in scored[:1]:
                pair.both(lambda hub, id_=id_, place=place: hub.move(id_, place))
        elif what < 0.67:
            known = chance.vocabulary()
            pair.both(lambda hub, known=known: hub.use_vocabulary(known))
        elif what < 0.7:
            pair.both(lambda hub: hub.advance(at(chance.now)))
        elif what < 0.8:
            said = [chance.message(f"{number}-{i}") for i in range(5)]
            pair.both(lambda hub, said=said: hub.publish_many(said))
        else:
            said = chance.message(number)
            pair.both(lambda hub, said=said: hub.publish(said))
    pair.both(lambda hub: hub.poll())


@pytest.mark.parametrize(
    "index", ["scan", pytest.param("trigger:leaf_rows=8,few=1,delta_rows=4", marks=pytest.mark.modes)]
)
def test_a_hub_that_forgets_words_lives_as_one_that_keeps_them(index, tmp_path, monkeypatch):
    """All kinds and a window: the same deliveries, the same top-k, the same subscriptions, saved and opened too."""
    monkeypatch.setattr(upkeep, "SPARE_WORDS", -30)  # often, even if half of the words are in use
    pair, chance = Pair(index), Chance(3)
    live(pair, chance, 80)
    assert len(pair.compare()) > 1
    for hub, name in zip(pair.hubs, "ab", strict=True):
        hub.save(tmp_path / name)
    pair.hubs = [Hub.open(tmp_path / name) for name in "ab"]
    pair.hubs[1]._state.n_words_counted = 1 << 40
    live(pair, chance, 80, first=1000)
    pair.compare()

    forgetful, other = (len(hub._state.words) for hub in pair.hubs)
    assert pair.n_compactions > 10
    assert 3 * forgetful < other
    for hub in pair.hubs:
        hub.close()


@pytest.mark.modes
def test_a_word_that_went_and_comes_back_is_found():
    """It has another number then, in queries and in messages alike."""
    hub = made("scan", window=None)
    hub.subscribe(Within("first", "word0"))
    hub.subscribe(Within("last", "tea"))
    hub.unsubscribe("first")
    for number in range(1, 40):
        hub.subscribe(Within("guest", f"word{number}"))
    words = hub.stats()["words"]
    hub.subscribe(Within("again", "word0 AND tea"))

    assert words <= 2 + 12 + 3
    assert -1 != hub._state.words.id_of("word0")
    assert ["last", "again"] == [d.subscription_id for d in hub.publish({"id": 1, "text": "tea word0", "x": 0, "y": 0})]
    assert Within("again", "word0 AND tea") == hub.get("again")


def test_a_hub_without_subscriptions_forgets_every_word():
    """Nothing is read back from an index that holds nothing."""
    hub = made("scan", window=None)
    hub.subscribe(Within("all", " ".join(f"word{i}" for i in range(20))))
    hub.unsubscribe("all")
    hub.subscribe(Within("one", "tea"))

    assert 1 == hub.stats()["words"]


def test_words_in_use_are_counted_when_the_table_has_doubled(monkeypatch):
    """A hub whose words are all in use reads its subscriptions back a few times only."""
    counted = []
    monkeypatch.setattr(
        word_compaction, "used_words", lambda state: counted.append(1) or np.ones(len(state.words), np.bool_)
    )
    hub = made("scan", window=None)
    for number in range(200):
        hub.subscribe(Within(number, f"word{number}"))

    assert 4 == len(counted)  # with 13, 39, 91 and 195 words
    assert 200 == hub.stats()["words"]


def few_of_many(index="scan:buffer=kmax,kmax=2"):
    """A hub of all kinds that will forget words with the next subscription, and some deliveries that wait."""
    hub = made(index, window=5)
    hub.subscribe(Within("gone", " ".join(f"gone{i}" for i in range(30))))
    hub.subscribe_many([Within("w1", "tea"), Within("w2", "beer OR soup", Box(0, 0, 3, 3), expires=at(40))])
    hub.subscribe_many([Similar("s1", "tea soup", (0, 0), threshold=0.3), TopK("t1", "tea soup", (0, 0), k=2)])
    hub.publish_many([post(i, f"{['tea', 'soup', 'jazz'][i % 3]} word{i}") for i in range(8)])
    hub._state.n_words_counted = 0
    hub.unsubscribe("gone")
    return hub


def post(number, text):
    return {"id": number, "text": text, "x": number % 4, "y": 0.0, "time": at(number)}


def seen(hub):
    """Return what can be seen of a hub, its words apart."""
    return list(hub), [hub.get(id_) for id_ in hub], hub.current("t1"), hub.to_table().to_pylist()


def life_goes_on(hub):
    """Return what a hub delivers, and what it is like in the end."""
    told = [rows(hub.publish_many([post(20 + i, f"tea {['soup', 'new', 'beer'][i % 3]}") for i in range(6)]))]
    hub.subscribe_many([TopK("t2", "new tea", (1, 0), k=3), Within("w1", "new")])
    told += [rows(hub.move("t1", (3, 0))), rows(hub.publish(post(30, "new soup"))), rows(hub.advance(at(50)))]
    return told, seen(hub)


@pytest.mark.parametrize("again", [0, 5])
def test_forgetting_words_torn_at_some_lines_is_done_or_not_begun(again):
    """Wherever an interrupt strikes, the hub has all its words or those in use, and is the same otherwise."""
    twin = few_of_many()
    before, life = seen(twin), life_goes_on(twin)
    all_lines, hub = Tracer(), few_of_many()
    all_lines.run(lambda: engine.compact_words(hub._state))
    assert all_lines.n_events > 50

    found = set()
    for nth in range(1, all_lines.n_events, 5):
        hub, tracer = few_of_many(), Tracer(nth, again)
        assert (False, None) == tracer.run(lambda hub=hub: engine.compact_words(hub._state))
        len(hub)  # makes good what was torn while it was made good
        state = hub._state
        assert state.topk.index is state.index, tracer.places
        assert state.topk.words.known is state.words, tracer.places
        found.add(len(state.words))
        assert before == seen(hub), tracer.places
        if nth % 4 == 1:
            assert life == life_goes_on(hub), tracer.places
    assert {3, 33} == found


def test_without_memory_for_a_second_index_the_words_stay(monkeypatch):
    """To subscribe is still possible, and nobody tries again before the table has doubled."""
    hub = few_of_many()
    tried = []

    def no_memory(*_):
        tried.append(1)
        raise MemoryError

    monkeypatch.setattr(type(hub._state.index), "insert", no_memory)
    engine.compact_words(hub._state)
    monkeypatch.undo()
    monkeypatch.setattr(upkeep, "SPARE_WORDS", 12)
    hub.subscribe_many([Within("n1", "new1"), Within("n2", "new2")])

    assert [1] == tried
    assert 35 == hub.stats()["words"]


def test_the_index_that_is_left_merges_no_more():
    """Its thread has come to its end, and a closed hub has no other."""
    hub = made("trigger:delta_rows=1", window=5)
    with hub:
        for number in range(60):
            hub.subscribe(Within(number, f"tea word{number}"))
            if number % 2:
                hub.subscribe(TopK(f"t{number}", f"soup word{number}", (0, 0)))
            for id_ in list(hub)[:-4]:
                hub.unsubscribe(id_)

    assert hub.stats()["words"] < 40
    assert [] == [thread for thread in threading.enumerate() if thread.name == "nearcast-merge"]


def test_a_fork_waits_for_the_lock_of_the_index_there_is():
    """The lock of the index is asked for when that of the hub is held: until then another index may come."""
    hub = few_of_many()
    locks = hub._locks()
    first = next(locks)
    engine.compact_words(hub._state)

    assert [hub._lock, hub._state.index.lock] == [first, *locks]


@pytest.mark.parametrize("name", [info.name for info in available()])
def test_every_index_gives_an_empty_one_of_its_kind(name):
    """With the options it was made with, those of top-k subscriptions too."""
    info = next(each for each in available() if each.name == name)
    numbers = {key: value // 2 for key, value in info.options.items() if type(value) is int}
    given = ",".join(f"{key}={value}" for key, value in numbers.items())
    index = create(f"{name}:{given}", Hub("plane").space)
    empty = index.empty()

    assert (type(index), index.space, index._options) == (type(empty), empty.space, empty._options)
    assert index.topk_options == empty.topk_options
    assert numbers.items() <= (empty._options | empty.topk_options).items()
