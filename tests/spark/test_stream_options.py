"""The options of a stream: what follows from what was given, without Spark."""

import dataclasses
import inspect
import subprocess
import sys

import pyarrow as pa
import pytest

from nearcast.errors import InvalidInput, NearcastError
from nearcast.geo import Space
from nearcast.spark.stream import stream
from nearcast.spark.stream_options import FILES_PER_BATCH, RECORDS_PER_BATCH, StreamOptions

TABLE = pa.table({"id": ["a"], "query": ["ipad"], "x": [1.0], "y": [2.0]})


def options(**given):
    return StreamOptions(**({"messages": "in", "subscriptions": TABLE, "out": "out", "checkpoint": "K"} | given))


def test_the_call_takes_every_option_with_the_same_default():
    """`nearcast.spark.stream` and `StreamOptions` name the same parameters; two are not options of the stream."""
    parameters = dict(inspect.signature(stream).parameters)
    assert {"spark", "on_batch"} <= parameters.keys()
    fields = {each.name: each for each in dataclasses.fields(StreamOptions)}
    assert parameters.keys() - {"spark", "on_batch"} == fields.keys()
    for name, each in fields.items():
        if each.default is not dataclasses.MISSING:
            assert each.default == parameters[name].default


def test_what_follows_from_the_source_of_messages():
    """From Kafka, the wall clock moves time and a batch is of records; from a folder, messages do and of files."""
    topic, folder = options(messages="kafka://host:9092/posts"), options(changes="more")
    assert (True, RECORDS_PER_BATCH, {}) == (topic.is_by_wall, topic.most_of(topic.messages), topic.folders)
    assert (False, FILES_PER_BATCH) == (folder.is_by_wall, folder.most_of(folder.messages))
    assert {"messages": "in", "changes": "more"} == folder.folders
    assert topic.ahead_limit is not None
    assert folder.ahead_limit is None
    assert not options(messages="kafka://host:9092/posts", clock="event").is_by_wall
    assert 7 == options(at_once=7).most_of("in")


def test_settings():
    """A partition for each slot unless given; the window is divided only where that is asked for."""
    settings = options(window="15m").settings(4)
    assert (Space.plane(), 4, 0) == (settings.space, settings.partitions, settings.window_parts)
    settings = options(window="15m", window_mode="partitioned", partitions=3).settings(4)
    assert (3, 3, False) == (settings.partitions, settings.window_parts, settings.window_by_host)
    settings = options(window="15m", window_mode="host", partitions=3).settings(4)
    assert (3, 1, True) == (settings.partitions, settings.window_parts, settings.window_by_host)
    assert "K/nearcast" == "/".join(options(checkpoint="K/").store.root.split("/")[-2:])


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"clock": "moon"}, "clock is 'moon'; expected event or wall"),
        ({"window_mode": "torn"}, "window_mode is 'torn'; expected shared, host or partitioned"),
    ],
)
def test_options_that_cannot_be_are_refused_when_they_are_made(given, reason):
    with pytest.raises(InvalidInput, match=reason):
        options(**given)


def test_what_no_stream_can_begin_with(tmp_path):
    """A folder that is no prepared store, a plan that is none, a space that the columns contradict."""
    with pytest.raises(InvalidInput, match="was not made by nearcast prepare"):
        options(subscriptions=tmp_path).settings(2)
    for given in ({"plan": "by-moon"}, {"space": "earth"}):
        with pytest.raises(NearcastError):
            options(**given).settings(2)


def test_options_need_no_spark():
    """Importing them loads nothing of Spark."""
    code = "import sys, nearcast.spark.stream_options; sys.exit('pyspark' in sys.modules)"
    assert 0 == subprocess.run([sys.executable, "-c", code], check=False).returncode
