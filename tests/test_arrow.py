"""Between NumPy and Arrow without pandas."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from nearcast import _arrow


@pytest.mark.parametrize("kind", ["int32", "int64", "uint8", "float64"])
def test_numbers_there_and_back(kind):
    """A column of numbers is the same numbers."""
    values = np.arange(5).astype(kind)

    assert _arrow.numbers(values).to_pylist() == values.tolist()
    assert _arrow.array_of(_arrow.numbers(values)).tolist() == values.tolist()


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([1, None, 3]), [1, -7, 3]),
        (pa.array([1, None, 3]).slice(1), [-7, 3]),
        (pa.array([None, None], pa.int64()), [-7, -7]),
        (pa.array([], pa.int64()), []),
        (pa.chunked_array([[1], [], [None, 2]], pa.int64()), [1, -7, 2]),
        (pa.chunked_array([], pa.int64()), []),
    ],
)
def test_nulls_become_what_is_asked_for(column, expected):
    """Slices, chunks and nulls come out as plain values."""
    assert _arrow.array_of(column, null=-7).tolist() == expected


def test_booleans_are_unpacked_from_any_offset():
    """Bits do not begin at a byte in a slice."""
    bits = [i % 3 == 0 for i in range(20)]

    assert _arrow.array_of(pa.array(bits).slice(5, 9)).tolist() == bits[5:14]
    assert _arrow.array_of(pa.array([True, None])).tolist() == [True, False]


def test_strings_and_times():
    """Strings in any script; a time that is not given is null."""
    assert _arrow.strings(["+", "", "é"]).to_pylist() == ["+", "", "é"]
    column = _arrow.times(np.array([0, 1_000_000]), np.array([False, True]))
    assert [value and value.timestamp() for value in column.to_pylist()] == [None, 1.0]


def test_matching_tables_does_not_import_pandas():
    """Nobody pays half a second for a library that is not used."""
    code = """
import sys, numpy as np, pyarrow as pa
from nearcast import Hub, _arrow
hub = Hub("plane")
one = _arrow.numbers(np.array([1.0]))
hub.subscribe_many(pa.table([_arrow.strings(["a"]), _arrow.strings(["w"])], names=["id", "query"]))
columns = {"id": _arrow.strings(["m"]), "text": _arrow.strings(["w"]), "x": one, "y": one}
found = hub.publish_many(pa.table(columns))
assert len(found.to_table()) == 1
print("pandas" in sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout.strip() == "False"
