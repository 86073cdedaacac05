"""Compiles a Java file of ours and runs it behind a pipe: a command a line in, an answer a line out."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import IO

from nearcast._java import ensure_java
from nearcast.bench.peers.contract import PeerFailed
from nearcast.bench.peers.maven import Jar, fetched

_RELEASE = "17"
#: The compiler of Eclipse, for a Java without javac; it runs on Java 17.
_ECJ = Jar("org.eclipse.jdt", "ecj", "3.33.0", "f7686c4960cf70c2ebc5c500a73a8cfc04541b730c18f1c5c21329889b137f45")


def compiled(source: Path, jars: list[Path], folder: Path, maven: str | None) -> Path:
    """Return the folder with the classes of a Java file, compiled once for its text and its jars.

    By the `javac` beside the Java that will run it, else on the PATH, else by ECJ.
    """
    key = hashlib.sha256(source.read_bytes() + "".join(jar.name for jar in jars).encode()).hexdigest()[:16]
    classes = folder / f"classes-{key}"
    if classes.is_dir():
        return classes
    folder.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder, prefix=".classes-"))
    try:
        command = [*_compiler(folder, maven), "-cp", _class_path(jars), "-d", str(temporary), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise PeerFailed(f"{source.name} does not compile: {' '.join((done.stdout + done.stderr)[:500].split())}")
        if not classes.is_dir():
            os.replace(temporary, classes)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return classes


def _compiler(folder: Path, maven: str | None) -> list[str]:
    home = ensure_java() / "bin"
    javac = shutil.which("javac", path=str(home)) or shutil.which("javac")
    if javac is not None:
        return [javac, "--release", _RELEASE]
    (ecj,) = fetched((_ECJ,), folder, maven)
    return [str(home / "java"), "-jar", str(ecj), f"-{_RELEASE}"]


def _class_path(places: list[Path]) -> str:
    return os.pathsep.join(map(str, places))


class JavaProgram:
    """A Java process that answers commands on its stdin; it ends when stdin does, also where we are killed."""

    def __init__(self, main: str, class_path: list[Path], arguments: list[str], heap_bytes: int) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (open as long as the process)
        heap = f"-Xmx{max(heap_bytes >> 20, 256)}m"
        command = [str(ensure_java() / "bin" / "java"), heap, "-cp", _class_path(class_path), main, *arguments]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True
        )
        self.greeting = self._answer("ready")

    def ask(self, *words: str) -> int:
        """Send a command; return the number it is answered with."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("\t".join(words) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # why it ended is told by what it said last
        return int(self._answer("done"))

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def _answer(self, word: str) -> str:
        """Return the rest of the line that begins with a word; lines of others are passed over."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(f"{word} "):
                return line.removeprefix(word).strip()
        status = self._process.wait()
        self._errors.seek(0)
        said = " ".join(self._errors.read()[-400:].decode(errors="replace").split())
        raise PeerFailed(f"the Java process ended with {status}: {said}")
