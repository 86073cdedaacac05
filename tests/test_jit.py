"""The cache of compiled kernels."""

from pathlib import Path

import nearcast
from nearcast import _jit

SOURCES = Path(nearcast.__file__).parent


def test_what_is_left_out_of_the_cache_key_holds_no_kernel():
    """An edit that the key does not see can change no compiled code."""
    left_out = [
        p for name in _jit.WITHOUT_KERNELS for p in [SOURCES / name, *(SOURCES / name).rglob("*.py")] if p.is_file()
    ]
    assert len(left_out) > 10

    assert [path.name for path in left_out if "_jit" in path.read_text()] == []


def test_what_kernels_may_use_imports_nothing_that_is_left_out():
    """A constant of a left-out file could reach a kernel only through an import, and there is none."""
    hidden = [f"nearcast.{name.removesuffix('.py')}" for name in _jit.WITHOUT_KERNELS]
    seen = [p for p in SOURCES.rglob("*.py") if p.relative_to(SOURCES).parts[0] not in _jit.WITHOUT_KERNELS]
    with_kernels = [path for path in seen if "_jit import" in path.read_text()]
    assert with_kernels

    assert [(p.name, h) for p in with_kernels for h in hidden if f"from {h} " in p.read_text()] == []


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
