"""Tells failures of the file system from malformed content, by the error that a reader raised."""

from __future__ import annotations

import pyarrow as pa

from nearcast.errors import FileMissing, FileUnavailable, InvalidColumns, NearcastError

#: What Arrow raises for malformed content. Its other errors, no memory and cancelled, say nothing about what was read.
ARROW_CONTENT_ERRORS = (
    pa.ArrowInvalid,
    pa.ArrowTypeError,
    pa.ArrowNotImplementedError,
    pa.ArrowKeyError,
    pa.ArrowIndexError,
    pa.ArrowCapacityError,
    pa.ArrowSerializationError,
)


def file_error(path: object, error: Exception) -> NearcastError:
    """Return the error to raise for one that came up while a file was opened or read.

    The operating system numbers its failures. What has no number complains of content: a gzip stream that is cut off
    (`BadGzipFile` is an OSError), a footer of Parquet that Arrow cannot parse.
    """
    if getattr(error, "errno", None) is None:
        return InvalidColumns(f"{path} cannot be read: {_why(error)}")
    return fetch_error(path, error)


def fetch_error(path: object, error: Exception) -> FileUnavailable:
    """Return the error to raise for one that came up while a file was copied from elsewhere.

    Nobody has looked at its content yet; clients of remote file systems do not number all their failures.
    """
    if isinstance(error, FileNotFoundError):
        return FileMissing(f"{path}: there is no such file")
    return FileUnavailable(f"{path} cannot be read: {_why(error)}")


def _why(error: Exception) -> str:
    return " ".join(str(getattr(error, "strerror", None) or error).split()) or type(error).__name__
