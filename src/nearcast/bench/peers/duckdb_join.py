"""DuckDB: a hash join of the messages' words with the rarest word of each subscription."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nearcast.bench.peers.contract import Pairs, Peer, PeerSettings, TimedPairs, timed, timed_singly
from nearcast.bench.peers.workload import WordNumbers

if TYPE_CHECKING:
    from nearcast.bench.peers.workload import BoxSubscriptions, PointMessages

_MATCH = """
SELECT m.id AS message, s.id AS subscription
FROM (SELECT id, x, y, words, unnest(words) AS word FROM messages) m JOIN subscriptions s ON s.rarest = m.word
WHERE m.x BETWEEN s.x_min AND s.x_max AND m.y BETWEEN s.y_min AND s.y_max AND list_has_all(m.words, s.words)
"""
#: A single message goes in as parameters, which took a third of the time that a table of one row and a join took.
_MATCH_ONE = """
SELECT id FROM subscriptions
WHERE $x BETWEEN x_min AND x_max AND $y BETWEEN y_min AND y_max
AND rarest IN (SELECT unnest($words)) AND list_has_all($words, words)
"""


class DuckDbPeer(Peer):
    """An analytical database in this process, with one thread; it has no index for such questions, but fast joins."""

    name = "duckdb"
    about = "a hash join on the rarest word, in this process"

    def __init__(self, settings: PeerSettings) -> None:
        super().__init__(settings)
        self._connection: Any = None
        self._numbers: WordNumbers | None = None

    def why_missing(self) -> str | None:
        """Return how to install it, None if it is there."""
        return why_no_duckdb()

    def version(self) -> str:
        """Return the version of DuckDB."""
        import duckdb

        return f"DuckDB {duckdb.__version__}"

    def load(self, subscriptions: BoxSubscriptions) -> float:
        """Make a table of numbers for words, with the rarest of each row in a column of its own."""
        began = time.perf_counter()
        self._connection = one_thread()
        self._numbers = numbers = WordNumbers(subscriptions)
        sides = dict(zip(("x_min", "y_min", "x_max", "y_max"), subscriptions.box.T.copy(), strict=True))
        columns = {"id": np.arange(len(subscriptions)), "rarest": numbers.rarest(), **sides}
        table = pa.table(columns | {"words": numbers.of_subscriptions.to_arrow()})
        self._connection.register("given", table)
        self._connection.execute("CREATE TABLE subscriptions AS SELECT * FROM given")
        self._connection.unregister("given")
        return time.perf_counter() - began

    def match(self, messages: PointMessages, *, singly: bool) -> TimedPairs:
        """Join a table of messages with the subscriptions, or filter these for each message."""
        return timed_singly(messages, self._found_one) if singly else timed(lambda: self._found(messages))

    def close(self) -> None:
        """Close the database."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _found(self, messages: PointMessages) -> Pairs:
        assert self._numbers is not None
        words = self._numbers.of_messages(messages.words).to_arrow()
        x, y = messages.place.T.copy()
        columns = {"id": np.arange(len(messages)), "x": x, "y": y, "words": words}
        self._connection.register("messages", pa.table(columns))
        found = self._connection.execute(_MATCH).fetchnumpy()
        return Pairs(found["message"], found["subscription"])

    def _found_one(self, message: PointMessages) -> Pairs:
        assert self._numbers is not None
        (words,) = self._numbers.of_messages(message.words).lists()
        (x, y), *_ = message.place.tolist()
        found = self._connection.execute(_MATCH_ONE, {"x": x, "y": y, "words": words}).fetchnumpy()["id"]
        return Pairs(np.zeros(len(found), np.int64), found)


def why_no_duckdb() -> str | None:
    """Return how to install DuckDB, None if it is there."""
    try:
        import duckdb  # noqa: F401  (asked for only to see whether it is there)
    except ImportError:
        return "DuckDB is not installed: pip install 'nearcast[bench]'"
    return None


def one_thread() -> Any:
    """Return a new database in memory that uses one core, as all peers do."""
    import duckdb

    return duckdb.connect(":memory:", config={"threads": 1})
