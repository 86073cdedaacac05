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


def test_match_refuses_an_output_that_executors_do_not_see(spark, nearcast, tmp_path, monkeypatch):
    """The command tells it before any work; the workers are processes that do not see the folder."""
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "subscriptions.csv").write_text("id,kind,query\n1,within,coffee\n")
    (tmp_path / "messages.csv").write_text("id,text,x,y\n1,coffee,1,1\n")
    other_host = OtherHostRunner(out)
    monkeypatch.setattr("nearcast.spark.shared_folders.is_embedded", lambda _: False)
    monkeypatch.setattr("nearcast.spark.runner.SparkRunner", lambda _: other_host)
    inputs = [f"--{name}={tmp_path / name}.csv" for name in ("subscriptions", "messages")]
    ran = nearcast("match", *inputs, "--engine=spark", f"--out={out / 'deliveries.csv'}")
    assert 1 == ran.status
    assert f"nearcast: {out} is not seen by the workers on" in ran.complaint
    assert [] == list(out.iterdir())
