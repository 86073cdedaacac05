"""Every registered index under one parameter, with options that make a small one walk through all of its code."""

import numba
import pytest

from contract.worlds import LARGER_CELLS, SMALL
from nearcast.indexes import available, create
from nearcast.testing import IndexActor

SPECS = [*(info.name for info in available() if "within" in info.kinds), SMALL, LARGER_CELLS]


@pytest.fixture(params=SPECS, scope="session")
def spec(request):
    """Name an index."""
    return request.param


@pytest.fixture
def new_index(spec):
    """Return a maker of empty indexes that take values."""
    return lambda space, **options: IndexActor(create(spec, space), **options)


@pytest.fixture(scope="session")
def interpreted():
    """Tell whether kernels run as plain Python, some hundred times slower."""
    return bool(numba.config.DISABLE_JIT)
