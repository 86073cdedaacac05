"""Tells failures of the file system from malformed content, by the error that a reader raised."""

from __future__ import annotations

import errno

from nearcast.errors import FileMissing, FileUnavailable, InvalidColumns, NearcastError


def file_error(path: object, error: Exception) -> NearcastError:
    """Return the error to raise for one that came up while a file was opened or read.

    The operating system numbers its failures. What has no number complains of content: a gzip stream that is cut off
    (`BadGzipFile` is an OSError), a footer of Parquet that Arrow cannot parse.
    """
    number = getattr(error, "errno", None)
    why = " ".join(str(getattr(error, "strerror", None) or error).split())
    if number is None:
        return InvalidColumns(f"{path} cannot be read: {why}")
    if number == errno.ENOENT:
        return FileMissing(f"{path}: there is no such file")
    return FileUnavailable(f"{path} cannot be read: {why}")
