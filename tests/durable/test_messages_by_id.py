"""Kept messages by id: found by an index, whatever the ids are, in memory and in files, old ones as well."""

import numpy as np
import pyarrow as pa
import pytest

from nearcast.durable import DurableHub
from nearcast.durable.outbox import run_files
from nearcast.durable.outbox.id_hashes import hash_of, hashes_of
from nearcast.durable.outbox.kept_messages import MessageCache
from nearcast.durable.outbox.runs import LATER_COLUMNS

TEA = {"id": "tea", "query": "tea", "lon": 13.4, "lat": 52.5, "radius_m": 800}


def _message(message_id, **more):
    return {"id": message_id, "text": "tea", "lon": 13.4, "lat": 52.5, **more}


def _counted_reads(monkeypatch):
    """Return a list that grows by the input of each table that is read."""
    reads, input_of = [], MessageCache.input_of
    monkeypatch.setattr(MessageCache, "input_of", lambda self, run, at: (reads.append(at), input_of(self, run, at))[1])
    return reads


@pytest.fixture
def hub(tmp_path):
    with DurableHub(tmp_path / "hub", "earth") as found:
        found.subscribe(TEA, subscriber="anna")
        yield found


def test_a_message_is_read_from_its_own_input(hub, monkeypatch):
    """Of forty inputs one is read; of an id that nobody had, none. The newest of those with an id is found."""
    for n in range(40):
        hub.publish(_message(f"m{n % 30}", n=n))
        if n == 20:
            hub._outbox.flush()
    reads = _counted_reads(monkeypatch)
    found = [hub.kept_message(f"m{n}").attributes["n"] for n in (0, 9, 10, 25)]
    assert ([30, 39, 10, 25], 4) == (found, len(reads))
    assert hub.kept_message("nobody") is None
    assert 4 == len(reads)


def test_ids_of_all_kinds(hub):
    """Text and integers of the same digits are two, rejected rows are none, and merged files keep their index."""
    hub.publish_many([_message("5", n=1), _message("", n=2), _message("ü" * 300, n=3)])
    hub.publish_many([_message(5, n=4), _message(-7, n=5, lat=95), _message(6, n=6)])
    table = pa.Table.from_pylist([_message("a", n=7), _message("b", n=8)])
    at = table.schema.get_field_index("id")
    hub.publish_many(table.set_column(at, "id", table["id"].dictionary_encode()))
    asked = ["5", "", "ü" * 300, 5, -7, 6, "a", "b"]

    def found():
        return [None if each is None else each.attributes["n"] for each in map(hub.kept_message, asked)]

    assert [1, 2, 3, 4, None, 6, 7, 8] == found()
    hub._outbox.flush()
    for n in range(3):
        hub.publish(_message(f"x{n}"))
        hub._outbox.flush()
    hub._outbox.tidy(0)
    assert [True] == [run.is_indexed for run in hub._outbox.runs()]
    assert [1, 2, 3, 4, None, 6, 7, 8] == found()


def test_a_file_of_an_earlier_version_is_searched_through(tmp_path, monkeypatch):
    """It has no index, nor has what it is merged into; its messages are found all the same."""
    pieces = run_files._pieces
    known = {name: kind for name, kind in run_files.COLUMNS.items() if name not in LATER_COLUMNS}

    def as_earlier(run):
        with monkeypatch.context() as patched:
            patched.setattr(run_files, "COLUMNS", known)
            return pieces(run)

    with monkeypatch.context() as patched, DurableHub(tmp_path / "hub", "earth") as hub:
        patched.setattr(run_files, "_pieces", as_earlier)
        hub.subscribe(TEA, subscriber="anna")
        hub.publish(_message("old", n=1))
        hub._outbox.flush()
        hub.close()
    with DurableHub.open(tmp_path / "hub") as hub:
        for n in range(3):
            hub.publish(_message("new", n=n))
            hub._outbox.flush()
        assert [False, True, True, True] == [run.is_indexed for run in hub._outbox.runs()]
        assert [1, 2] == [hub.kept_message(each).attributes["n"] for each in ("old", "new")]
        hub._outbox.tidy(0)
        assert [False] == [run.is_indexed for run in hub._outbox.runs()]
        assert [1, 2] == [hub.kept_message(each).attributes["n"] for each in ("old", "new")]


def test_hashes():
    """Of a column as of each id alone; ids that differ little differ in them."""
    ids = ["", "a", "b", "ab", "ba", "aa", "\x01", "\x01\x01", "x" * 1000, "x" * 1001, *map(str, range(2000))]
    found = hashes_of([pa.chunked_array([pa.array(ids[:5]), pa.array(ids[5:])])])
    assert [hash_of(each) for each in ids[:20]] == found[:20].tolist()
    assert len(ids) == len(np.unique(found))
    assert hash_of(-17) == hash_of("-17") == hashes_of([pa.chunked_array([pa.array([-17])])])[0]
