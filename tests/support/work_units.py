"""Which tests go to a worker of pytest-xdist together: all of Spark's, and all cases of one test of the contract.

`xdist_group` would say the first, but groups are lost from pytest 9.2 on: pytest-dev/pytest-xdist#1386.
"""

from xdist.scheduler import LoadScopeScheduling

SPARK, CONTRACT = "tests/spark/", "tests/contract/"
#: The last of Spark's: their jars may have to be fetched meanwhile.
KAFKA = f"{SPARK}test_kafka"


class WorkUnits(LoadScopeScheduling):
    """Hands out the tests of Spark as one unit, of the contract by function, all others one by one."""

    def _split_scope(self, nodeid):
        if nodeid.startswith(SPARK):
            return SPARK
        # Thousands of cases of some milliseconds: to hand out each would cost as much.
        return nodeid.partition("[")[0] if nodeid.startswith(CONTRACT) else nodeid


def place_in_line(nodeid):
    """Return a key that puts the longest unit first and those that fill gaps last."""
    return not nodeid.startswith(SPARK), nodeid.startswith(KAFKA), nodeid.startswith(CONTRACT)
