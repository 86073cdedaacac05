"""Folders that workers on other hosts do not see are refused before the work, by name."""

import socket

import pytest

from nearcast.errors import InvalidInput
from nearcast.pipeline.runner import LocalRunner
from nearcast.spark.shared_folders import check_seen, is_embedded
from support.other_host import OtherHostRunner


def test_a_folder_that_another_host_does_not_see(tmp_path):
    """The folder and the host are named, and nothing is left behind."""
    out, shared = tmp_path / "out", tmp_path / "shared"
    out.mkdir()
    with pytest.raises(
        InvalidInput, match=rf"{out} is not seen by the workers on {socket.gethostname()}; give a folder"
    ):
        check_seen(OtherHostRunner(out), [str(shared), str(out)], 2)
    assert [] == [*out.iterdir(), *shared.iterdir()]


def test_folders_that_all_see(tmp_path):
    """A path, the same as a URI, and a place elsewhere pass, and nothing is left behind."""
    check_seen(LocalRunner(), [str(tmp_path), tmp_path.as_uri(), "s3://bucket/out"], 2)
    assert [] == [*tmp_path.iterdir()]


def test_masters_whose_workers_are_here():
    """A cluster of processes on this machine counts as a cluster."""
    assert [True, True, True, False, False] == [
        is_embedded(each)
        for each in ("local", "local[2]", "local[*,4]", "local-cluster[2,1,1024]", "spark://host:7077")
    ]
