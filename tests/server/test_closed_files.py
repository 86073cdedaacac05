"""Files of a server that are closed while somebody is at them: nobody waits for ever, and nothing is cut off."""

import threading

import pytest

from nearcast.durable import Retention
from nearcast.errors import HubStopped
from nearcast.server.server_db import ServerDb
from nearcast.server.tokens import TokenStore
from nearcast.server.upkeep import TenantUpkeep
from support.waiting import PATIENCE_S, join


def test_a_write_after_the_end_is_refused(tmp_path):
    """What was asked for before it is on disk."""
    db = ServerDb(tmp_path / "server.db")
    before = db.write(lambda _: 1)
    db.close()
    assert 1 == before.result(PATIENCE_S)
    after = db.write(lambda _: 2)
    assert after.done()
    with pytest.raises(HubStopped):
        after.result()


def test_writes_beside_the_end_are_all_answered(tmp_path):
    """Done or refused: a thread that waits for an answer would keep the process from ending."""
    db, answers = ServerDb(tmp_path / "server.db"), []

    def write():
        while not answers or not answers[-1].done() or answers[-1].exception() is None:
            answers.append(db.write(lambda _: None))

    writing = threading.Thread(target=write, daemon=True)
    writing.start()
    db.close()
    join(writing)
    for answer in answers:
        assert answer.exception(PATIENCE_S) is None or isinstance(answer.exception(), HubStopped)


@pytest.mark.parametrize("lock", ["_lock", "_finding"])
def test_tokens_are_not_closed_under_who_reads_them(tmp_path, lock):
    """Their end waits for the reader."""
    store = TokenStore(tmp_path / "tokens.db")
    store.create("default", ["publish"])
    with getattr(store, lock):
        closing = threading.Thread(target=store.close, daemon=True)
        closing.start()
        closing.join(0.05)
        assert closing.is_alive()
    join(closing)
    store.close()  # once more is nothing


class _Hub:
    def forget_erased(self, _):
        pass


def test_the_end_waits_for_upkeep_that_is_under_way():
    """And what it had not begun it does not begin."""
    begun, released, later = threading.Event(), threading.Event(), []

    def sweep(_):
        begun.set()
        assert released.wait(PATIENCE_S)

    upkeep = TenantUpkeep(_Hub(), [], Retention("7d"), [sweep, later.append])
    working = threading.Thread(target=upkeep.once, args=[0.0], daemon=True)
    working.start()
    assert begun.wait(PATIENCE_S)
    closing = threading.Thread(target=upkeep.close, daemon=True)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    released.set()
    join(working)
    join(closing)
    assert [] == later
