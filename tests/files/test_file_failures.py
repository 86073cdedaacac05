"""Failures of the file system are told from malformed content: only the latter makes a file unusable."""

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearcast.errors import FileMissing, FileUnavailable, InvalidColumns
from nearcast.files import DeliveryWriter, read_batches, read_table

#: A file that can be opened and fails with EIO when it is read, on any Linux: nothing is mapped at address 0.
FAILS_WHEN_READ = "/proc/self/mem"
FORMATS = ("jsonl", "csv", "geojson", "geojsonl", "parquet")


@pytest.mark.parametrize("extension", ["jsonl", "csv", "geojson", "geojsonl", "jsonl.gz"])
def test_a_disk_that_fails_while_a_file_is_read(tmp_path, extension):
    """EIO is no malformed content: it may pass."""
    path = tmp_path / f"messages.{extension}"
    path.symlink_to(FAILS_WHEN_READ)
    with pytest.raises(FileUnavailable, match=r"messages\.\S+ cannot be read: Input/output error") as raised:
        read_table(path)
    assert raised.value.may_pass
    assert not isinstance(raised.value, FileMissing)


@pytest.mark.parametrize("extension", FORMATS)
def test_a_path_that_leads_nowhere(tmp_path, extension):
    """ENOTDIR and ENOENT may pass as well: a mount may be gone for a moment."""
    (tmp_path / "file").touch()
    with pytest.raises(FileUnavailable, match="Not a directory"):
        read_table(tmp_path / "file" / f"messages.{extension}")
    with pytest.raises(FileMissing, match="there is no such file") as raised:
        read_table(tmp_path / f"messages.{extension}")
    assert raised.value.may_pass


def test_a_file_that_goes_between_opening_and_reading(tmp_path):
    """A file of a Parquet folder that is deleted after the folder was listed is missing, not malformed."""
    folder = tmp_path / "messages.parquet"
    folder.mkdir()
    for name in "ab":
        pq.write_table(pa.table({"id": [name]}), folder / f"{name}.parquet")
    batches = read_batches(folder)
    next(batches)
    (folder / "b.parquet").unlink()
    with pytest.raises(FileMissing):
        list(batches)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl.gz", b"this is no gzip"),
        ("b.jsonl.gz", gzip.compress(b'{"id": 1}\n' * 50, mtime=0)[:-9]),
        ("c.parquet", b"PAR1 and nothing more"),
    ],
)
def test_malformed_content_stays_malformed(tmp_path, name, content):
    """What trying again would not mend is `InvalidColumns`, though Python and Arrow call some of it an OSError."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidColumns) as raised:
        read_table(tmp_path / name)
    assert not raised.value.may_pass


def test_a_folder_that_is_not_there_to_write_to(tmp_path):
    """A file that cannot be written for now may pass, and leaves nothing behind."""
    with pytest.raises(FileUnavailable, match="cannot be written"), DeliveryWriter(tmp_path / "no" / "out.jsonl"):
        pass
    assert not list(tmp_path.iterdir())
