"""Compares what clients were told with what is relevant at their true places, by brute force over all live messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast.bench.answers import AnswersDiffer
from nearcast.bench.moving.protocols.server import ToldChanges
from nearcast.indexes import create

if TYPE_CHECKING:
    from nearcast.bench.moving.protocols.scene import Rows, Scene
    from nearcast.bench.moving.protocols.simulation import Timestamp

_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


class TellingAudit:
    """What some clients hold, from the results they were sent: nothing twice, nothing missing, nothing too much."""

    def __init__(self, scene: Scene, clients: Rows):
        self._scene, self._clients = scene, clients
        self._n = max(len(scene.messages), 1)
        #: client · messages + message, ascending.
        self._held = np.zeros(0, np.int64)

    def check(self, name: str, moment: Timestamp) -> None:
        """Take the results of a timestamp; `AnswersDiffer` unless these clients hold what is relevant at it."""
        self.take(name, moment)
        t = moment.number
        expected = relevant_pairs(self._scene, self._clients, t)
        if not np.array_equal(expected, self._held):
            missing, extra = np.setdiff1d(expected, self._held), np.setdiff1d(self._held, expected)
            raise AnswersDiffer(
                f"timestamp {t}: {name} misses {len(missing)} relevant messages and holds {len(extra)} others (client,"
                f" message: {self._pairs(missing)}, {self._pairs(extra)}); no times are reported"
            )

    def take(self, name: str, moment: Timestamp) -> None:
        """Take the results of a timestamp; `AnswersDiffer` if one is told twice, or goes out that was not held."""
        t = moment.number
        expires = self._scene.messages.expires
        self._held = self._held[expires[self._held % self._n] > self._scene.times[t]]
        mine = np.isin(moment.told.client, self._clients)
        key = moment.told.client[mine] * self._n + moment.told.message[mine]
        enters = moment.told.enters[mine] == 1
        came, went = np.unique(key[enters]), np.unique(key[~enters])
        is_twice = len(came) + len(went) != len(key) or np.isin(came, self._held).any()
        if is_twice or not np.isin(went, self._held).all():
            raise AnswersDiffer(f"timestamp {t}: {name} tells a result twice, or what was not held went out")
        self._held = np.union1d(np.setdiff1d(self._held, went), came)

    def _pairs(self, keys: Rows) -> list[tuple[int, int]]:
        return [divmod(key, self._n) for key in keys[:3].tolist()]


def relevant_pairs(scene: Scene, clients: Rows, t: int) -> Rows:
    """Return client · messages + message of all that is relevant at a timestamp, ascending, as `scan` says."""
    index = create("scan", scene.space)
    index.insert(scene.clients_at(clients, scene.x[t, clients], scene.y[t, clients]))
    rows = np.flatnonzero(scene.messages.expires[: scene.batch_start[t + 1]] > scene.times[t])
    found = index.match(scene.messages.take(rows))
    return np.sort(clients[found.slots] * max(len(scene.messages), 1) + rows[found.rows()])


def digest(told: ToldChanges) -> int:
    """Return a hash of 64 bits of results in any order."""
    value = (told.client.astype(np.uint64) * _MIX[0]) ^ (told.message.astype(np.uint64) + _MIX[1])
    value = (value ^ (value >> np.uint64(29))) * _MIX[2] + told.enters.astype(np.uint64)
    value = (value ^ (value >> np.uint64(31))) * _MIX[0]
    return int(np.add.reduce(value ^ (value >> np.uint64(32)), dtype=np.uint64))
