"""A PostgreSQL server of our own: made in a temporary folder, reached by a unix socket there, gone at the end."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from nearcast.bench.peers.contract import PeerFailed

USER, DATABASE = "bench", "postgres"
#: Where Debian and its children keep the programs of each version.
_DEBIAN = Path("/usr/lib/postgresql")
#: One core, nothing written for safety, no work in the background: the fastest this server is in a race.
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "8GB",
    "shared_buffers": "1GB",
    "work_mem": "128MB",
    "maintenance_work_mem": "1GB",
    "max_parallel_workers_per_gather": "0",
    "max_parallel_maintenance_workers": "0",
    "autovacuum": "off",
    "jit": "off",
}
#: The longest name that a unix socket may have.
_SOCKET_LETTERS = 100
_READY_S, _STOP_S = 120.0, 60.0


def programs() -> Path | None:
    """Return the folder of `initdb` and `postgres`: on the PATH, else the newest of Debian's; None without one."""
    on_path = shutil.which("initdb")
    if on_path is not None and (Path(on_path).resolve().parent / "postgres").exists():
        return Path(on_path).resolve().parent
    found = [path.parent for path in _DEBIAN.glob("*/bin/initdb") if (path.parent / "postgres").exists()]
    return max(found, key=lambda folder: _number(folder.parent.name), default=None)


def has_extension(folder: Path, name: str) -> bool:
    """Tell whether the server whose programs lie in a folder has an extension installed."""
    config = shutil.which("pg_config", path=str(folder)) or shutil.which("pg_config")
    shared = [folder.parent / "share" / "extension", Path("/usr/share/postgresql") / folder.parent.name / "extension"]
    if config is not None:
        told = subprocess.run([config, "--sharedir"], capture_output=True, text=True, check=False).stdout.strip()
        shared.append(Path(told) / "extension")
    return any((each / f"{name}.control").exists() for each in shared)


def why_no_server() -> str | None:
    """Return why no server can be started here, None if one can."""
    if programs() is None:
        return "PostgreSQL is not installed: no initdb on the PATH or in /usr/lib/postgresql/*/bin"
    if os.geteuid() == 0 and _other_user() is None:
        return "PostgreSQL does not run as root, and there is no user postgres or nobody to run it as"
    return None


class PostgresServer:
    """A server with a new, empty cluster; `close` stops it and removes its folder.

    Root lets another user run it. Where `setpriv` is installed, the server ends by itself when this process is killed.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="nearcast-pg-"))
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop the server at once, and remove all it has written."""
        process, self._process = self._process, None
        if process is not None:
            _stop(process)
        shutil.rmtree(self.folder, ignore_errors=True)

    def connect(self) -> Any:
        """Return a connection of psycopg that commits every statement."""
        import psycopg

        return psycopg.connect(host=str(self.folder), user=USER, dbname=DATABASE, autocommit=True)

    def _start(self) -> None:
        bin_folder = programs()
        assert bin_folder is not None
        if len(str(self.folder)) > _SOCKET_LETTERS - len("/.s.PGSQL.5432"):
            raise PeerFailed(f"{self.folder} is too long a name for a unix socket; set TMPDIR to a shorter one")
        as_user = _as_other_user(self.folder)
        self._init(bin_folder, as_user)
        settings = [f"--{name}={value}" for name, value in _SETTINGS.items()]
        command = [str(bin_folder / "postgres"), "-D", str(self.folder / "data"), "-k", str(self.folder), *settings]
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [*_ends_with_us(as_user), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,  # Ctrl-C is for the benchmark, which then stops the server
                **({} if shutil.which("setpriv") else as_user),
            )
        self._wait_until_ready()

    def _init(self, bin_folder: Path, as_user: dict[str, Any]) -> None:
        """Make an empty cluster."""
        options = ["--no-sync", "--auth=trust", f"--username={USER}", "--encoding=UTF8", "--locale=C"]
        made = subprocess.run(
            [bin_folder / "initdb", "-D", self.folder / "data", *options],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            **as_user,
        )
        if made.returncode:
            raise PeerFailed(f"initdb ended with {made.returncode}: {' '.join(made.stderr[-300:].split())}")

    def _wait_until_ready(self) -> None:
        import psycopg

        assert self._process is not None
        until = time.monotonic() + _READY_S
        while time.monotonic() < until:
            if self._process.poll() is not None:
                said = (self.folder / "log").read_text(errors="replace")[-300:]
                raise PeerFailed(f"postgres ended with {self._process.returncode}: {' '.join(said.split())}")
            try:
                self.connect().close()
                return
            except psycopg.OperationalError:
                time.sleep(0.05)
        raise PeerFailed(f"postgres does not answer after {_READY_S:g} s")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a server: SIGINT lets it drop connections and leave; SIGKILL where it does not."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _other_user() -> pwd.struct_passwd | None:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return None


def _as_other_user(folder: Path) -> dict[str, Any]:
    """Return how to start a process as another user where this one is root, which then owns the folder."""
    if os.geteuid() != 0:
        return {}
    other = _other_user()
    assert other is not None
    os.chown(folder, other.pw_uid, other.pw_gid)
    return {"user": other.pw_uid, "group": other.pw_gid, "extra_groups": []}


def _ends_with_us(as_user: dict[str, Any]) -> list[str]:
    """Return the words before a command that let it end when this process does, as the user it shall run as."""
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        return []
    words = [setpriv, "--pdeathsig", "INT"]
    if as_user:
        words += ["--reuid", str(as_user["user"]), "--regid", str(as_user["group"]), "--clear-groups"]
    return [*words, "--"]


def _number(version: str) -> float:
    try:
        return float(version)
    except ValueError:
        return 0.0
