"""A saved hub opens again, whatever memory held before its arrays."""

import numpy as np

from nearcast import Circle, Hub, Within


def test_room_for_more_circles_is_saved_as_numbers(tmp_path):
    """Memory that was given back is often that of the next array: what it held must not be taken for damage."""
    hub = Hub("plane")
    for number in range(9):
        for rows in (2, 4, 8, 16):
            np.full((rows, 3), np.nan)
        hub.subscribe(Within(number, "tea", Circle(number, 0, 1)))
    hub.save(tmp_path / "hub")
    assert list(Hub.open(tmp_path / "hub")) == list(range(9))
