"""Jars for tests that need a broker of Kafka; where they cannot be fetched, tests are skipped, and a run says so."""

import os
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from nearcast.errors import NearcastError

#: What the summary of a run repeats: reasons with these words.
NOT_TESTED = "IS NOT TESTED"
NOT_FETCHED = f"KAFKA {NOT_TESTED}, the jars cannot be fetched"
_ONE_AT_A_TIME = threading.Lock()
_MISSING = {}


def broker_jars():
    """Return the folder with the jars of a broker; skip the test if they cannot be had."""
    from nearcast.bench.spark.kafka_jars import BROKER

    return _jars_of("broker", [BROKER], transitive=True)


def connector_jars():
    """Return the folder with the jars of Spark's connector; skip the test if they cannot be had."""
    from nearcast.pipeline.kafka_topics import CONNECTOR_JARS

    return _jars_of("connector", CONNECTOR_JARS, transitive=False)


def fetch_meanwhile():
    """Fetch all of them in a thread, while tests run that need none: Ivy waits for the network, a minute or two."""
    threading.Thread(target=_fetch_all, name="jars of Kafka", daemon=True).start()


def _fetch_all():
    for jars in (broker_jars, connector_jars):
        with suppress(NearcastError, pytest.skip.Exception):  # whoever needs them is told
            jars()


def _jars_of(name, modules, *, transitive):
    """Return the folder with the jars of modules, (group, name, version) each; skip the test if they cannot be had."""
    from nearcast.bench.spark.kafka_jars import JarsMissing, fetched_jars

    with _ONE_AT_A_TIME:
        if name not in _MISSING:
            try:
                return fetched_jars(_cache() / f"{name}-{modules[0][2]}", modules, transitive=transitive)
            except JarsMissing as error:
                _MISSING[name] = error
    pytest.skip(f"{NOT_FETCHED}: {_MISSING[name]}")


def _cache():
    """Return the folder beside that of compiled kernels, which outlives a run."""
    known = os.environ.get("NEARCAST_CACHE_DIR")
    return (Path(known).parent if known else Path(tempfile.gettempdir()) / "nearcast-tests") / "kafka"
