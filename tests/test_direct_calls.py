"""Calls of kernels without Numba's look at types: what nobody looks at in use is looked at in tests."""

from typing import NamedTuple

import numpy as np
import pytest

from nearcast import Box, Hub, Message, Within, _jit
from nearcast.indexes.trigger.mobile import component
from nearcast.live.cells import queries, store

pytestmark = [pytest.mark.modes, pytest.mark.small]


class Weighted(NamedTuple):
    """Two columns, as kernels are given them."""

    value: np.ndarray
    weight: np.ndarray


class Unweighted(NamedTuple):
    """One of the two columns."""

    value: np.ndarray


def total(columns, first):
    """Return the weighted sum of the values from `first` on."""
    found = 0.0
    for i in range(first, columns.value.size):
        found += columns.value[i] * columns.weight[i]
    return found


GOOD = Weighted(np.array([1, 2, 3]), np.array([1.0, 2.0, 3.0]))


def read_only(column):
    column = column.copy()
    column.flags.writeable = False
    return column


#: What is given instead, and how the error begins.
OTHERS = {
    "another dtype of the same size": (GOOD._replace(value=GOOD.weight), 0, "argument columns.value of total is cont"),
    "strides": (GOOD._replace(weight=np.zeros(6)[::2]), 0, "argument columns.weight of total is strided"),
    "another number of axes": (GOOD._replace(weight=np.zeros((3, 1))), 0, "argument columns.weight of total is"),
    "read-only": (GOOD._replace(value=read_only(GOOD.value)), 0, "argument columns.value of total is read-only"),
    "another scalar": (GOOD, 0.5, "argument first of total is <f8"),
    "a column less": (GOOD[:1], 0, "argument columns.0 of total is"),
    "the last column missing": (Unweighted(GOOD.value), 0, "argument columns.weight of total is missing"),
}


def called_once():
    """Return a kernel that is called directly and knows the types it is for."""
    kernel = _jit.direct(_jit.kernel(total))
    assert 13.0 == kernel(GOOD, 1)
    return kernel


@pytest.fixture(autouse=True)
def _uncached(monkeypatch):
    """Leave nothing of these kernels in the cache."""
    monkeypatch.setattr(_jit, "_CACHE_ON", False)


@pytest.mark.parametrize("name", OTHERS)
def test_a_call_with_other_types_is_refused(name):
    """The error names the argument; the next good call is answered."""
    kernel, (columns, first, why) = called_once(), OTHERS[name]
    with pytest.raises(TypeError, match=why):
        kernel(columns, first)

    assert 14.0 == kernel(GOOD, 0)
    assert 14.0 == kernel(GOOD, np.int64(0))


def test_nothing_is_looked_at_in_use(monkeypatch):
    """Without the setting the compiled form is entered at once."""
    monkeypatch.delenv("NEARCAST_CHECK_CALLS")
    kernel = called_once()

    assert 14.0 == kernel(GOOD, 0)
    assert not isinstance(kernel._entry, _jit._CheckedEntry)


def test_what_moves_call_directly_is_looked_at_in_tests():
    """All tests run with the setting: every direct kernel of a move is guarded from its first call on."""
    hub = Hub("plane", lifetime="10m")
    hub.subscribe(Within("a", "tea", Box(0, 0, 1, 1)))
    hub.publish(Message(1, "tea", (3.0, 3.0), time="2026-01-01T00:00:00Z"))
    for x in (3.0, 0.0, 3.1):
        hub.move("a", (x, 3.0))

    guarded = (component._place_rows, queries._write_words, store._search_rows)
    assert [True] * 3 == [isinstance(each._entry, _jit._CheckedEntry) for each in guarded]
