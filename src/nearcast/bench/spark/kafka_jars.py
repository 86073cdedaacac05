"""Jars of Kafka and of Spark's connector, fetched once by the Ivy that Spark brings along, which knows where from."""

from __future__ import annotations

import subprocess
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from nearcast._java import ensure_java
from nearcast.bench.peers.maven import repository
from nearcast.errors import NearcastError

#: Group, name and version of a module.
Module = tuple[str, str, str]

BROKER: Module = ("org.apache.kafka", "kafka_2.13", "4.1.0")
#: Seconds in which a Maven repository answers, or is out of reach.
_ANSWERS_S = 30.0


class JarsMissing(NearcastError):
    """Jars that are not here cannot be fetched."""


def java() -> str:
    """Return the program that runs jars."""
    return str(Path(ensure_java()) / "bin" / "java")


def fetched_jars(folder: Path, modules: Sequence[Module], *, transitive: bool) -> Path:
    """Return a folder below this one with the jars of modules, fetched where they are not there; else `JarsMissing`."""
    if not (folder / "complete").exists():
        _must_be_there(*modules[0])
        _fetch(folder, modules, transitive=transitive)
        (folder / "complete").touch()
    return folder / "lib"


def _must_be_there(group: str, name: str, version: str) -> None:
    """Ask for one file first: Ivy would wait for minutes where nobody answers."""
    path = f"{group.replace('.', '/')}/{name}/{version}/{name}-{version}.pom"
    request = urllib.request.Request(f"{repository().rstrip('/')}/{path}", method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=_ANSWERS_S):
            return
    except urllib.error.HTTPError as error:
        error.close()
        raise JarsMissing(f"{name}: the Maven repository has no {path}: {error}") from None
    except OSError as error:
        raise JarsMissing(f"{name}: the Maven repository is out of reach: {error}") from None


def _fetch(folder: Path, modules: Sequence[Module], *, transitive: bool) -> None:
    import pyspark

    folder.mkdir(parents=True, exist_ok=True)
    wanted = "".join(
        f'<dependency org="{group}" name="{name}" rev="{version}" transitive="{str(transitive).lower()}"/>'
        for group, name, version in modules
    )
    described = folder / "ivy.xml"
    described.write_text(
        '<ivy-module version="2.0"><info organisation="nearcast" module="kafka"/>'
        f'<dependencies defaultconf="default">{wanted}</dependencies></ivy-module>'
    )
    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    places = ["-cache", str(folder / "cache"), "-retrieve", f"{folder}/lib/[artifact]-[revision].[ext]"]
    command = [java(), "-jar", str(ivy), "-confs", "default", "-ivy", str(described), *places]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise JarsMissing(f"{modules[0][1]}: {' '.join(done.stdout[-500:].split())}")
