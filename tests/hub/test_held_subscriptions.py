"""One subscription as an index gives it back: its ids are made late, and are there for whoever asks."""

import pickle
from dataclasses import replace

import pytest

from nearcast import Box, Hub, Within

pytestmark = [pytest.mark.modes, pytest.mark.small]


def test_ids_of_one_that_moved_are_its_slot():
    """Copies, other places and other columns keep them; the place of the original stays."""
    hub = Hub("plane")
    hub.subscribe_many([Within(id_, "tea", Box(0, 0, 1, 1)) for id_ in ("a", "b", "c")])
    hub.move("b", (3.0, 3.0))
    index = hub._state.index
    held, other = index.subscriptions([1]), index.subscriptions([0, 2])
    moved = held.with_regions(other.regions.take([0]))

    for each in (held, moved, replace(moved, min_move=None), pickle.loads(pickle.dumps(index.subscriptions([1])))):
        assert [1] == each.ids.to_pylist()
    assert [[2.5, 2.5, 3.5, 3.5]] == held.regions.part.tolist()
    assert [[0.0, 0.0, 1.0, 1.0]] == moved.regions.part.tolist()
    with pytest.raises(AttributeError, match="id"):
        _ = held.id
