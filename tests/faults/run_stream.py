"""`nearcast stream` with a snapshot every third batch, so that a short run has some to be killed in."""

import importlib
import sys

from nearcast.cli import main

if __name__ == "__main__":
    importlib.import_module("nearcast.spark.stream").SNAPSHOT_EVERY = 3
    main(["stream", *sys.argv[1:]])
