"""A driver in a process of its own that pauses: python paused_driver.py FOLDER BATCH; says what ended it.

It pauses when all of a batch is written and its manifest is not, until a file `go` is there.
"""

import sys
from pathlib import Path

from faults.small_stream import SmallStream
from nearcast.errors import NearcastError
from nearcast.pipeline.store.store import Store
from support.waiting import wait_until


def main(folder, batch):
    stream = SmallStream(folder, messages=4)
    driver = stream.started()
    stream.run(driver, batch - 1)
    commit = Store.commit

    def paused(store, name, data):
        (folder / "paused").touch()
        wait_until((folder / "go").exists)
        commit(store, name, data)

    Store.commit = paused
    try:
        stream.run(driver, batch)
    except NearcastError as error:
        print(f"{type(error).__name__}: {error}")  # noqa: T201 - for the test that started it


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
