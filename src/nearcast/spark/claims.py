"""Which task of a job runs which payload, agreed on by files: whoever comes first claims one.

Spark gives partitions to Python workers as they come free, so a payload whose data a worker holds in memory would as
often as not end at another. Here a task looks first for a payload its worker is fit for. On a cluster the workers of
one executor agree among themselves: which executor gets what, preferred locations say.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Collection, Iterable
from pathlib import Path


class Claims:
    """The claims of one job of `n` tasks and `n` payloads, in a folder that all its workers see.

    A claim is a file with the number of the payload as its name and that of the task in it. It is linked into place
    with all it says, so that a worker that dies at any moment leaves a whole claim or none.
    """

    def __init__(self, folder: str | Path, n: int):
        self._folder, self._n = Path(folder), n

    def take(self, task: int, is_again: bool, preferred: Iterable[int], barred: Collection[int] = ()) -> int | None:
        """Return the payload this task runs: what it had before, else a preferred one, its own, or any that is free.

        Those that are `barred` it does not take; None if it finds no other, as a second copy of a running task may.
        """
        if is_again:
            before = self._taken_by(task)
            if before is not None:
                return before
        wanted: list[int] = [*preferred, task, *range(self._n)]
        for payload in wanted:
            if 0 <= payload < self._n and payload not in barred and self._claim(payload, task):
                return payload
        return self._taken_by(task)

    def _claim(self, payload: int, task: int) -> bool:
        claim = self._folder / str(payload)
        if claim.exists():
            return False
        draft = self._folder / f".{payload}.{secrets.token_hex(8)}"
        draft.write_text(f"{task} {os.getpid()}")
        try:
            os.link(draft, claim)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        return True

    def _taken_by(self, task: int) -> int | None:
        for payload in range(self._n):
            try:
                owner = (self._folder / str(payload)).read_text().split()[0]
            except FileNotFoundError:
                continue
            if int(owner) == task:
                return payload
        return None


def executor_claims(claims: str) -> str:
    """Return a name, that no other job gets, for the claims of a job within its executors: stream / job."""
    stream, job = os.path.split(claims)
    return f"{hashlib.sha256(stream.encode()).hexdigest()[:16]}/{job}-{secrets.token_hex(4)}"


def executor_folder(name: str) -> Path:
    """Return the folder of this executor for the claims of a job; those of earlier jobs of the stream are removed.

    It lies where the executor has its blocks, which Spark removes with it.
    """
    own = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()
    folder = Path(own) / "nearcast-claims" / name
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for other in folder.parent.iterdir():
            if other != folder:
                shutil.rmtree(other, ignore_errors=True)
    return folder
