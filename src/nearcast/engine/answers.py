"""Changes of top-k lists as deliveries, with the numbers of their steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nearcast.deliveries import ChangeDeliveries, Piece

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.engine.state import State
    from nearcast.topk.events import Events


def step_after(state: State, n: int, steps: NDArray[np.int64] | None = None) -> int:
    """Return the number of the step that follows n changes; without a window or a lifetime, changes are no steps."""
    if steps is not None:
        return int(steps.max(initial=state.next_step - 1)) + 1
    return state.next_step + n if state.has_steps else state.next_step


def pieces_of(state: State, events: Events, version: str, steps: NDArray[np.int64] | None = None) -> list[Piece]:
    """Return changes of top-k lists that no message caused; their steps are given, or counted from the next one."""
    assert state.topk is not None
    return pieces_named(state, events, state.topk.names(events.row), state.now, version, steps)


def pieces_named(
    state: State,
    events: Events,
    named: tuple[NDArray[np.object_], NDArray[np.int64]],
    now: int,
    version: str,
    steps: NDArray[np.int64] | None = None,
) -> list[Piece]:
    """Return the same at this time, `named` being the ids of the messages and the steps at which they arrived."""
    n = len(events)
    if not n:
        return []
    return [
        ChangeDeliveries(
            steps=state.next_step + events.step if steps is None else steps[events.step],
            times=np.full(n, now),
            slots=events.slot,
            message_ids=named[0],
            message_numbers=named[1],
            scores=events.score,
            ranks=events.rank,
            enters=events.enters,
            cause_ids=np.full(n, None, object),
            ids=state.ids.snapshot(),
            version=version,
        )
    ]
