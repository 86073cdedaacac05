"""What peers stand on: a server that goes when we go, jars that are checked, a Java process that says why it ended."""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from nearcast.bench.peers import java_program, maven
from nearcast.bench.peers.contract import PeerFailed, PeerSettings
from nearcast.bench.peers.java_program import JavaProgram, compiled
from nearcast.bench.peers.lucene import LucenePeer
from nearcast.bench.peers.maven import ENVIRONMENT, Jar, fetched
from nearcast.bench.peers.postgis import PostgisPeer
from nearcast.bench.peers.postgres_server import PostgresServer
from support.waiting import wait_until

BYTES = b"a jar"
JAR = Jar("org.example.tea", "cake", "1.0", hashlib.sha256(BYTES).hexdigest())


@pytest.fixture
def repository(tmp_path):
    """Return the folder of a Maven repository that has one jar."""
    place = tmp_path / "maven" / "org" / "example" / "tea" / "cake" / "1.0" / "cake-1.0.jar"
    place.parent.mkdir(parents=True)
    place.write_bytes(BYTES)
    return tmp_path / "maven"


def test_jars_are_fetched_once_and_checked(repository, tmp_path, monkeypatch):
    """By coordinates from the address given, else from the environment's; then nobody is asked any more."""
    monkeypatch.setenv(ENVIRONMENT, "file:///nowhere")
    (given,) = fetched((JAR,), tmp_path / "a", repository.as_uri() + "/")
    monkeypatch.setenv(ENVIRONMENT, repository.as_uri())
    (named,) = fetched((JAR,), tmp_path / "b", None)
    shutil.rmtree(repository)

    assert [BYTES, BYTES] == [path.read_bytes() for path in (given, named)]
    assert [given] == fetched((JAR,), tmp_path / "a", "file:///nowhere")


def test_jars_that_cannot_be_had_or_are_others_are_refused(repository, tmp_path):
    """The error says which, and nothing is left in the cache."""
    with pytest.raises(PeerFailed, match="SHA-256"):
        fetched((JAR._replace(sha256="0" * 64),), tmp_path / "cache", repository.as_uri())
    with pytest.raises(PeerFailed, match="out of reach"):
        fetched((JAR._replace(version="2.0"),), tmp_path / "cache", repository.as_uri())

    assert not (tmp_path / "cache").exists()


def test_the_usual_repository_is_the_one_that_tools_know(tmp_path, monkeypatch):
    """As Spark's Ivy or Maven has it; without either, the error says what to give."""
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    jar = tmp_path / "ivy-1.jar"
    with zipfile.ZipFile(jar, "w") as written:
        written.writestr("known", b"\x00\x01http://tea.example/maven2\x00")
    monkeypatch.setattr(maven, "_tools", lambda: iter([(jar, "unknown"), (jar, "known")]))
    assert "http://tea.example/maven2" == maven.repository()

    monkeypatch.setattr(maven, "_tools", lambda: iter([]))
    with pytest.raises(PeerFailed, match="give --maven URL, set NEARCAST_MAVEN"):
        maven.repository()


def test_a_peer_without_its_jars_is_missing(tmp_path, monkeypatch):
    """The reason is one line, and no process was started."""
    monkeypatch.setenv("NEARCAST_CACHE_DIR", str(tmp_path))
    why = LucenePeer(PeerSettings(maven=(tmp_path / "empty").as_uri())).why_missing()

    assert why is not None
    assert why.startswith("the Maven repository is out of reach")
    assert "\n" not in why


@pytest.fixture
def java():
    from nearcast._java import ensure_java
    from nearcast.errors import NearcastError

    try:
        return ensure_java()
    except NearcastError as error:
        pytest.skip(f"Java IS NOT TESTED: {error}")


SOURCE = """
public final class Tea {
  public static void main(String[] given) throws Exception {
    System.out.println("noise");
    System.out.println("ready " + given[0]);
    if (System.in.read() == 'x') throw new IllegalStateException("no tea");
    System.out.println("done 42");
    System.in.read(new byte[100]);
    System.in.read();
  }
}
"""


def test_a_java_file_is_compiled_once_and_answers(java, tmp_path):
    """By javac where there is one; what a process says before it ends is part of the error."""
    source = tmp_path / "Tea.java"
    source.write_text(SOURCE)
    classes = compiled(source, [], tmp_path / "cache", None)
    before = (classes / "Tea.class").stat().st_mtime_ns
    assert (classes, before) == (
        compiled(source, [], tmp_path / "cache", None),
        (classes / "Tea.class").stat().st_mtime_ns,
    )
    program = JavaProgram("Tea", [classes], ["green"], 1 << 28)
    try:
        assert ("green", 42) == (program.greeting, program.ask("hello"))
    finally:
        program.close()
    program = JavaProgram("Tea", [classes], ["green"], 1 << 28)
    with pytest.raises(PeerFailed, match=r"ended with 1: .*no tea"):
        program.ask("x")
    program.close()

    source.write_text("nonsense")
    with pytest.raises(PeerFailed, match=r"Tea\.java does not compile"):
        compiled(source, [], tmp_path / "cache", None)
    assert [classes.name] == [path.name for path in (tmp_path / "cache").iterdir() if path.is_dir()]


def test_without_javac_the_compiler_comes_from_maven(java, tmp_path, monkeypatch):
    """ECJ compiles the same file."""
    usual = shutil.which
    monkeypatch.setattr(
        java_program.shutil, "which", lambda name, **given: None if name == "javac" else usual(name, **given)
    )
    source = tmp_path / "Tea.java"
    source.write_text(SOURCE)
    try:
        classes = compiled(source, [], tmp_path / "cache", None)
    except PeerFailed as error:
        pytest.skip(f"ECJ IS NOT TESTED: {error}")

    assert (classes / "Tea.class").exists()


KILLED = """
import sys, time
from nearcast.bench.peers.postgres_server import PostgresServer
server = PostgresServer()
print(server._process.pid, server.folder, flush=True)
time.sleep(3600)
"""


def test_a_server_is_gone_with_its_folder_and_with_us(tmp_path):
    """When it is closed, and when the process that started it is killed, wherever `setpriv` is installed."""
    why = PostgisPeer(PeerSettings()).why_missing()
    if why is not None:
        pytest.skip(f"postgis IS NOT TESTED: {why}")
    server = PostgresServer()
    with server.connect() as connection:
        (answer,) = connection.execute("SELECT 1").fetchone()
    process = server._process
    server.close()
    assert (1, False, True) == (answer, server.folder.exists(), process.poll() is not None)

    if shutil.which("setpriv") is None:
        pytest.skip("a server's end with ours IS NOT TESTED: setpriv is not installed")
    ours = subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True)
    try:
        pid, folder = ours.stdout.readline().split()
        os.kill(ours.pid, signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{pid}").exists())
    finally:
        ours.kill()
        ours.communicate()
    shutil.rmtree(folder, ignore_errors=True)
