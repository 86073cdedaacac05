"""One Spark session for all tests of a run: they lie in `tests/spark/`, which one worker of xdist takes as a whole."""

import os
from pathlib import Path

import pytest

#: For short lives: Java's second compiler and its parallel collector take a third of the time and give nothing back.
FOR_SHORT_LIVES = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
os.environ.setdefault("SPARK_SUBMIT_OPTS", FOR_SHORT_LIVES)
os.environ.setdefault("SPARK_LAUNCHER_OPTS", FOR_SHORT_LIVES)


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """Two slots, four attempts for a task, nothing on the network; what Spark writes goes to a folder of this run."""
    pytest.importorskip("pyspark")
    from nearcast.spark.session import session

    _be_the_only_one(tmp_path_factory)
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


def _be_the_only_one(tmp_path_factory):
    """Fail when another worker has a session: a second one costs a minute, and nothing else would tell."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    try:
        (tmp_path_factory.getbasetemp().parent / "has-spark").touch(exist_ok=False)
    except FileExistsError:
        pytest.fail("a second worker starts Spark: tests that use the session belong into tests/spark/")
