"""Jars from a Maven repository: fetched once by their coordinates into the cache folder, and checked by SHA-256."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from nearcast._saved import replace_file
from nearcast.bench.peers.contract import PeerFailed

#: Names the repository where no option does.
ENVIRONMENT = "NEARCAST_MAVEN"
#: Seconds in which a repository answers, or is out of reach.
_ANSWERS_S = 30.0
#: Where tools that are likely here keep the address of Maven's usual repository: in files of these jars.
_IVY_CLASS = "org/apache/ivy/plugins/resolver/IBiblioResolver.class"
_MAVEN_POM = "org/apache/maven/model/pom-4.0.0.xml"
_ADDRESS = re.compile(rb"https?://[\w./-]+/maven2")


class Jar(NamedTuple):
    """Coordinates of a jar, and the hash that its bytes must have."""

    group: str
    name: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        """Return the name of the file."""
        return f"{self.name}-{self.version}.jar"

    @property
    def path(self) -> str:
        """Return where a repository has it."""
        return f"{self.group.replace('.', '/')}/{self.name}/{self.version}/{self.file}"


def fetched(jars: tuple[Jar, ...], folder: Path, address: str | None) -> list[Path]:
    """Return the jars in a folder, having fetched those that are not there; raise `PeerFailed` where that fails.

    `address` is that of a repository; None stands for `NEARCAST_MAVEN`, else for the usual one.
    """
    paths = [folder / jar.file for jar in jars]
    for jar, path in zip(jars, paths, strict=True):
        if not path.exists():
            _fetch(jar, path, address or repository())
    return paths


def repository() -> str:
    """Return the address of the repository: the environment's, else the usual one, as Spark's Ivy or Maven has it."""
    named = os.environ.get(ENVIRONMENT)
    if named:
        return named
    for jar, member in _tools():
        with zipfile.ZipFile(jar) as opened:
            found = _ADDRESS.search(opened.read(member)) if member in opened.namelist() else None
        if found is not None:
            return found[0].decode()
    raise PeerFailed(
        "no jars, and no address of a Maven repository to fetch them from: "
        f"give --maven URL, set {ENVIRONMENT}, or install nearcast[spark]"
    )


def _tools() -> Iterator[tuple[Path, str]]:
    """Yield jars of installed tools that may know the address, with the file in them that does."""
    spark = find_spec("pyspark")
    if spark is not None and spark.origin is not None:
        yield from ((jar, _IVY_CLASS) for jar in (Path(spark.origin).parent / "jars").glob("ivy-*.jar"))
    maven = shutil.which("mvn")
    if maven is not None:
        lib = Path(maven).resolve().parents[1] / "lib"
        yield from ((jar, _MAVEN_POM) for jar in lib.glob("maven-model-builder*.jar"))


def _fetch(jar: Jar, path: Path, address: str) -> None:
    try:
        with urllib.request.urlopen(f"{address.rstrip('/')}/{jar.path}", timeout=_ANSWERS_S) as answer:
            found = answer.read()
    except urllib.error.HTTPError as error:
        error.close()
        raise PeerFailed(f"the Maven repository has no {jar.path}: {error}") from error
    except (OSError, ValueError) as error:
        raise PeerFailed(f"the Maven repository is out of reach: {error}") from error
    if hashlib.sha256(found).hexdigest() != jar.sha256:
        raise PeerFailed(f"{jar.file} from the Maven repository has another SHA-256 than {jar.sha256}; not used")
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, lambda temporary: temporary.write_bytes(found))
