"""A scene: clients that move along given places, and messages that arrive and end, timestamp by timestamp."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nearcast.columns import WITHIN
from nearcast.errors import InvalidInput
from nearcast.geo import BOX, CIRCLE, EARTH_RADIUS_M, Regions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages, Subscriptions
    from nearcast.geo import Space
    from nearcast.text.words import WordTable

    Rows = NDArray[np.int64]
    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Scene:
    """Clients with a circle each, where they are at each timestamp, and the messages that arrive at it.

    Client i listens within `radius[i]` of (`x[t, i]`, `y[t, i]`) for the query of row i of `clients`, whose regions
    play no part. Messages from `batch_start[t]` to `batch_start[t + 1]` arrive at timestamp t and live until `expires`,
    in the unit of `times`. `words` are the words of both.
    """

    space: Space
    words: WordTable
    clients: Subscriptions
    radius: Floats
    times: Rows
    x: Floats
    y: Floats
    messages: Messages
    batch_start: Rows

    def __post_init__(self) -> None:
        n, steps = len(self.clients), len(self.times)
        if self.x.shape != (steps, n) or self.y.shape != (steps, n):
            raise InvalidInput(
                f"places are {self.x.shape} and {self.y.shape}; expected {(steps, n)}: a row for each of"
                " the times, a column for each client",
                field="x",
            )
        if (self.clients.kind != WITHIN).any():
            raise InvalidInput("a client is scored; expected subscriptions of kind within", field="clients")
        if len(self.radius) != n:
            raise InvalidInput(f"there are {len(self.radius)} radii; expected one for each of {n}", field="radius")
        if len(self.batch_start) != steps + 1 or self.batch_start[-1] > len(self.messages):
            raise InvalidInput(
                f"batch_start has {len(self.batch_start)} numbers; expected {steps + 1}, up to {len(self.messages)}",
                field="batch_start",
            )

    @property
    def n_clients(self) -> int:
        """How many clients there are."""
        return len(self.clients)

    @property
    def longest(self) -> float:
        """A distance that no two places of the scene exceed."""
        if self.space.is_earth:
            return float(np.pi * EARTH_RADIUS_M)
        box = self.messages.box.reshape(-1, 4)
        xs = [each for each in (self.x.reshape(-1), box[:, 0], box[:, 2]) if each.size]
        ys = [each for each in (self.y.reshape(-1), box[:, 1], box[:, 3]) if each.size]
        width, height = (max(e.max() for e in each) - min(e.min() for e in each) if each else 0.0 for each in (xs, ys))
        return float(np.hypot(width, height))

    def sample(self, n_clients: int, n_messages: int, timestamps: int) -> Scene:
        """Return the same with the first clients, the first messages of each batch, and the first timestamps alone."""
        steps, n = min(timestamps, len(self.times)), min(n_clients, self.n_clients)
        batches = [self.batch(t)[:n_messages] for t in range(steps)]
        return replace(
            self,
            clients=self.clients.take(np.arange(n)),
            radius=self.radius[:n],
            times=self.times[:steps],
            x=np.ascontiguousarray(self.x[:steps, :n]),
            y=np.ascontiguousarray(self.y[:steps, :n]),
            messages=self.messages.take(np.concatenate(batches)),
            batch_start=np.append(0, np.cumsum([len(batch) for batch in batches])),
        )

    def batch(self, t: int) -> Rows:
        """Return the rows of the messages that arrive at a timestamp."""
        return np.arange(self.batch_start[t], self.batch_start[t + 1])

    def clients_at(self, rows: Rows, x: Floats, y: Floats) -> Subscriptions:
        """Return some clients as subscriptions to their circles around these places."""
        return self.clients.take(rows).with_regions(circles(self.space, x, y, self.radius[rows]))


def circles(space: Space, x: Floats, y: Floats, radius: Floats) -> Regions:
    """Return circles as regions; `InvalidInput` for one that cannot be."""
    values = np.zeros((len(x), 4))
    values[:, 0], values[:, 1], values[:, 2] = x, y, radius
    return _regions(space, CIRCLE, values)


def boxes(space: Space, values: Floats) -> Regions:
    """Return rectangles as regions; `InvalidInput` for one that cannot be."""
    return _regions(space, BOX, values)


def _regions(space: Space, kind: int, values: Floats) -> Regions:
    regions, faults = Regions.from_arrays(space, np.full(len(values), kind, np.uint8), values)
    if faults:
        row, field, reason = faults[0]
        raise InvalidInput(f"the region of client {row} cannot be used: {reason}", field=field)
    return regions
