"""One Spark session for all tests of a run.

Tests that use it share a worker of xdist: `pytestmark = pytest.mark.xdist_group("spark")`, and `--dist loadgroup`.
"""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """Two slots, four attempts for a task, nothing on the network; what Spark writes goes to a folder of this run."""
    pytest.importorskip("pyspark")
    from nearcast.spark.session import session

    folder = tmp_path_factory.mktemp("spark")
    tests = Path(__file__).parents[1]
    path = os.pathsep.join(filter(None, (str(tests), str(tests / "spark"), os.environ.get("PYTHONPATH"))))
    settings = {
        "spark.sql.warehouse.dir": folder / "warehouse",
        "spark.local.dir": folder / "local",
        "spark.driver.memory": "2g",
        # Workers import tasks from the modules of tests.
        "spark.executorEnv.PYTHONPATH": path,
    }
    found = session("local[2,4]", app="nearcast tests", settings=settings)
    yield found
    found.stop()
