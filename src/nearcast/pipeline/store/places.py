"""The one way to open a place: a path or URI in, what reads and writes the files there out."""

from __future__ import annotations

import importlib
import re
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from nearcast.errors import NotSupported
from nearcast.pipeline.store.local_place import LocalPlace, StoreError, one_line
from nearcast.pipeline.store.object_place import OBJECT_SCHEMES, ObjectPlace
from nearcast.pipeline.store.remote_place import FsspecPlace, RemotePlace
from nearcast.pipeline.store.shared_place import SharedPlace, is_on_network

Place = LocalPlace | RemotePlace


def is_uri(root: str) -> bool:
    """Tell a URI from a path."""
    return re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:/", root) is not None


def local_root(root: str) -> str | None:
    """Return the path that a path or `file:` URI names on this host; None for a place elsewhere."""
    if not is_uri(root):
        return root
    # Arrow refuses a space, which people and Spark write as it is.
    return unquote(re.sub("^file:(//[^/]*)?", "", root)) if root.startswith("file:") else None


def spark_url(root: str) -> str:
    """Return what Spark calls a place: it knows S3 as s3a only, and takes a path in a URI as it stands, unescaped."""
    path = local_root(root)
    return re.sub("^s3:", "s3a:", root) if path is None or path == root else f"file://{path}"


def open_place(root: str, cache: str | None = None) -> Place:
    """Return the place a path or URI names; copies of what is mapped from elsewhere go to the folder `cache`.

    NotSupported names a place that cannot be opened here, and what to install.
    """
    here = local_root(root)
    if here is not None:
        return SharedPlace(here, cache) if is_on_network(here) else LocalPlace(here)
    if urlsplit(root).scheme.lower() in OBJECT_SCHEMES:
        return ObjectPlace(root, cache)
    try:
        files, path = fs.FileSystem.from_uri(root)
    except pa.ArrowInvalid:
        return _through_fsspec(root, cache)
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"{root} cannot be opened: {one_line(error)}") from None
    return RemotePlace(root, files, path, cache)


def _through_fsspec(root: str, cache: str | None) -> Place:
    try:
        fsspec = importlib.import_module("fsspec")
    except ImportError:
        raise NotSupported(f"{root}: Arrow does not know this kind of place; install fsspec, or use a path") from None
    try:
        files, path = fsspec.url_to_fs(root)
    except (ValueError, ImportError, OSError) as error:
        raise NotSupported(f"{root}: fsspec cannot open this place ({one_line(error)})") from None
    return FsspecPlace(root, files, path, cache)
