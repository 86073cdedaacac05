"""Deliveries that wait for their subscribers: what they read is what a hub in memory would have delivered to them."""

import random
import shutil

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nearcast import Circle, Hub, Message, Similar, TopK, Within
from nearcast.durable import Cursor, DurableHub
from nearcast.errors import FutureCursor, HubStopped, InvalidInput, InvalidSubscription
from support.hub_calls import call_lists, fields_of, one_of_each_kind, prepared

OPTIONS = {"window": 3, "lifetime": "5s", "max_ahead": "6s", "tell_expiry": True}
NAMES = ["anna", "ben", None]


def message(number, text="tea", **more):
    return {"id": number, "text": text, "x": 0.0, "y": 0.0, **more}


def tea(id_, radius=5):
    return Within(id_, "tea", Circle(0, 0, radius))


def subscribed(folder, **options):
    hub = DurableHub(folder, "plane", **options)
    hub.subscribe(tea("a"), subscriber="anna")
    return hub


def left_open(hub, to):
    """Return a copy of the folder of a hub that is still open, as a crash would leave it."""
    with hub._outbox._tidying:  # no file comes or goes meanwhile
        shutil.copytree(hub._folder.path, to, ignore=shutil.ignore_patterns("lock"))
    return to


def all_events(hub, name, after="0-0", limit=3):
    """Return the events of a subscriber, read in portions."""
    found = []
    while portion := hub.events(name, after=after, limit=limit):
        assert 0 == portion.gap
        found += portion
        after = portion.cursor
    return found


# The same as in memory


class Memory:
    """A hub in memory, and what it delivers to whom by a dictionary of subscribers."""

    def __init__(self, **options):
        self.hub = Hub("plane", **options)
        self.owner, self.got = {}, {name: [] for name in NAMES}

    def make(self, method, arguments, name):
        """Make a call; return whether it raised nothing."""
        try:
            found = getattr(self.hub, method)(*arguments)
        except Exception as error:  # noqa: BLE001  the durable hub raises the same
            return type(error)
        if method == "subscribe":
            self.owner[arguments[0].id] = name
        if method == "subscribe_many":
            rejected = {row.row for row in found}
            ids = arguments[0]["id"].to_pylist() if isinstance(arguments[0], pa.Table) else None
            ids = ids or [getattr(each, "id", None) for each in arguments[0]]
            self.owner.update({id_: name for row, id_ in enumerate(ids) if row not in rejected})
        for each in [*(found if hasattr(found, "tables") else []), *self.hub.poll()]:
            self.got[self.owner.get(each.subscription_id)].append(fields_of(each))
        return None

    def expected(self, name):
        return self.got[name]


class Life:
    """A durable hub that is closed, crashes, takes snapshots and merges files between its calls."""

    def __init__(self, folder, **options):
        self.folder, self.n, self.options = folder, 0, options
        self.hub = self._small(DurableHub(folder / "0", "plane", **options))

    @staticmethod
    def _small(hub):
        hub._outbox.flush_rows = 4
        return hub

    def happen(self, what):
        if what == "snapshot":
            self.hub.snapshot()
        elif what == "reopen":
            self.hub.close()
            self.hub = self._small(DurableHub.open(self.hub._folder.path))
        elif what == "crash":
            self.n += 1
            copy = left_open(self.hub, self.folder / str(self.n))
            self.hub.close()
            self.hub = self._small(DurableHub.open(copy))
        elif what == "read":
            self.hub.events("anna")


def make_in_both(life, memory, method, arguments, name):
    """Make a call in a durable hub and in one in memory, subscribing for a subscriber; both raise the same, or none."""
    options = {"subscriber": name} if method.startswith("subscribe") else {}
    raised = memory.make(method, arguments, name)
    if raised is None:
        getattr(life.hub, method)(*arguments, **options)
    else:
        with pytest.raises(raised):
            getattr(life.hub, method)(*arguments, **options)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_events_are_what_a_hub_in_memory_delivers(tmp_path_factory, data):
    """All kinds, windows, lives and changes, in any order of snapshots, kills, reopening, merges and reading."""
    life, memory = Life(tmp_path_factory.mktemp("outbox"), **OPTIONS), Memory(**OPTIONS)
    calls = [("subscribe", each) for each in one_of_each_kind(False)] + data.draw(call_lists(False, 16))
    for call in calls:
        method, *arguments = prepared(memory.hub, call)
        name = data.draw(st.sampled_from(NAMES))
        make_in_both(life, memory, method, arguments, name)
        life.hub.poll()
        life.happen(data.draw(st.sampled_from(["", "", "", "snapshot", "reopen", "crash", "read"])))
    with life.hub as hub:
        for name in ("anna", "ben"):
            found = all_events(hub, name)
            assert memory.expected(name) == [fields_of(each.delivery) for each in found]
            cursors = [each.cursor for each in found]
            assert sorted(set(cursors)) == cursors
            for each in found:
                assert each.message is not None or not hub._state.has_steps or each.kind != "match"


def test_an_event_has_its_cursor_kind_and_whole_message(tmp_path):
    """Also one that was published in a table with attributes, and after a restart."""
    hub = subscribed(tmp_path / "hub")
    (delivery,) = hub.publish(message(1, price=3, time="2026-01-01T00:00:00Z"))
    hub.publish_many(pa.table({"id": ["x", "y"], "text": ["tea", "tea"], "x": [0.0, 90.0], "y": [0.0, 0.0]}))
    for again in (False, True):
        first, second = hub.events("anna")
        assert ((0, 1), "match") == (first.cursor, first.kind)
        assert delivery == first.delivery
        assert Message(1, "tea", (0, 0), time="2026-01-01T00:00:00Z", attributes={"price": 3}) == first.message
        assert ("1-1", "x") == (str(second.cursor), second.message.id)
        assert second.cursor == hub.events("anna").cursor
        if not again:
            hub.close()
            hub = DurableHub.open(tmp_path / "hub")
    assert 90.0 == hub.kept_message("y").place[0]
    assert "x" == hub.kept_message(arrival=1).id
    assert hub.kept_message("z") is None
    hub.close()
    for read in (lambda: hub.events("anna"), lambda: hub.kept_message("y"), lambda: hub.ack("anna", "1-1")):
        with pytest.raises(HubStopped, match="was closed"):
            read()


class DenseCalls:
    """Random calls of which most deliver something: a small place, few words, and time that goes on."""

    def __init__(self, seed):
        self.chance, self.second, self.next_id, self.ends = random.Random(seed), 0, 0, {}

    def _moment(self):
        return f"2026-01-01T00:{self.second // 60:02d}:{self.second % 60:02d}Z"

    def _message(self):
        self.next_id += 1
        self.second += self.chance.randrange(2)
        self.ends[self.next_id] = self.second + 5
        place = {"x": self.chance.randrange(4) / 2, "y": 0.0}
        return {
            "id": self.next_id,
            "text": self.chance.choice(["tea", "soup", "tea soup"]),
            "time": self._moment(),
        } | place

    def _subscription(self):
        id_, at, words = self.chance.choice(["a", "b", "c", "d", 7]), (self.chance.randrange(4) / 2, 0.0), "tea"
        kind = self.chance.randrange(4)
        if kind == 0:
            return TopK(id_, words, at, k=2, max_distance=3)
        if kind == 1:
            return Similar(id_, words, at, threshold=0.3, max_distance=3)
        return Within(id_, words, Circle(*at, self.chance.choice([0.4, 1, 2])))

    def next(self):
        """Return a method, its arguments and a subscriber."""
        kind, name = self.chance.randrange(10), self.chance.choice(NAMES)
        if kind < 2:
            return "subscribe", [self._subscription()], name
        if kind < 4:
            return "publish", [self._message()], None
        if kind < 7:
            rows = [self._message() for _ in range(self.chance.randrange(1, 6))]
            return "publish_many", [[*rows, {"id": 0}] if kind == 6 else rows], None
        if kind == 7:
            return "move", [self.chance.choice("abcd"), (self.chance.randrange(4) / 2, 0.0)], None
        if kind == 8:
            rows = [{"id": id_, "x": self.chance.randrange(4) / 2, "y": 0.0} for id_ in "abcd"]
            self.second += self.chance.randrange(3)
            return "move_many", [[row | {"time": self._moment()} for row in rows]], None
        self.second += self.chance.randrange(4)
        return ("advance", [self._moment()], None) if self.chance.randrange(3) else ("unsubscribe", ["a"], None)


def kind_of(delivery, ends):
    """Return the kind of event of a delivery, by the end of its message."""
    if delivery.rank is not None:
        return "topk.added" if delivery.change == "+" else "topk.removed"
    if delivery.change == "+":
        return "enter" if delivery.cause_id is None else "match"
    return "expired" if ends[delivery.message_id] <= 60 * delivery.time.minute + delivery.time.second else "exit"


@pytest.mark.parametrize("seed", range(3))
def test_a_dense_life_is_read_as_a_hub_in_memory_delivers_it(tmp_path, seed):
    """Hundreds of events of all kinds, over kills, restarts, snapshots and merges of files."""
    life, memory, dense = Life(tmp_path, **OPTIONS), Memory(**OPTIONS), DenseCalls(seed)
    for _ in range(60):
        method, arguments, name = dense.next()
        make_in_both(life, memory, method, arguments, name)
        life.hub.poll()
        life.happen(dense.chance.choice(["", "", "", "", "", "snapshot", "reopen", "crash", "read"]))
    kinds = set()
    with life.hub as hub:
        for name in ("anna", "ben"):
            found = all_events(hub, name)
            assert memory.expected(name) == [fields_of(each.delivery) for each in found]
            assert [kind_of(each.delivery, dense.ends) for each in found] == [each.kind for each in found]
            kinds |= {each.kind for each in found}
            cursors = [each.cursor for each in found]
            assert sorted(set(cursors)) == cursors
    assert {"match", "enter", "exit", "expired", "topk.added", "topk.removed"} == kinds


# Acknowledging, and who they are


def test_events_begin_after_the_last_acknowledgement(tmp_path):
    """Which is on disk, and never goes back."""
    with subscribed(tmp_path / "hub") as hub:
        for number in range(4):
            hub.publish(message(number))
        cursors = [each.cursor for each in hub.events("anna")]
        assert Cursor(0, 0) == hub.acked("anna")
        hub.ack("anna", cursors[1])
        hub.ack("anna", str(cursors[0]))
        crashed = left_open(hub, tmp_path / "crashed")
    for folder in (tmp_path / "hub", crashed):
        with DurableHub.open(folder) as hub:
            assert cursors[1] == hub.acked("anna")
            assert cursors[2:] == [each.cursor for each in hub.events("anna")]
            assert cursors == [each.cursor for each in hub.events("anna", after="0-0")]
            assert cursors[1:3] == [each.cursor for each in hub.events("anna", after=cursors[0], limit=2)]


def test_cursors_that_cannot_be_are_refused(tmp_path):
    """One after the end of the log, and nonsense."""
    with subscribed(tmp_path / "hub") as hub:
        hub.publish(message(1))
        for wrong in (Cursor(1, 0), "7-1"):
            with pytest.raises(FutureCursor, match="the log ends before step 1"):
                hub.events("anna", after=wrong)
            with pytest.raises(FutureCursor):
                hub.ack("anna", wrong)
        for wrong in ("1", "a-b", "-1-0", 3, (1, -1), ""):
            with pytest.raises(InvalidInput, match="expected STEP-ROW"):
                hub.events("anna", after=wrong)
        with pytest.raises(InvalidInput, match="limit is 0"):
            hub.events("anna", limit=0)
        for wrong in ("", 3, "a\0", "x" * 513):
            with pytest.raises(InvalidSubscription, match="subscriber is"):
                hub.subscribe(tea("b"), subscriber=wrong)
        assert ["a"] == list(hub)


def test_subscribers_are_found_again(tmp_path):
    """As an argument, as a column, in dicts; a subscription that is replaced has the subscriber given then."""
    mixed = Hub("plane")
    mixed.subscribe_many([tea(1), tea(2)])
    mixed.subscribe(tea("z"))
    names = pa.chunked_array([["", "ben", "dora"]])
    twice = mixed.to_table().append_column("subscriber", names)
    with subscribed(tmp_path / "mixed") as hub:
        rejected = hub.subscribe_many(twice.take(pa.array([0, 1, 2, 1])))
        assert [(0, "subscriber"), (3, "id")] == [(row.row, row.field) for row in rejected]
        assert ("ben", "dora") == (hub.subscriber_of(2), hub.subscriber_of("z"))
    table = pa.table({"id": [1, 2, 3], "query": ["tea"] * 3, "subscriber": ["ben", None, ""]})
    with subscribed(tmp_path / "hub") as hub:
        rejected = hub.subscribe_many(table)
        assert [(2, "subscriber")] == [(row.row, row.field) for row in rejected]
        hub.subscribe_many(
            [{"id": 5, "query": "tea", "subscriber": "ben"}, tea(6), {"id": 7, "query": "tea", "subscriber": 3}]
        )
        hub.subscribe_many([tea("b"), tea("c")], subscriber="cleo")
        hub.subscribe(tea("b"))
        hub.snapshot()
        hub.subscribe(tea("d"), subscriber="anna")
        hub.unsubscribe(1)
        crashed = left_open(hub, tmp_path / "crashed")
    with DurableHub.open(crashed) as hub:
        assert {"a": "anna", 2: None, 5: "ben", 6: None, "b": None, "c": "cleo", "d": "anna"} == {
            id_: hub.subscriber_of(id_) for id_ in hub
        }
        assert (["a", "d"], [5], ["c"]) == tuple(map(hub.subscriptions_of, ("anna", "ben", "cleo")))
        assert ([], 0) == (hub.subscriptions_of("nobody"), len(hub.events("nobody")))
        table = hub.to_table()
        with DurableHub(tmp_path / "other", "plane") as other:
            assert 0 == len(other.subscribe_many(table))
            assert (["a", "d"], [5], ["c"]) == tuple(map(other.subscriptions_of, ("anna", "ben", "cleo")))
            other.save(tmp_path / "saved")
        saved = Hub.open(tmp_path / "saved")
        assert list(hub) == list(saved)
        assert not saved._state.by_slot


def test_a_subscriber_moves_with_all_that_can_follow(tmp_path):
    """In one input; those that listen anywhere stay, and are listed with the reason."""
    with subscribed(tmp_path / "hub", lifetime="1h") as hub:
        hub.subscribe(Within(7, "tea"), subscriber="anna")
        hub.subscribe(Similar("s", "tea", (0, 0), threshold=0.9, max_distance=3), subscriber="anna")
        hub.publish(message("far", time="2026-01-01T00:00:00Z") | {"x": 50.0})
        before = hub.stats()["log"]["inputs"]
        moved = hub.move_subscriber("anna", (50, 0))
        assert before + 1 == hub.stats()["log"]["inputs"]
        assert ["a", "s"] == [each.subscription_id for each in moved.deliveries]
        assert [7] == list(moved.stayed)
        assert "anywhere" in moved.stayed[7]
        assert ["match", "enter", "enter"] == [each.kind for each in hub.events("anna")]
        assert {} == hub.move_subscriber("nobody", (1, 1)).stayed
        expected = [hub.get(id_) for id_ in hub]
        crashed = left_open(hub, tmp_path / "crashed")
    with DurableHub.open(crashed) as hub:
        assert expected == [hub.get(id_) for id_ in hub]
        assert 0 == hub.stats()["rejected"]


def test_an_erased_subscriber_has_nothing_left(tmp_path):
    """Also when it comes back under the same name, and after a restart."""
    with subscribed(tmp_path / "hub") as hub:
        hub.subscribe(tea("b"), subscriber="ben")
        hub.publish(message(1))
        hub.publish(message(2))
        hub.ack("anna", hub.events("anna", limit=1).cursor)
        assert 1 == hub.erase("anna")
        assert 0 == hub.erase("anna")
        assert (["b"], [], 0) == (list(hub), hub.subscriptions_of("anna"), len(hub.events("anna", after="0-0")))
        hub.subscribe(tea("a"), subscriber="anna")
        hub.publish(message(3))
        crashed = left_open(hub, tmp_path / "crashed")
    for folder in (tmp_path / "hub", crashed):
        with DurableHub.open(folder) as hub:
            assert "0-0" == str(hub.acked("anna"))
            assert [3] == [each.delivery.message_id for each in hub.events("anna")]
            assert [1, 2, 3] == [each.delivery.message_id for each in hub.events("ben")]


def test_listeners_hear_who_got_something(tmp_path):
    """After each batch, with what is then there to be read; one that raises disturbs nobody."""
    heard = []
    with subscribed(tmp_path / "hub") as hub:
        hub.subscribe(tea("b", 1), subscriber="ben")
        hub.subscribe(tea("c", 1))

        def fail(names):
            raise RuntimeError(names)

        hub.on_release(fail)
        remove = hub.on_release(lambda names: heard.append([(name, len(hub.events(name))) for name in sorted(names)]))
        hub.publish(message(1))
        hub.publish(message(2) | {"x": 3.0})
        hub.publish(message(3) | {"x": 30.0})
        hub.snapshot()
        remove()
        hub.publish(message(4))
        hub.snapshot()
    assert [[("anna", 1), ("ben", 1)], [("anna", 2)]] == heard


def test_without_subscribers_there_is_no_outbox(tmp_path):
    """Nothing is kept, nothing is written."""
    with DurableHub(tmp_path / "hub", "plane") as hub:
        hub.subscribe(tea("a"))
        hub.publish(message(1))
        hub.publish_many([message(2, subscriber="is an attribute here")])
        hub.snapshot()
        assert hub.kept_message(1) is None
        assert not hub._state.by_slot
    assert not (tmp_path / "hub" / "outbox").exists()
