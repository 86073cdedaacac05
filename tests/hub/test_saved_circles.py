"""A saved hub holds the circles of its subscriptions, and no spare memory."""

import numpy as np

from nearcast import Circle, Hub, Similar, Vocabulary, Within


def test_spare_room_for_circles_is_not_saved(tmp_path):
    """Another vocabulary lays a delta with scored rows out as a segment; room for more circles may hold any bytes."""
    hub = Hub("plane", max_distance=10)
    hub.subscribe(Similar("s", "tea", (0, 0), threshold=0.5))
    for number in range(5):
        hub.subscribe(Within(number, "tea", Circle(number, 0, 1)))
    vocabulary = Vocabulary()
    vocabulary.learn_tokens([["tea"]] * 50 + [["ramen"]])
    hub.use_vocabulary(vocabulary)
    hub.save(tmp_path / "hub")
    (saved,) = tmp_path.rglob("rows.circle.npy")
    assert len(np.load(saved)) == 5
    assert len(Hub.open(tmp_path / "hub")) == 6
