"""DuckDB as a top-k peer: a window of messages in tables, from which all top-k answers are computed again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.bench.peers.duckdb_join import one_thread
from nearcast.geo import EARTH_RADIUS_M

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.text import Vocabulary

#: The score of a top-k subscription, as `nearcast.similarity` defines it: the cosine of tf-idf vectors, and nearness.
_ANSWERS = """
WITH common AS (
    SELECT s.id AS subscription, m.number, sum(s.weight * s.weight * m.tf) AS product
    FROM asked_words s JOIN said_words m USING (word) WHERE s.id < $n GROUP BY ALL),
scored AS (
    SELECT c.subscription, c.number, s.k,
        s.text_weight * least(1.0, c.product / sqrt(s.squared * m.squared))
        + (1 - s.text_weight) * greatest(0.0, 1 - {distance} / s.max_distance) AS score
    FROM common c JOIN asked s ON s.id = c.subscription JOIN said m ON m.number = c.number)
SELECT subscription, number, score FROM scored
QUALIFY row_number() OVER (PARTITION BY subscription ORDER BY score DESC, number DESC) <= k
"""
_PLANE = "sqrt((s.x - m.x) ** 2 + (s.y - m.y) ** 2)"
_EARTH = f"""{2 * EARTH_RADIUS_M!r} * asin(least(1.0, sqrt(sin(radians(m.y - s.y) / 2) ** 2
    + cos(radians(s.y)) * cos(radians(m.y)) * sin(radians(m.x - s.x) / 2) ** 2)))"""
_PLACES = {"plane": ("x", "y", "max_distance"), "earth": ("lon", "lat", "max_distance_m")}


class DuckDbTopk:
    """Top-k subscriptions and a sliding window of messages; nothing is kept between answers.

    Messages are numbered as they come, from 0 on; `arrived` of them have.
    """

    def __init__(self, subscriptions: pa.Table, vocabulary: Vocabulary, space: str, window: int) -> None:
        self._x, self._y, reach = _PLACES[space]
        self._window, self.arrived = window, 0
        self._vocabulary = vocabulary
        self._numbers: dict[str, int] = {}
        self._connection = one_thread()
        self._query = _ANSWERS.format(distance=_EARTH if space == "earth" else _PLANE)
        n = subscriptions.num_rows
        words, squared = self._words(pc.split_pattern(subscriptions["query"].combine_chunks(), " "), np.arange(n))
        columns = {"id": np.arange(n), "x": subscriptions[self._x], "y": subscriptions[self._y], "squared": squared}
        columns |= {name: subscriptions[name] for name in ("text_weight", "k")} | {"max_distance": subscriptions[reach]}
        self._create("asked", pa.table(columns))
        self._create("asked_words", words.rename_columns(["id", "word", "weight", "tf"]))

    def add(self, messages: pa.Table) -> None:
        """Take messages in, and drop those that leave the window."""
        first, self.arrived = self.arrived, self.arrived + messages.num_rows
        number = np.arange(first, self.arrived)
        words, squared = self._words(messages["terms"].combine_chunks(), number)
        said = {"number": number, "x": messages[self._x], "y": messages[self._y], "squared": squared}
        for name, table in (("said", pa.table(said)), ("said_words", words)):
            if first:
                self._insert(name, table)
                self._connection.execute(f"DELETE FROM {name} WHERE number < {self.arrived - self._window}")
            else:
                self._create(name, table)

    def answers(self, n: int) -> dict[str, NDArray[Any]]:
        """Return `subscription`, `number` of the message and `score` of all answers of the first `n` subscriptions."""
        found: dict[str, NDArray[Any]] = self._connection.execute(self._query, {"n": n}).fetchnumpy()
        return found

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def _words(self, lists: pa.ListArray, owner: NDArray[np.int64]) -> tuple[pa.Table, NDArray[np.float64]]:
        """Return a row for each word of each owner, with its weight and count, and the squared length of each owner."""
        row = np.repeat(np.arange(len(lists)), lists.value_lengths().to_numpy())
        coded = lists.flatten().dictionary_encode()
        there = coded.dictionary.to_pylist()
        number = np.array([self._numbers.setdefault(word, len(self._numbers)) for word in there], np.int64)
        weight = np.asarray(self._vocabulary.idf(there), np.float64)
        pairs, tf = np.unique((row << 32) | coded.indices.to_numpy(), return_counts=True)
        row, code = pairs >> 32, pairs & ((1 << 32) - 1)
        squared = np.bincount(row, (weight[code] * tf) ** 2, minlength=len(lists)).astype(np.float64)
        columns = {"number": owner[row], "word": number[code], "weight": weight[code], "tf": tf}
        return pa.table(columns), squared

    def _create(self, name: str, table: pa.Table) -> None:
        self._connection.register("given", table)
        self._connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        self._connection.unregister("given")

    def _insert(self, name: str, table: pa.Table) -> None:
        self._connection.register("given", table)
        self._connection.execute(f"INSERT INTO {name} SELECT * FROM given")
        self._connection.unregister("given")
