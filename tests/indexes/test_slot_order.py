"""The rows of slots in a segment are found by interpolation, however unevenly the slots lie."""

import numpy as np
import pytest

from nearcast.indexes.trigger.slot_order import rows_of_slots

#: Slots of rows, some with several rows, gaps and outliers on either side.
SLOTS = {
    "none": [],
    "one": [7],
    "in a row": list(range(3, 90)),
    "several rows each": [slot for slot in range(20) for _ in range(1 + slot % 4)],
    "all the same": [5] * 40,
    "with gaps": [0, 1, 2, 50, 51, 900, 901, 902, 903, 2**31 - 2],
    "crowded below": [*range(200), 2**30],
    "crowded above": [0, *range(2**30, 2**30 + 200)],
}


@pytest.mark.modes
@pytest.mark.small
@pytest.mark.parametrize("name", SLOTS)
def test_rows_of_slots_are_those_that_a_look_at_all_rows_finds(name):
    """Slot by slot as asked for, the rows of each in their order; none for slots that are not there."""
    rng = np.random.default_rng(1)
    slot = rng.permutation(np.array(SLOTS[name], np.int32))
    by_slot = np.argsort(slot, kind="stable").astype(np.int32)
    near = (np.array([0, 4, 2**30, *SLOTS[name]])[:, None] + np.array([-1, 0, 1])).ravel()
    wanted = rng.permutation(np.unique(near[near >= 0])).astype(np.int32)

    expected = [row for each in wanted.tolist() for row in np.flatnonzero(slot == each).tolist()]
    assert expected == rows_of_slots(slot, by_slot, wanted).tolist()
