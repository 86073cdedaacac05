"""Jars from Maven Central, fetched once by the Ivy that Spark brings along, which also knows where that is."""

import os
import re
import tempfile
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

import pytest

from support.waiting import run

#: What the summary of a run repeats: reasons with these words.
NOT_TESTED = "IS NOT TESTED"
NOT_FETCHED = f"KAFKA {NOT_TESTED}, the jars cannot be fetched"
#: Seconds in which Maven Central answers, or is out of reach.
_ANSWERS_S = 30.0


def java():
    from nearcast._java import ensure_java

    return str(Path(ensure_java()) / "bin" / "java")


def jars_of(name, modules, *, transitive):
    """Return the folder with the jars of modules, (group, name, version) each; skip the test if they cannot be had."""
    folder = _cache() / f"{name}-{modules[0][2]}"
    if not (folder / "complete").exists():
        why = _why_missing(*modules[0]) or _fetched(folder, modules, transitive=transitive)
        if why is not None:
            pytest.skip(f"{NOT_FETCHED}: {name}: {why}")
        (folder / "complete").touch()
    return folder / "lib"


def _cache():
    """Return the folder beside that of compiled kernels, which outlives a run."""
    known = os.environ.get("NEARCAST_CACHE_DIR")
    return (Path(known).parent if known else Path(tempfile.gettempdir()) / "nearcast-tests") / "kafka"


def _ivy():
    import pyspark

    (found,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    return found


def _central():
    """Return where Maven Central is, as Ivy knows it."""
    with zipfile.ZipFile(_ivy()) as jar:
        found = re.search(
            rb"https?://[\w./]+/maven2", jar.read("org/apache/ivy/plugins/resolver/IBiblioResolver.class")
        )
    assert found is not None
    return found[0].decode()


def _why_missing(group, name, version):
    """Return why a module cannot be had, None if it can: Ivy would wait for minutes where nobody answers."""
    path = f"{group.replace('.', '/')}/{name}/{version}/{name}-{version}.pom"
    request = urllib.request.Request(f"{_central()}/{path}", method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=_ANSWERS_S):
            return None
    except urllib.error.HTTPError as error:
        error.close()
        return f"Maven Central has no {path}: {error}"
    except OSError as error:
        return f"Maven Central is out of reach: {error}"


def _fetched(folder, modules, *, transitive):
    """Fetch modules into a folder; return why that failed, None if it did not."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = "".join(
        f'<dependency org="{group}" name="{name}" rev="{version}" transitive="{str(transitive).lower()}"/>'
        for group, name, version in modules
    )
    ivy = folder / "ivy.xml"
    ivy.write_text(
        '<ivy-module version="2.0"><info organisation="nearcast" module="tests"/>'
        f'<dependencies defaultconf="default">{wanted}</dependencies></ivy-module>'
    )
    places = ["-cache", str(folder / "cache"), "-retrieve", f"{folder}/lib/[artifact]-[revision].[ext]"]
    done = run([java(), "-jar", str(_ivy()), "-confs", "default", "-ivy", str(ivy), *places])
    return " ".join(done.stdout[-500:].split()) if done.returncode else None
