"""Jars for tests that need a broker of Kafka; where they cannot be fetched, tests are skipped, and a run says so."""

import os
import tempfile
from pathlib import Path

import pytest

#: What the summary of a run repeats: reasons with these words.
NOT_TESTED = "IS NOT TESTED"
NOT_FETCHED = f"KAFKA {NOT_TESTED}, the jars cannot be fetched"


def jars_of(name, modules, *, transitive):
    """Return the folder with the jars of modules, (group, name, version) each; skip the test if they cannot be had."""
    from nearcast.bench.spark.kafka_jars import JarsMissing, fetched_jars

    try:
        return fetched_jars(_cache() / f"{name}-{modules[0][2]}", modules, transitive=transitive)
    except JarsMissing as error:
        pytest.skip(f"{NOT_FETCHED}: {error}")


def _cache():
    """Return the folder beside that of compiled kernels, which outlives a run."""
    known = os.environ.get("NEARCAST_CACHE_DIR")
    return (Path(known).parent if known else Path(tempfile.gettempdir()) / "nearcast-tests") / "kafka"
