"""Lucene Monitor: queries registered in an index of their own, of which a presearcher picks the candidates."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from nearcast import _jit
from nearcast.bench.limits import free_memory
from nearcast.bench.peers.contract import Pairs, Peer, PeerFailed, PeerSettings, TimedPairs
from nearcast.bench.peers.java_program import JavaProgram, compiled
from nearcast.bench.peers.maven import Jar, fetched
from nearcast.errors import NearcastError

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from nearcast.bench.peers.workload import BoxSubscriptions, PointMessages

#: The last release that runs on Java 17, the oldest that Spark takes.
_VERSION = "9.11.1"
_JARS = (
    Jar(
        "org.apache.lucene",
        "lucene-monitor",
        _VERSION,
        "7d5b948b1cf77c3f50ecbdaaa86047b2f68cf7b3e21e68e1eaab62e7b7c6a704",
    ),
    Jar(
        "org.apache.lucene",
        "lucene-core",
        _VERSION,
        "cb7a9b121bce4ce054ab690ab43ac13ee11ae516d6cef67650130066beee7c9b",
    ),
    Jar(
        "org.apache.lucene",
        "lucene-memory",
        _VERSION,
        "3ed0343383ae05a27adba87a841856a7c4ff230ae6d3c388d21e49e03c0524de",
    ),
    Jar(
        "org.apache.lucene",
        "lucene-analysis-common",
        _VERSION,
        "8dfda34e75bc53906a611bae1b5870b38fd5aa3779a390565da40aa71e98d5d9",
    ),
)
_SOURCE = Path(__file__).with_name("MonitorPeer.java")
#: So many subscriptions are loaded and sent a message before a clock runs.
_REHEARSED = 1_000
#: Heap where nobody knows how much memory is free.
_USUAL_HEAP = 4 << 30


class LucenePeer(Peer):
    """A Java process with a Monitor, whose presearcher goes by the rarest word of each query.

    Its clock is that of the Java process: what goes through files beside it is not counted.
    """

    name = "lucene"
    about = "Lucene Monitor, presearcher by the rarest word; a Java process"
    arguments: ClassVar[list[str]] = []
    #: Documents of one call where all are given at once: Lucene then runs a candidate once for all of them.
    at_once: ClassVar[int] = 100

    def __init__(self, settings: PeerSettings) -> None:
        super().__init__(settings)
        self._class_path: list[Path] = []
        self._java: JavaProgram | None = None

    def why_missing(self) -> str | None:
        """Return why there is no Java, no jar or no compiler; fetches and compiles what is not there yet."""
        folder = _jit.cache_root() / "peers" / f"lucene-{_VERSION}"
        try:
            jars = fetched(_JARS, folder, self.settings.maven)
            self._class_path = [compiled(_SOURCE, jars, folder, self.settings.maven).absolute()]
            self._class_path += [jar.absolute() for jar in jars]
        except PeerFailed as error:
            return str(error)
        except NearcastError as error:
            return f"no Java: {error}"
        except OSError as error:
            return f"{folder} cannot be written: {error}"
        return None

    def version(self) -> str:
        """Return the versions of Lucene and Java; starts the process."""
        return f"Lucene {_VERSION}, {self._process().greeting}"

    def load(self, subscriptions: BoxSubscriptions) -> float:
        """Register a query for each subscription."""
        with tempfile.TemporaryDirectory(prefix="nearcast-lucene-") as folder:
            self._rehearse(subscriptions.first(_REHEARSED), Path(folder))
            return self._load(subscriptions, Path(folder))

    def _load(self, subscriptions: BoxSubscriptions, folder: Path) -> float:
        rows = folder / "subscriptions"
        _write_rows(rows, subscriptions.box, subscriptions.words)
        return self._process().ask("load", str(rows)) / 1e9

    def _rehearse(self, few: BoxSubscriptions, folder: Path) -> None:
        """Load some subscriptions and send each the message that it asks for: Java compiles what was called often."""
        self._load(few, folder)
        rows, out = folder / "rehearsal", folder / "rehearsed"
        _write_rows(rows, few.box[:, :2], few.words)
        for batch in sorted({1, self.at_once}):
            self._process().ask("match", str(rows), str(out), str(batch))

    def match(self, messages: PointMessages, *, singly: bool) -> TimedPairs:
        """Match documents one by one, or many a call."""
        batch = 1 if singly else self.at_once
        with tempfile.TemporaryDirectory(prefix="nearcast-lucene-") as folder:
            rows, out = Path(folder) / "messages", Path(folder) / "found"
            _write_rows(rows, messages.place, messages.words)
            found = self._process().ask("match", str(rows), str(out), str(batch))
            written = out.read_bytes()
        calls = -(-len(messages) // batch)
        seconds = np.frombuffer(written, ">i8", calls) / 1e9
        pairs = np.frombuffer(written, ">i4", 2 * found, 8 * calls).reshape(found, 2).astype(np.int64)
        return TimedPairs(Pairs(pairs[:, 0], pairs[:, 1]), seconds)

    def close(self) -> None:
        """End the process."""
        if self._java is not None:
            self._java.close()
            self._java = None

    def _process(self) -> JavaProgram:
        if self._java is None:
            free = free_memory()
            heap = _USUAL_HEAP if free is None else free // 2
            self._java = JavaProgram("MonitorPeer", self._class_path, self.arguments, heap)
        return self._java


class LuceneCellsPeer(LucenePeer):
    """The same with a token for the cell of each query, which the presearcher asks for beside a word."""

    name = "lucene-cells"
    about = "the same, presearcher by the rarest word and a cell's token"
    arguments: ClassVar[list[str]] = ["cells"]
    at_once: ClassVar[int] = 1  # Lucene takes documents together only where they have the same tokens to filter by


def _write_rows(path: Path, numbers: NDArray[np.float64], words: pa.ListArray) -> None:
    """Write a line a row: numbers as Python and Java both read them to the last bit, then words."""
    with path.open("w", encoding="utf-8") as file:
        for row, said in zip(numbers.tolist(), words.to_pylist(), strict=True):
            file.write(" ".join([*map(repr, row), *said]) + "\n")
