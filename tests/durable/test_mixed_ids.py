"""A table with ids of both types that cannot be stored as a whole is not stored at all."""

import pytest

from nearcast import Hub, Similar, Within
from nearcast.durable import DurableHub
from nearcast.errors import NotSupported


def test_a_table_that_raises_has_stored_nothing(tmp_path):
    """In an index without the kind of some rows, which come after others; also after a restart."""
    full = Hub("plane")
    full.subscribe(Within(1, "tea"))
    full.subscribe(Similar("s", "tea", (0, 0), threshold=0.5, max_distance=3))
    table = full.to_table()
    memory = Hub("plane", index="ap-tree")
    with pytest.raises(NotSupported, match="of kind 'similar'"):
        memory.subscribe_many(table)
    assert [] == list(memory)
    with DurableHub(tmp_path / "hub", "plane", index="ap-tree") as hub:
        with pytest.raises(NotSupported, match="of kind 'similar'"):
            hub.subscribe_many(table)
        assert [] == list(hub)
    with DurableHub.open(tmp_path / "hub") as hub:
        assert [] == list(hub)
