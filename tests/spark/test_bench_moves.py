"""`nearcast bench moving --spark`: a stream of moves beside a hub, over the same files."""

from dataclasses import replace

import pytest

from nearcast.bench.answers import AnswersDiffer
from nearcast.bench.moving import stream_moves
from nearcast.bench.moving.aims import AimsRequest
from nearcast.bench.moving.settings import SYNTHETIC, TOWN, MovingSetting, SettingData


@pytest.fixture
def request_of_moves(tmp_path):
    """What is measured: some subscriptions, of large regions, so that moves deliver something."""
    setting = MovingSetting(600, 800, 1, words=SYNTHETIC, roads=TOWN, seed=1)
    setting = replace(setting, region_area=0.5)
    return AimsRequest(setting, SettingData([tmp_path]), "trigger", moves=600, batch=600, command="a command")


def silent(line):
    """Say nothing of the progress."""


def test_stream_and_hub_move_the_same_files(spark, request_of_moves, tmp_path, monkeypatch):
    """All move in each batch; what is told has the rates of both, and how many deliveries they agree on."""
    for name, n in (("SMALL_BATCHES", 1), ("_WARM", 1), ("_MEASURED", 2)):
        monkeypatch.setattr(stream_moves, name, n)
    report = stream_moves.run_stream_moves(request_of_moves, tmp_path, 2, lambda: spark, silent, silent)

    values = {row["measure"]: row["value"] for row in report["results"]}
    assert values["deliveries of the measured batches"] > 10
    assert 0 < values["stream by hub"]
    assert (600, "a command") == (report["workload"]["batch"], report["workload"]["command"])


def test_rates_are_withheld_where_deliveries_differ():
    """Batch by batch."""
    hub, other = (stream_moves.MoveTimes([1.0], [n], 1.0) for n in (5, 6))

    with pytest.raises(AnswersDiffer, match=r"the hub delivers \[5\] .* the stream \[6\]"):
        stream_moves._must_equal(hub, other)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--spark", "yarn"), "--spark yarn: expected local[N], such as local[2]"),
        (("--spark", "local[2]", "--moves", "5"), "--spark moves all subscriptions in each batch; leave out --figure"),
    ],
)
def test_a_mistake_in_moves_on_spark_is_told_in_one_line(nearcast, tmp_path, options, complaint):
    """The line says what to do."""
    result = nearcast("bench", "moving", *options, "--data", tmp_path)

    assert 2 == result.status
    assert complaint in result.complaint
