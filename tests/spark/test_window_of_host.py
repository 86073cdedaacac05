"""A stream on Spark whose workers map one window: it delivers what a hub does."""

import os
import shutil
from pathlib import Path

import pytest
from test_spark_stream import Running

from nearcast import Hub
from nearcast.errors import IncompatibleStore
from nearcast.pipeline.driver.window_rounds import part_refs
from nearcast.pipeline.host_window import host_window
from support.spark_files import as_rows, parts_of
from support.streams import Oracle, World

IDS = list(range(1, 25))


def mapped_within(folder):
    """Return the files of a folder that some other process has mapped."""
    found = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            lines = maps.read_text().splitlines()
        except OSError:  # it has ended
            continue
        if maps.parent.name != str(os.getpid()):
            found |= {Path(line.split()[-1]) for line in lines if str(folder) in line}
    return found


def test_workers_of_a_host_share_a_window(spark, tmp_path):
    world = World(6, kinds=("topk",))
    first = [world.subscription(id_) for id_ in IDS[:16]]
    oracle = Oracle(Hub("plane", window=25))
    oracle.begin(first)
    running = Running(spark, tmp_path, first, window=25, window_mode="host", partitions=4)
    expected = []
    for start in range(2):
        for _ in range(2):
            files = world.batch(30, 6, IDS)
            running.inbox.add(files)
            expected.append(as_rows(oracle.run(files)))
        last = running.run()
        assert 2 * start + 2 == len(running.reports)
    for batch, rows in enumerate(expected):
        found = [row for part in parts_of(running.out, batch) for row in part]
        assert sorted(rows, key=str) == sorted(found, key=str), f"batch {batch}"
    folder = host_window._arena_of(part_refs(last.pipeline.state)[0])._storage._folder
    (generation,) = folder.glob("g-*")
    assert generation / "card" in mapped_within(folder)
    with pytest.raises(IncompatibleStore, match="begun with window mode host, not none"):
        running.run(window_mode="shared")
    shutil.rmtree(folder)
