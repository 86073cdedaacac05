"""PostgreSQL with PostGIS: a GiST index on the regions, and arrays of words compared by `<@`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.bench.peers.contract import Pairs, Peer, PeerFailed, PeerSettings, TimedPairs, timed
from nearcast.bench.peers.postgres_server import PostgresServer, has_extension, programs, why_no_server
from nearcast.bench.peers.workload import WordNumbers

if TYPE_CHECKING:
    from nearcast.bench.peers.workload import BoxSubscriptions, PointMessages

#: Words are numbers: int4[] is compared faster than text[], and a client can number them as well.
_TABLES = """
CREATE UNLOGGED TABLE given (id int4, words int4[], x_min float8, y_min float8, x_max float8, y_max float8);
CREATE UNLOGGED TABLE subscriptions (id int4, words int4[], region geometry);
CREATE TEMPORARY TABLE messages (id int4, words int4[], x float8, y float8);
"""
_FILL = """
INSERT INTO subscriptions SELECT id, words, ST_MakeEnvelope(x_min, y_min, x_max, y_max) FROM given ORDER BY id;
DROP TABLE given;
"""
#: GIN on the words as well made it slower: the planner reads all rows with any of the words, which are ten thousands.
_INDEX = "CREATE INDEX ON subscriptions USING gist (region)"
_MATCH_TABLE = """
SELECT m.id, s.id FROM messages m JOIN subscriptions s
ON ST_Intersects(s.region, ST_Point(m.x, m.y)) AND s.words <@ m.words
"""
_MATCH_ONE = "SELECT id FROM subscriptions WHERE ST_Intersects(region, ST_Point(%s, %s)) AND words <@ %s::int4[]"


class PostgisPeer(Peer):
    """A database server of our own on a unix socket; all messages go in by COPY, a single one as parameters."""

    name = "postgis"
    about = "GiST on the regions, words by <@; a server on a unix socket"

    def __init__(self, settings: PeerSettings) -> None:
        super().__init__(settings)
        self._server: PostgresServer | None = None
        self._connection: Any = None
        self._numbers: WordNumbers | None = None

    def why_missing(self) -> str | None:
        """Return what is not installed: the driver, the server, or its extension."""
        try:
            import psycopg  # noqa: F401  (asked for only to see whether it is there)
        except ImportError:
            return "psycopg is not installed: pip install 'nearcast[bench]'"
        why = why_no_server()
        if why is not None:
            return why
        folder = programs()
        assert folder is not None
        if not has_extension(folder, "postgis"):
            return f"PostGIS is not installed for the server in {folder}: Debian has it as postgresql-*-postgis-3"
        return None

    def version(self) -> str:
        """Return the versions of server, extension and driver; starts the server."""
        import psycopg

        with _failures():
            self._start()
            (server,) = self._connection.execute("SHOW server_version").fetchone()
            (extension,) = self._connection.execute("SELECT PostGIS_Lib_Version()").fetchone()
        return f"PostgreSQL {server.split()[0]}, PostGIS {extension}, psycopg {psycopg.__version__}"

    def load(self, subscriptions: BoxSubscriptions) -> float:
        """COPY the rows, make their regions, and index them."""
        with _failures():
            self._start()
            began = time.perf_counter()
            self._numbers = numbers = WordNumbers(subscriptions)
            run = self._connection.execute
            run(_TABLES)
            rows = zip(numbers.of_subscriptions.lists(), subscriptions.box.tolist(), strict=True)
            columns = "id, words, x_min, y_min, x_max, y_max"
            self._copy(f"given ({columns})", ((row, words, *box) for row, (words, box) in enumerate(rows)))
            for statement in (_FILL, _INDEX, "ANALYZE subscriptions"):
                run(statement)
            return time.perf_counter() - began

    def match(self, messages: PointMessages, *, singly: bool) -> TimedPairs:
        """Join a table of messages with the subscriptions, or ask a prepared statement for each message."""
        with _failures():
            return self._singly(messages) if singly else timed(lambda: self._at_once(messages))

    def close(self) -> None:
        """Stop the server."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._server is not None:
            self._server.close()
            self._server = None

    def _start(self) -> None:
        if self._server is None:
            self._server = PostgresServer()
            self._connection = self._server.connect()
            self._connection.execute("CREATE EXTENSION postgis")

    def _copy(self, into: str, rows: Any) -> None:
        with self._connection.cursor().copy(f"COPY {into} FROM STDIN (FORMAT BINARY)") as copy:
            types = ["int4", "int4[]"] + ["float8"] * (into.count(",") - 1)
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)

    def _at_once(self, messages: PointMessages) -> Pairs:
        assert self._numbers is not None
        rows = zip(self._numbers.of_messages(messages.words).lists(), messages.place.tolist(), strict=True)
        self._connection.execute("TRUNCATE messages")
        self._copy("messages (id, words, x, y)", ((row, words, *place) for row, (words, place) in enumerate(rows)))
        found = self._connection.execute(_MATCH_TABLE, binary=True).fetchall()
        return _pairs(found)

    def _singly(self, messages: PointMessages) -> TimedPairs:
        assert self._numbers is not None
        seconds, pieces = np.empty(len(messages)), []
        cursor = self._connection.cursor(binary=True)
        for row in range(len(messages)):
            words, (x, y) = messages.words.slice(row, 1), messages.place[row].tolist()
            began = time.perf_counter()
            (said,) = self._numbers.of_messages(words).lists()
            found = cursor.execute(_MATCH_ONE, (x, y, said), prepare=True).fetchall()
            seconds[row] = time.perf_counter() - began
            pieces.append(Pairs(np.full(len(found), row), np.array([each for (each,) in found], np.int64)))
        return TimedPairs(Pairs.joined(pieces), seconds)


def _pairs(rows: list[tuple[int, int]]) -> Pairs:
    if not rows:
        return Pairs.none()
    messages, subscriptions = zip(*rows, strict=True)
    return Pairs(np.array(messages, np.int64), np.array(subscriptions, np.int64))


@contextmanager
def _failures() -> Iterator[None]:
    """Turn what the driver raises into one line."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        raise PeerFailed(f"PostgreSQL: {' '.join(str(error).split())}") from error
