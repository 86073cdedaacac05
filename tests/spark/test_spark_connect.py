"""Spark Connect is refused in one line, before anything is read or made.

Its classes cannot be imported here without the packages of its client, so that classes of their modules stand in.
"""

import pyarrow as pa
import pytest

import nearcast.spark as ns
from nearcast.errors import NotSupported

LINE = r"^this session is one of Spark Connect, and nearcast needs the driver's own; run by spark-submit.*$"
FRAME = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
SESSION = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
TABLE = pa.table({"id": ["a"], "query": ["tea"]})


@pytest.mark.parametrize(
    "call",
    [
        lambda _: ns.match(FRAME, FRAME),
        lambda _: ns.match_against(FRAME)(FRAME),
        lambda _: ns.rejected_messages(FRAME),
        lambda folder: ns.stream(FRAME, TABLE, out="memory", checkpoint=folder / "K"),
        lambda folder: ns.stream(folder, FRAME, out="memory", checkpoint=folder / "K"),
        lambda folder: ns.stream(folder, TABLE, out="memory", checkpoint=folder / "K", changes=FRAME),
        lambda folder: ns.stream(folder, TABLE, out="memory", checkpoint=folder / "K", spark=SESSION),
    ],
    ids=["match", "match_against", "rejected_messages", "messages", "subscriptions", "changes", "session"],
)
def test_it_is_refused_in_one_line(tmp_path, call):
    with pytest.raises(NotSupported, match=LINE) as told:
        call(tmp_path)
    assert "\n" not in str(told.value)
    assert [] == list(tmp_path.iterdir())


def test_an_active_session_of_it_is_refused(monkeypatch):
    from pyspark.sql import SparkSession

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: SESSION)
    with pytest.raises(NotSupported, match=LINE):
        ns.session()
