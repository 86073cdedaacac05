"""A broker of Kafka as a process of this machine, which is its own controller (KRaft) and listens on loopback alone."""

from __future__ import annotations

import random
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from nearcast.bench.spark.kafka_jars import java
from nearcast.errors import NearcastError

_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
#: Ports below those that the system gives to connections: one stays free while the broker is down.
_PORTS = (20_000, 30_000)
#: Seconds until a broker that lives and does not answer counts as hanging.
_STARTS_S = 600.0
_PAUSE_S = 0.02


class LocalBroker:
    """A broker over jars in a folder, with what it keeps in another; to be used in a `with` statement, or ended.

    Listeners have names and protocols; each gets a port of its own.
    """

    def __init__(
        self,
        folder: Path,
        jars: Path,
        *,
        listeners: Mapping[str, str] | None = None,
        settings: Mapping[str, Any] | None = None,
        java_options: Sequence[str] = ("-Xmx1g",),
    ):
        self._folder = folder
        self._program = [java(), *java_options, "-cp", f"{jars}/*"]
        self._process: subprocess.Popen[bytes] | None = None
        protocols = dict(listeners or {"PLAINTEXT": "PLAINTEXT"})
        controller, *ports = _free_ports(1 + len(protocols))
        self.servers = {name: f"127.0.0.1:{port}" for name, port in zip(protocols, ports, strict=True)}
        heard = ",".join(f"{name}://{servers}" for name, servers in self.servers.items())
        named = ",".join(f"{name}:{protocol}" for name, protocol in {"CONTROLLER": "PLAINTEXT", **protocols}.items())
        all_settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "listeners": f"{heard},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": heard,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": named,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "log.dirs": folder / "data",
            "offsets.topic.replication.factor": 1,
            "auto.create.topics.enable": "false",
            **(settings or {}),
        }
        self._properties = folder / "server.properties"
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in all_settings.items()))
        tool = [*self._program, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(self._properties)]
        done = subprocess.run(tool, check=False, capture_output=True, text=True)
        if done.returncode:
            raise NearcastError(f"the broker's folder cannot be made: {' '.join(done.stderr[-500:].split())}")

    @property
    def plain(self) -> str:
        """The listener without any security."""
        return self.servers["PLAINTEXT"]

    def start(self) -> None:
        """Start it, with the topics it had, and wait until it answers."""
        with (self._folder / "log").open("ab") as log:
            command = [*self._program, "kafka.Kafka", str(self._properties)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            self._wait_until_it_answers(self._process)
        except BaseException:  # an interrupt, say
            self.kill()
            raise

    def _wait_until_it_answers(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _STARTS_S
        while not self._answers():
            if process.poll() is not None or time.monotonic() > deadline:
                raise NearcastError(f"the broker does not answer: {self.said()}")
            time.sleep(_PAUSE_S)

    def _answers(self) -> bool:
        for servers in self.servers.values():
            host, _, port = servers.partition(":")
            try:
                socket.create_connection((host, int(port)), 1).close()
            except OSError:
                return False
        return True

    def said(self) -> str:
        """Return the end of its log."""
        return (self._folder / "log").read_text(errors="replace")[-3000:]

    def kill(self) -> None:
        """End it with -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def _free_ports(n: int) -> list[int]:
    found: set[int] = set()
    while len(found) < n:
        port = random.randrange(*_PORTS)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                found.add(port)
    return list(found)
