"""The outbox and what disks, processes and time do to it: kills, torn and damaged files, retention, erasure."""

import os
import random
import shutil
import struct
from pathlib import Path

import pytest
from killed_worker import KilledWorker
from outbox_worker import NAMES, THREADS, lines_of

from faults.rounds import MINUTES, rounds
from nearcast import Circle, Hub, Within
from nearcast.durable import Cursor, DurableHub, Retention
from nearcast.durable.input_applier import InputApplier
from nearcast.durable.input_log import InputLog
from nearcast.durable.inputs import decoded
from nearcast.durable.outbox.outbox import Outbox
from nearcast.durable.outbox.subscribers import Subscribers
from nearcast.errors import IncompatibleStore

WORKER = Path(__file__).with_name("outbox_worker.py")
COUNT = 80


def message(number, text="tea", **more):
    return {"id": number, "text": text, "x": 0.0, "y": 0.0, **more}


def subscribed(folder, **options):
    hub = DurableHub(folder, "plane", **options)
    hub.subscribe(Within("a", "tea", Circle(0, 0, 5)), subscriber="anna")
    return hub


def by_hand(hub):
    """Return a hub whose files come and go only when a test says so."""
    hub._tidier.look = lambda _: None
    return hub


def left_open(hub, to):
    """Return a copy of the folder of a hub that is still open, as a crash would leave it."""
    with hub._outbox._tidying:
        shutil.copytree(hub._folder.path, to, ignore=shutil.ignore_patterns("lock"))
    return to


def read(hub, name="anna", after="0-0"):
    """Return cursor, delivery id and message of all events."""
    return [(each.cursor, each.delivery.delivery_id, each.message) for each in hub.events(name, after=after)]


def files(folder):
    return sorted((folder / "outbox").glob("*.run"))


# Kills


class Worker(KilledWorker):
    """A process of `outbox_worker.py`."""

    def __init__(self, folder):
        super().__init__(folder, WORKER, COUNT)

    def expected(self):
        """Return by subscriber what a hub in memory delivers, fed the whole log."""
        memory, who = Hub("plane", lifetime="expires"), Subscribers()
        outbox = Outbox(self.folder / "nowhere", Retention())
        inputs, log = InputApplier(memory, who, outbox), InputLog(self.folder / "log.db")
        got = {name: [] for name in NAMES}
        for row in log.rows(0):
            found = inputs.apply(row.number, decoded(row.data, "a row"))
            found = getattr(found, "deliveries", found)
            for each in [*(found if hasattr(found, "tables") else []), *memory.poll()]:
                got[who.of_slot(memory._state, memory._state.slot(each.subscription_id))].append(each.delivery_id)
        log.close()
        return got

    def check(self, expected):
        """Compare what waits for the subscribers with what is expected, and with what the ledger says they read."""
        lines = lines_of(self.ledger)
        with DurableHub.open(self.folder) as hub:
            for name in NAMES:
                events = hub.events(name, after="0-0", limit=10**6)
                assert 0 == events.gap
                now = {str(each.cursor): each.delivery.delivery_id for each in events}
                if expected is not None:
                    assert expected[name] == list(now.values())
                seen = [line for line in lines if line[0] == "read" and line[1] == name]
                assert all(now[cursor] == id_ for _, _, cursor, id_ in seen), "a repeat has another id"
                assert all(each.message is not None for each in events)
                acked = [Cursor.parse(line[2]) for line in lines if line[:2] == ["acked", name]]
                assert max(acked, default=Cursor(0, 0)) <= hub.acked(name)


def test_no_delivery_is_lost_or_changed_by_kills(tmp_path):
    """Killed at random moments under load: all events are there in the order of the log, repeats have equal ids."""
    worker, chance = Worker(tmp_path), random.Random(18)
    for _ in range(2):
        worker.kill_after(chance.randrange(50, 300), 1 << 30, may_end=True)
        worker.check(worker.expected())
    worker.kill_after(chance.randrange(50, 300), 20_000, may_end=True)
    worker.check(None)
    worker.run_to_its_end(20_000)
    worker.check(None)
    made = [line[1:] for line in lines_of(worker.ledger) if line[0] == "made"]
    assert [[thread, number] for thread in range(THREADS) for number in range(COUNT)] == sorted(made)


@pytest.mark.skipif(not MINUTES, reason="make test-faults")
def test_kills_at_random_for_a_while(tmp_path):
    """Many lives, each with kills at random and one of two sizes of snapshots."""
    for seed, chance, folder in rounds(tmp_path):
        print(f"outbox: life {seed}")  # noqa: T201
        worker, is_whole = Worker(folder), chance.randrange(2) == 1
        for _ in range(20):
            worker.kill_after(
                chance.randrange(1, 150), 1 << 30 if is_whole else chance.randrange(5_000, 50_000), may_end=True
            )
            worker.check(worker.expected() if is_whole else None)


# Torn and damaged files


def with_files(folder, n_messages=12):
    """Return a folder with files after its snapshot, as a crash leaves it, and what is to be read there."""
    with by_hand(subscribed(folder / "hub")) as hub:
        hub.publish(message(100))
        hub.snapshot()
        for number in range(n_messages):
            hub.publish(message(number))
            if number % 4 == 3:
                hub._outbox.flush()
        return left_open(hub, folder / "crashed"), read(hub)


def test_a_torn_file_is_made_again(tmp_path):
    """Wherever it ends, whichever byte of it is wrong, and the files after it as well."""
    folder, expected = with_files(tmp_path)
    assert 4 == len(files(folder))
    for at in (1, 3):
        size = files(folder)[at].stat().st_size
        for place in (6, 200, size // 2, size - 1):
            for tear in (_cut, _flip):
                copy = tmp_path / f"{at}-{place}-{tear.__name__}"
                shutil.copytree(folder, copy)
                tear(files(copy)[at], place)
                with DurableHub.open(copy) as hub:
                    assert expected == read(hub)
                    assert len(files(copy)) <= at


def _cut(path, place):
    os.truncate(path, place)


def _flip(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 4
    path.write_bytes(data)


def test_what_a_crash_left_of_a_merge_does_no_harm(tmp_path):
    """The merged file beside its parts, and one that was not finished."""
    with by_hand(subscribed(tmp_path / "hub")) as hub:
        for number in range(4):
            hub.publish(message(number))
            hub._outbox.flush()
        expected, before = read(hub), left_open(hub, tmp_path / "before")
        hub._outbox.tidy(0)
        assert 1 == len(files(tmp_path / "hub"))
        for path in files(before):
            shutil.copy(path, tmp_path / "hub" / "outbox")
        shutil.copy(path, path.parent / f".{path.name}.1.ab")
        crashed = left_open(hub, tmp_path / "crashed")
    for folder, n_files in ((crashed, 1), (before, 4)):
        with by_hand(DurableHub.open(folder)) as hub:
            assert expected == read(hub)
            assert n_files == len(list((folder / "outbox").iterdir()))


def test_damage_before_a_snapshot_is_made_again_from_an_older_one_or_refused_by_name(tmp_path):
    """A snapshot stands on files that were synced; the log goes back to the one before it."""
    with subscribed(tmp_path / "hub") as hub:
        hub.snapshot()
        hub.publish(message(1))
        hub.snapshot()
        hub.publish(message(2))
        expected, folder = read(hub), left_open(hub, tmp_path / "crashed")
        hub.snapshot()
        trimmed = left_open(hub, tmp_path / "trimmed")
    for each in (folder, trimmed):
        _cut(files(each)[0], 300)
    with DurableHub.open(folder) as hub:
        assert expected == read(hub)
    with pytest.raises(IncompatibleStore, match=r"outbox/.*\.run is damaged: it was cut off"):
        DurableHub.open(trimmed)


# Retention


def test_what_is_dropped_by_the_retention_is_told_as_a_gap(tmp_path):
    """By bytes and by age; from the last acknowledgement on, also after a restart."""
    hub = by_hand(subscribed(tmp_path / "hub", retention=Retention(age="1h", bytes=None)))
    hub.subscribe(Within("b", "soup", Circle(0, 0, 5)), subscriber="ben")
    for number in range(6):
        hub.publish(message(number, time=f"2026-01-01T00:{number:02d}:00Z"))
        hub._outbox.flush()
    cursors = [cursor for cursor, *_ in read(hub)]
    hub.ack("anna", cursors[1])
    hub.publish(message(9, "soup", time="2026-01-01T01:03:30Z"))
    hub._outbox.tidy(hub._state.now)
    for _ in range(2):
        assert [cursors[4], cursors[5]] == [each.cursor for each in hub.events("anna")]
        assert (2, 4) == (hub.events("anna").gap, hub.events("anna", after="0-0").gap)
        assert (0, 0) == (hub.events("anna", after=cursors[3]).gap, hub.events("anna", after=cursors[4]).gap)
        assert (0, 1) == (hub.events("ben").gap, len(hub.events("ben")))
        outbox = hub.stats()["outbox"]
        assert (4, 2) == (outbox["dropped"], outbox["dropped_unacknowledged"])
        hub.close()
        hub = by_hand(DurableHub(tmp_path / "hub", "plane", retention=Retention(age=None, bytes=1)))
    hub.publish(message(10))
    hub._outbox.flush()
    hub._outbox.tidy(hub._state.now)
    assert ([], 5) == (list(hub.events("anna")), hub.events("anna").gap)
    hub.ack("anna", hub.events("anna").cursor)
    hub.close()


def test_a_retention_that_cannot_be_is_refused(tmp_path):
    """With what was given, and what was expected."""
    for options, said in (({"age": "soon"}, "age is 'soon'"), ({"bytes": 0}, "bytes is 0"), ({"age": 3}, "age is 3")):
        with pytest.raises(ValueError, match=said):
            Retention(**options)


# Erasure


def names_in(folder, wanted):
    """Return the files below a folder that hold these bytes."""
    return [
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and wanted in path.read_bytes()
    ]


@pytest.mark.parametrize("is_reopened", [False, True])
def test_nothing_of_an_erased_subscriber_is_on_disk_after_the_retention(tmp_path, is_reopened):
    """Neither name nor ids, words and places: not in the log, nor in snapshots, nor in the outbox."""
    folder, options = tmp_path / "hub", {"retention": Retention(age=None, bytes=1)}
    hub = subscribed(folder, **options)
    place = 1234.0625
    hub.subscribe(Within("hidden-id", "hidden OR tea", Circle(place, 0, 5)), subscriber="hidden-name")
    hub.publish(message(1) | {"x": place})
    assert 1 == len(hub.events("hidden-name"))
    hub.ack("hidden-name", hub.events("hidden-name").cursor)
    hub.snapshot()
    assert {"log.db", "outbox", "snapshots"} <= {
        path.split("/")[0].removesuffix("-wal") for path in names_in(folder, b"hidden")
    }
    assert 1 == hub.erase("hidden-name")
    for number in range(2, 5):
        hub.publish(message(number))
        hub.snapshot()
        if is_reopened:
            hub.close()
            hub = DurableHub(folder, "plane", **options)
    hub._outbox.tidy(0)
    assert [] == names_in(folder, b"hidden")
    assert [] == [path for path in names_in(folder, struct.pack("<d", place)) if not path.startswith("log.db")]
    assert ["a"] == list(hub)
    assert 1 == len(hub.publish(message(9)))
    hub.close()
