"""The cache of compiled kernels."""

import os
import re
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

import nearcast
from nearcast import _jit
from support.waiting import run

SOURCES = Path(nearcast.__file__).parent


def test_what_is_left_out_of_the_cache_key_holds_no_kernel():
    """An edit that the key does not see can change no compiled code."""
    left_out = [p for p in SOURCES.rglob("*.py") if _jit.is_without_kernels(p.relative_to(SOURCES))]
    assert len(left_out) > 10

    kernels = re.compile(r"_jit import|_jit\.(kernel|hot_kernel|inlined)\b")
    assert [path.name for path in left_out if kernels.search(path.read_text())] == []


def test_what_kernels_may_use_imports_nothing_that_is_left_out():
    """A constant of a left-out file could reach a kernel only through an import, and there is none."""
    hidden = [name.removesuffix(".py") for name in _jit.WITHOUT_KERNELS]
    imports = re.compile(
        rf"(?:from|import) nearcast\.(?:{'|'.join(hidden)})\b|from nearcast import .*\b(?:{'|'.join(hidden)})\b"
    )
    seen = [p for p in SOURCES.rglob("*.py") if not _jit.is_without_kernels(p.relative_to(SOURCES))]
    with_kernels = {path: path.read_text() for path in seen if "_jit import" in path.read_text()}
    assert with_kernels

    assert [
        (p.name, found[0]) for p, text in with_kernels.items() if (found := imports.search(_at_run_time(text)))
    ] == []


def _at_run_time(text):
    """Return a source without what it imports for type hints alone."""
    return re.sub(r"(?m)^if TYPE_CHECKING:\n(?:    .*\n|\n)+", "", text)


def test_the_key_changes_with_a_source(monkeypatch, tmp_path):
    """Numba alone would serve stale code after an edit in another file."""
    (tmp_path / "a.py").write_text("x = 1")
    monkeypatch.setattr(_jit, "_SOURCES", tmp_path)
    before = _jit._source_key.__wrapped__()
    (tmp_path / "a.py").write_text("x = 2")
    after = _jit._source_key.__wrapped__()
    (tmp_path / "hub.py").write_text("x = 3")

    assert before != after
    assert after == _jit._source_key.__wrapped__()


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_an_inlined_kernel_is_compiled_once_for_all_constants(monkeypatch):
    """Numba would compile it for 0, for 1 and for any integer apart; callers inline it and know their constants."""
    monkeypatch.setattr(_jit, "_CACHE_ON", False)

    @_jit.inlined
    def shifted(value, by):
        return value + by

    @_jit.kernel
    def shifted_thrice(value):
        return shifted(shifted(shifted(value, 0), 1), value)

    assert 15 == shifted_thrice(7)
    assert 1 == len(shifted._inlined.signatures)


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_an_inlined_kernel_can_be_called_from_python_too(monkeypatch):
    """Inlined it has no entry from Python; a call from there compiles a twin, before or after."""
    monkeypatch.setattr(_jit, "_CACHE_ON", False)

    @_jit.inlined
    def doubled(value):
        """Double it."""
        return 2 * value

    @_jit.kernel
    def quadrupled(value):
        return doubled(doubled(value))

    assert 6 == doubled(3)
    assert 12 == quadrupled(3)
    assert 8 == doubled(4)
    assert ("doubled", "Double it.") == (doubled.__name__, doubled.__doc__)


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_the_cache_tells_an_inlined_kernel_from_its_twin(tmp_path):
    """What was stored without an entry from Python is never loaded for a call from Python, which would crash."""
    program = """
from nearcast.indexes.shared.predicates import message_parts
import numpy as np
from nearcast.geo.space import circle_holds
from nearcast.geo.regions import _touch_plain
one = np.zeros((1, 4))
columns = (np.full(1, 2, np.uint8), np.array([0, 1]), one, np.zeros(1, np.int32), np.array([[0.0, 0.0, 1.0]]))
_touch_plain(False, *columns, np.zeros(1, np.int64), one, np.zeros(1, np.bool_))
parts = np.empty((2, 4))
print(message_parts(one, 0, parts), bool(circle_holds(False, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0)))
"""
    environment = os.environ | {"NEARCAST_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    for _ in range(2):
        done = run([sys.executable, "-c", program], env=environment)
        assert (0, "1 True\n") == (done.returncode, done.stdout), done.stderr


def test_a_kernel_may_ask_ahead_for_any_item(monkeypatch):
    """Nothing is read or written: an index outside the array is no fault, and what is inside stays as it was."""
    monkeypatch.setattr(_jit, "_CACHE_ON", False)

    @_jit.hot_kernel
    def asked(numbers, table, records, first):
        for i in range(first, first + 4):
            _jit.prefetch(numbers, i)
            _jit.prefetch(table, i * table.shape[1])
        _jit.prefetch(records, np.int32(-1))
        return numbers[first]

    numbers, table, records = np.array([3, 4]), np.ones((2, 3)), np.zeros(2, [("a", "u1"), ("b", "i4")])

    assert 4 == asked(numbers, table, records, 1)
    assert ([3, 4], 6.0) == (numbers.tolist(), table.sum())
