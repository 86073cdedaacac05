"""Circles of subscriptions whose component is laid out again under another vocabulary."""

import numpy as np
import pytest
import shapely

from nearcast import Area, Circle, Hub, Message, Similar, Vocabulary, Within


@pytest.mark.modes
@pytest.mark.small
def test_only_present_circles_are_saved_after_reweighing(tmp_path):
    """Places that were left, and room for more circles, are in no file; circles and polygons still hold their own."""
    hub = Hub("plane")
    hub.subscribe(Similar("scored", "tea milk", (0, 0), threshold=0.1, max_distance=9))
    hub.subscribe(Within("gone", "tea", Area(shapely.Polygon([(40, 40), (50, 40), (50, 50)]))))
    hub.subscribe(Within("polygon", "tea", Area(shapely.Polygon([(60, 60), (70, 60), (70, 70)]))))
    for number in range(4):
        hub.subscribe(Within(number, "tea", Circle(number, 0, 1)))
    hub.move(0, (100, 100))
    hub.unsubscribe("gone")
    vocabulary = Vocabulary()
    vocabulary.learn_tokens([["tea"], ["tea", "milk"], ["coffee"]])
    hub.use_vocabulary(vocabulary)
    hub.save(tmp_path / "hub")
    saved = sorted(row for path in (tmp_path / "hub").rglob("rows.circle.npy") for row in np.load(path).tolist())

    assert [[1.0, 0.0, 1.0], [2.0, 0.0, 1.0], [3.0, 0.0, 1.0], [100.0, 100.0, 1.0]] == saved
    for each in (hub, Hub.open(tmp_path / "hub")):
        told = [
            [d.subscription_id for d in each.publish(Message("m", "tea", place))] for place in ((100, 100), (68, 62))
        ]
        assert [["scored", 0], ["scored", "polygon"]] == told
