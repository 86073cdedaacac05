"""The first minutes of a new user: what is imported, what is compiled, what is said meanwhile, and `nearcast warm`."""

import io
import json
import os
import pty
import signal
import subprocess
import sys
import types
from pathlib import Path

import numba
import pytest

from nearcast import compile_notice
from nearcast.bench.first_use import FIRST_SCREEN
from support.waiting import run, wait_until

compiled_only = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")

FIRST_USE_CASES = ("import", "cold", "warm")
README = Path(__file__).parents[1] / "README.md"
PATHS = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

#: Prints the kernels that were called, by module and name.
CALLED = """
import json, sys
from nearcast._jit import _Kernel
called = sorted(
    f"{name}.{value.py_func.__name__}"
    for name, module in list(sys.modules.items()) if name.startswith("nearcast.")
    for value in list(vars(module).values())
    if isinstance(value, _Kernel) and "_called" in vars(value) and value.py_func.__module__ == name
)
print(json.dumps(called))
"""

#: Compiles two small kernels, with no patience at all.
COMPILES = """
import numpy as np
from nearcast import compile_notice
compile_notice.PATIENCE_S = 0.0
from nearcast.indexes.trigger.rows import count_terms
from nearcast.geo.space import haversine
count_terms(np.zeros(1, np.int32), np.zeros(1, np.int32))
haversine(0.0, 0.0, 1.0, 1.0)
"""


def python(program, **environment):
    done = run([sys.executable, "-c", program], env=os.environ | PATHS | environment)
    assert 0 == done.returncode, done.stderr
    return done


def test_the_first_screen_that_is_timed_is_that_of_the_readme():
    """`nearcast bench first-use` measures what users are shown."""
    assert README.read_text().split("```python\n")[1].startswith(FIRST_SCREEN)


def test_an_import_loads_nothing_that_a_plain_hub_does_not_use():
    """Commands, tables of other libraries, Spark, drawing and top-k wait until they are asked for."""
    heavy = ("IPython", "matplotlib", "nearcast.topk.keeper", "nearcast.topk.window.registry", "pandas")
    heavy += ("pyarrow.parquet", "pyspark", "rich", "scipy", "shapely", "typer")
    loaded = json.loads(python("import json, sys, nearcast; print(json.dumps(sorted(sys.modules)))").stdout)

    assert "nearcast.hub" in loaded
    assert [] == [name for name in heavy if name in loaded]


@compiled_only
def test_a_hub_of_within_alone_compiles_what_that_needs():
    """No kernel for scores, for lists of the best, or for whole tables keeps the first message waiting."""
    trigger = "nearcast.indexes.trigger"
    expected = [
        "nearcast.geo.regions._touch_plain",
        "nearcast.geo.space.place_distance",
        f"{trigger}.delta._chain",
        f"{trigger}.delta.search_delta",
        f"{trigger}.rows.count_terms",
        f"{trigger}.rows.rarest_terms",
        f"{trigger}.scratch.find_distinct",
        "nearcast.text.words._intern",
        "nearcast.text.words._look_up",
    ]
    called = called_by(FIRST_SCREEN)
    if called != expected:  # compiling calls the kernels that others are made of; now all come from the cache
        called = called_by(FIRST_SCREEN)

    assert expected == called


def called_by(program):
    return json.loads(python(program + CALLED).stdout.splitlines()[-1])


def on_a_terminal(program, **environment):
    """Run a program whose stderr is a terminal; return what it wrote there."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", program], stderr=theirs, env=os.environ | PATHS | environment, stdin=subprocess.DEVNULL
    )
    os.close(theirs)
    written = b""
    try:
        while piece := os.read(ours, 4096):
            written += piece
    except OSError:  # how a terminal says on Linux that the last one has left
        pass
    os.close(ours)
    wait_until(lambda: process.poll() is not None)
    assert 0 == process.returncode, written.decode()
    return written.decode().splitlines()


@compiled_only
def test_compiling_is_told_once_where_somebody_watches(tmp_path):
    """One line says what goes on and that it happens once; nothing is said when kernels are there already."""
    cache = {"NEARCAST_CACHE_DIR": str(tmp_path / "cache")}
    [line] = on_a_terminal(COMPILES, **cache)

    assert line.startswith("nearcast: compiling kernels for this machine")
    assert "once" in line
    assert "nearcast warm" in line
    assert [] == on_a_terminal(COMPILES, **cache)


@compiled_only
def test_compiling_is_not_told_where_nobody_watches(tmp_path):
    """What goes into a file or a pipe stays clean."""
    assert "" == python(COMPILES, NEARCAST_CACHE_DIR=str(tmp_path / "cache")).stderr


@compiled_only
def test_a_cache_that_is_off_is_not_called_once():
    """With NEARCAST_CACHE=0 every process compiles again, and the line says so."""
    [line] = on_a_terminal(COMPILES, NEARCAST_CACHE="0")

    assert "NEARCAST_CACHE=0" in line
    assert "once" not in line


def test_short_compiling_passes_without_a_word(monkeypatch):
    """Below a second nobody wonders; beyond, the line comes once however long it goes on."""
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    notice = compile_notice._Notice(is_kept=True)
    notice(None, 0.9)
    assert "" == terminal.getvalue()
    for seconds in (1.1, 2.0, 30.0):
        notice("kernel", seconds)

    assert 1 == terminal.getvalue().count("\n")


@pytest.mark.parametrize(("shell", "watched"), [(types.SimpleNamespace(kernel=1), True), (object(), False)])
def test_a_notebook_is_watched_and_another_shell_by_its_terminal(monkeypatch, shell, watched):
    """The kernel of a notebook writes to no terminal, but people read it."""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))

    assert watched == compile_notice.somebody_watches()


def test_a_closed_stderr_is_watched_by_nobody(monkeypatch):
    """A program without stderr, or with a closed one, compiles in silence."""
    closed = io.StringIO()
    closed.close()
    for each in (None, closed):
        monkeypatch.setattr(sys, "stderr", each)
        assert not compile_notice.somebody_watches()


#: Rehearses all. Prints how many kernels there are in the rooms of top-k and plans, and those that no rehearsal called;
#: what a kernel names is compiled with it. Then lives as `contract.kernel_mix` does, and prints the kernels that only
#: that life called.
REHEARSED = """
import json, sys, tempfile
from pathlib import Path
from nearcast._jit import _Kernel
from nearcast.warmup import rehearsals
for rehearsal in rehearsals():
    rehearsal.run()
rooms = ("nearcast.topk.", "nearcast.indexes.trigger.thresholds.", "nearcast.plans.")
by_option = ("nearcast.topk.window.scan", "nearcast.topk.window.ir_tree.")
kernels = {
    f"{name}.{value.py_func.__name__}": value
    for name, module in sys.modules.items() if name.startswith(rooms) and not name.startswith(by_option)
    for value in list(vars(module).values())
    if isinstance(value, _Kernel) and value.py_func.__module__ == name
}
named = {
    id(kernel.py_func.__globals__.get(name))
    for kernel in kernels.values() for name in kernel.py_func.__code__.co_names
}
others = [name for name, kernel in kernels.items() if "_called" not in vars(kernel) and id(kernel) not in named]
print(json.dumps([len(kernels), sorted(others)]))
from contract.kernel_mix import compiled, work
from contract.worlds import EARTH, PLANE, SMALL
before, similar, every = compiled(), ("within", "similar"), ("within", "similar", "topk")
with tempfile.TemporaryDirectory() as folder:
    for number, (kinds, space) in enumerate([(every, EARTH), (every, PLANE), (("within",), EARTH), (similar, PLANE)]):
        work(SMALL, space, kinds, Path(folder) / str(number))
print(json.dumps([len(before), {name: n for name, n in compiled().items() if before.get(name) != n}]))
"""


@compiled_only
def test_what_was_rehearsed_compiles_nothing_more():
    """After `nearcast warm` no life of an index, and no mix of kinds, waits for a kernel.

    Nor does what only a race, thousands at once or an interruption calls in top-k and plans.
    """
    in_rooms, in_lives = map(json.loads, python(REHEARSED).stdout.splitlines()[-2:])
    n_kernels, others = in_rooms
    n_before, more = in_lives

    assert n_kernels > 60
    assert [] == others
    assert n_before > 80
    assert {} == more


@compiled_only
def test_warming_up_can_be_interrupted(tmp_path):
    """Ctrl-C ends it at once and without a traceback; what was compiled stays."""
    process = subprocess.Popen(
        [sys.executable, "-m", "nearcast", "warm"],
        env=os.environ | PATHS | {"NEARCAST_CACHE_DIR": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: list(tmp_path.rglob("*.nbc")), is_alive=lambda: process.poll() is None)
    process.send_signal(signal.SIGINT)
    wait_until(lambda: process.poll() is not None)

    assert 130 == process.returncode
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()


@compiled_only
def test_warming_up_an_unknown_index_is_refused(nearcast):
    """It is a mistake of usage."""
    found = nearcast("warm", "--indexes", "moon")

    assert 2 == found.status
    assert "there is no index 'moon'" in found.err


def test_warming_up_in_vain_is_refused():
    """So is a cache that is off."""
    done = run([sys.executable, "-m", "nearcast", "warm"], env=os.environ | PATHS | {"NEARCAST_CACHE": "0"})

    assert 2 == done.returncode
    assert "nothing is kept" in done.stderr


def test_the_report_of_the_first_use_has_every_case(monkeypatch, tmp_path, nearcast):
    """`nearcast bench first-use` tells the median of import, cold and warm, on the wall and on the processor."""
    runs = []

    def fake(program, cache):
        runs.append((program == FIRST_SCREEN, cache))
        return float(len(runs)), len(runs) / 2

    monkeypatch.setattr("nearcast.bench.first_use._seconds", fake)
    status, out, _ = nearcast("bench", "first-use", "--repeats", 1, "--json", tmp_path / "report.json")
    report = json.loads((tmp_path / "report.json").read_text())

    assert 0 == status
    assert {"import": 2.0, "cold": 3.0, "warm": 4.0} == {name: report[name]["wall_s"] for name in FIRST_USE_CASES}
    assert {"import": 1.0, "cold": 1.5, "warm": 2.0} == {name: report[name]["cpu_s"] for name in FIRST_USE_CASES}
    assert "| cold | 3.00 | 1.50 |" in out
    assert [False, False, True, True] == [is_screen for is_screen, _ in runs]
    assert 1 == len({cache for _, cache in runs})
