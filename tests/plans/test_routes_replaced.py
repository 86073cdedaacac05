"""Routes that a partition gives up, and keys that are known already."""

import numpy as np
import pytest

from nearcast.plans.base import ANY_CELL, ANY_WORD, Keys
from nearcast.plans.routes import Routes

pytestmark = [pytest.mark.modes, pytest.mark.small]


def keys(*rows):
    return Keys(*(np.array(column, np.int32) for column in zip(*rows, strict=True)))


def rows_of(found):
    return sorted(zip(*(column.tolist() for column in found), strict=True))


@pytest.mark.parametrize("partitions", [3, 70])
def test_a_partition_that_names_all_its_keys_has_no_others(partitions):
    """Those of other partitions stay, and what is named for them is added."""
    routes, last = Routes(partitions), partitions - 1
    routes.add(keys((1, 2, 0), (1, 2, last), (5, ANY_CELL, last), (ANY_WORD, 3, 1)))
    assert 4 / 3 == routes.spread
    routes.replace([last], keys((7, 7, last), (1, 2, 1)))
    assert [(ANY_WORD, 3, 1), (1, 2, 0), (1, 2, 1), (7, 7, last)] == rows_of(routes.keys())
    assert 3 == len(routes)
    counts = dict(enumerate(routes.counts()))
    assert {0: 1, 1: 2, last: 1} == {at: n for at, n in counts.items() if n}


@pytest.mark.parametrize("partitions", [3, 70])
def test_keys_that_are_known_are_left_out(partitions):
    """A key counts as known for the partition that has it, and for no other."""
    routes, last = Routes(partitions), partitions - 1
    routes.add(keys((1, 2, last), (ANY_WORD, ANY_CELL, 0)))
    asked = keys((1, 2, last), (1, 2, 0), (ANY_WORD, ANY_CELL, 0), (9, 9, 1))
    assert [(1, 2, 0), (9, 9, 1)] == rows_of(routes.without_known(asked))
    assert [] == rows_of(routes.without_known(Keys.none()))
