"""Where files live when it is an object store: S3, Google Cloud Storage, Azure, by the client `obstore`.

A commit is one put on the condition that the name is free (`If-None-Match: *`), which the server decides. Credentials
and endpoints come from the environment (`AWS_ENDPOINT_URL`, `AWS_ACCESS_KEY_ID`, ...), as the client reads it.
"""

from __future__ import annotations

import errno
import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyarrow import fs

from nearcast.errors import NotSupported
from nearcast.pipeline.store.remote_place import RemotePlace

#: The schemes that the client opens; Hadoop, and so Spark, calls s3a what others call s3.
OBJECT_SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss")
#: Spark tries a task again by itself.
_RETRY = {"max_retries": 3, "retry_timeout": timedelta(seconds=30)}
_PIECE = 1 << 22
_LONGEST_REASON = 300
_ANSWER = re.compile(r"<Code>(?P<code>[^<]*)</Code>\s*<Message>(?P<message>[^<]*)</Message>")


class ObjectPlace(RemotePlace):
    """A prefix of a bucket; every object appears complete, in one step."""

    def __init__(self, root: str, cache: str | None):
        client = _client(root)
        parts = urlsplit(root, allow_fragments=False)
        super().__init__(root, client, parts.path.strip("/"), cache)
        self._client = client
        self._exceptions = importlib.import_module("obstore.exceptions")
        bucket = f"{parts.scheme.replace('s3a', 's3')}://{parts.netloc}"
        try:
            store = importlib.import_module("obstore.store")
            options = {"client_options": {"allow_http": True}, "retry_config": _RETRY}
            self._bucket = store.from_url(bucket, **options)
        except self._exceptions.BaseError as error:
            raise NotSupported(f"{root} cannot be opened: {_reason(error)}") from None

    def url(self, name: str) -> str:
        """Return what Spark calls a file or folder: it knows S3 as s3a."""
        url = super().url(name)
        return f"s3a:{url.removeprefix('s3:')}" if url.startswith("s3:") else url

    def create(self, name: str, data: bytes) -> bool:
        """Put an object on the condition that there is none; tell whether it was put.

        A put that was answered too late is tried again by the client, and then finds itself: compare the bytes.
        """
        with self._explained(name):
            try:
                self._client.put(self._bucket, self._at(name), data, mode="create")
            except self._exceptions.AlreadyExistsError:
                return False
            except (self._exceptions.NotSupportedError, NotImplementedError):
                raise NotSupported(f"{self.root} has no conditional put, which a commit needs") from None
        return True

    def rename(self, old: str, new: str) -> None:
        """Copy an object to another name and delete it; what had that name before is gone."""
        if self._info(old).type == fs.FileType.NotFound:
            raise FileNotFoundError(errno.ENOENT, "there is no such object", self.url(old))
        with self._explained(old):
            self._client.copy(self._bucket, self._at(old), self._at(new))
            self._remove(old)

    def read(self, name: str) -> bytes:
        """Return the content of an object."""
        with self._explained(name):
            return bytes(self._client.get(self._bucket, self._at(name)).bytes())

    def delete(self, name: str) -> None:
        """Remove an object, or all of a folder, the list of its contents first; it is fine if there is none."""
        inside = sorted(self._all_files(name), key=lambda each: (not each.endswith("_contents.json"), each))
        with self._explained(name):
            for each in (name, *inside):
                self._remove(each)

    def _remove(self, name: str) -> None:
        with suppress(FileNotFoundError):  # S3 does not tell; Google and Azure do, also of one they removed just before
            self._client.delete(self._bucket, self._at(name))

    def copy_to(self, name: str, target: Path) -> None:
        """Download an object to a path of this host."""
        with self._explained(name), target.open("wb") as file:
            for piece in self._client.get(self._bucket, self._at(name)).stream(min_chunk_size=_PIECE):
                file.write(piece)

    def _info(self, name: str) -> Any:
        path = self._at(name)
        with self._explained(name):
            try:
                found = self._client.head(self._bucket, path)
            except FileNotFoundError:
                kind = fs.FileType.Directory if self._all_files(name) else fs.FileType.NotFound
                return fs.FileInfo(path, type=kind)
        stamp = int(found["last_modified"].timestamp() * 1e9)
        return fs.FileInfo(path, type=fs.FileType.File, size=found["size"], mtime_ns=stamp)

    def _all_files(self, folder: str) -> dict[str, int]:
        cut = len(self._path) + 1 if self._path else 0
        prefix = self._at(folder) or None
        with self._explained(folder):
            pieces = list(self._client.list(self._bucket, prefix=prefix))
        return {each["path"][cut:]: int(each["size"]) for piece in pieces for each in piece}

    def _upload(self, source: Path, target: str) -> int:
        with self._explained(target):
            self._client.put(self._bucket, target, source)
        return source.stat().st_size

    def _at(self, name: str) -> str:
        return "/".join(filter(None, (self._path, name)))

    @contextmanager
    def _explained(self, name: str) -> Iterator[None]:
        """Turn errors of the client into numbered ones of the operating system, whose reasons fit on a line."""
        try:
            yield
        except FileNotFoundError as error:
            raise FileNotFoundError(errno.ENOENT, "there is no such object", self.url(name)) from error
        except self._exceptions.BaseError as error:
            refused = (self._exceptions.PermissionDeniedError, self._exceptions.UnauthenticatedError)
            number = errno.EACCES if isinstance(error, refused) else errno.EIO
            raise OSError(number, _reason(error), self.url(name)) from error


def _client(root: str) -> Any:
    try:
        return importlib.import_module("obstore")
    except ImportError:
        raise NotSupported(
            f"{root} is in an object store; install its client: pip install 'nearcast[remote]'"
        ) from None


def _reason(error: Exception) -> str:
    """Return what the server answered, else what the client says without its trace."""
    answer = _ANSWER.search(str(error))
    if answer is not None:
        return f"{answer['code']}: {answer['message']}"
    return " ".join(str(error).split("\n\nDebug source")[0].split())[:_LONGEST_REASON]
