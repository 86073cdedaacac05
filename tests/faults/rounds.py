"""Rounds of random faults: how long `make test-faults` goes on, and what each round is made of."""

import os
import random
import shutil
import time

#: How long each of the four tests at random may take: drivers without Spark, streams on Spark, Kafka, durable hubs.
#: 0: not at all.
MINUTES = float(os.environ.get("NEARCAST_FAULTS") or 0) / 4


def rounds(parent):
    """Begin rounds until the time is over: a seed, its random numbers, and a folder that goes when it is done."""
    end = time.monotonic() + MINUTES * 60
    seed = 0
    while time.monotonic() < end:
        seed += 1
        folder = parent / str(seed)
        folder.mkdir()
        yield seed, random.Random(seed), folder
        shutil.rmtree(folder)
