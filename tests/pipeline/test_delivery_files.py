"""Files of deliveries: those of a hub, of `match` in its two ways, and of a stream hold the same columns and rows."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearcast import Hub, Vocabulary
from nearcast.cli._inputs import InputFile
from nearcast.cli._match_job import MatchArguments, MatchJob
from nearcast.cli._spark_match import _in_pieces
from nearcast.delivery_ids import with_delivery_ids
from nearcast.files import DeliveryWriter
from nearcast.geo import Space
from nearcast.pipeline import file_match
from nearcast.pipeline.driver.batch_source import BatchSource
from nearcast.pipeline.driver.pipeline import Pipeline
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.sinks import sink_of
from nearcast.pipeline.store.store import Store
from nearcast.tables import Rejected
from support.streams import World


class Files:
    """Two files with ids of text or integers, some messages sharing one, and a hub that has read them."""

    def __init__(self, folder: Path, *, is_text: bool):
        self.folder = folder
        world = World(5, kinds=("within", "similar"), with_times=False)
        name = (lambda kind, n: f"{kind}{n}") if is_text else (lambda _, n: n)
        people = [world.subscription(name("s", n)) for n in range(40)]
        posts = [world.message() | {"id": name("m", n % 90)} for n in range(120)]
        self.people, self.posts = (self._write(each, rows) for each, rows in (("people", people), ("posts", posts)))
        self.words = folder / "words.parquet"
        Vocabulary().to_parquet(self.words)
        hub = Hub("plane", vocabulary=Vocabulary.from_parquet(self.words), max_distance=5)
        hub.subscribe_many(people)
        self.deliveries = hub.publish_many(posts)
        assert len(self.deliveries) > 50

    def _write(self, name, rows):
        path = self.folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def by_hub(self, **options):
        with DeliveryWriter(self.folder / "hub.parquet", **options) as writer:
            writer.write(self.deliveries.to_table())
        return pq.read_table(self.folder / "hub.parquet")

    def by_match(self, nearcast, *more):
        out = self.folder / "match.parquet"
        given = ("--subscriptions", self.people, "--messages", self.posts, "--vocabulary", self.words, *more)
        assert nearcast("match", *given, "--max-distance", 5, "--out", out).status == 0
        return pq.read_table(out)

    def by_pieces(self, **options):
        inputs = InputFile(self.people, "subscriptions", {}), InputFile(self.posts, "messages", {})
        job = MatchJob(MatchArguments(self.people, self.posts, Path()), *inputs, Space.plane(), None, Rejected())
        folder, out = self.folder / "work", self.folder / "pieces.parquet"
        folder.mkdir()
        settings = PipelineSettings(job.space, max_distance=5.0)
        run = file_match.FileMatch(settings, LocalRunner(), folder, lambda *_: None, **options)
        words = Vocabulary.from_parquet(self.words)
        _in_pieces(job, run, job.subscriptions.table(job.rejected), words, out)
        return pa.concat_tables([pq.read_table(part) for part in sorted(out.glob("part-*.parquet"))])

    def by_stream(self, **options):
        store = Store(str(self.folder / "K"))
        sink = sink_of(str(self.folder / "out"), store, **options)
        settings = PipelineSettings(Space.plane(), max_distance=5.0, partitions=1, plan="hash")
        pipeline = Pipeline(store, settings, LocalRunner(), sink)
        table = InputFile(self.people, "subscriptions", {}).table(Rejected())
        pipeline.begin(table, Vocabulary.from_parquet(self.words).snapshot())
        pipeline.run(0, [BatchSource("messages", "posts", str(self.posts))])
        return pq.read_table(self.folder / "out/part-00000000-0000.parquet")


@pytest.mark.parametrize("is_text", [True, False], ids=["text", "integers"])
def test_all_files_are_equal(tmp_path, nearcast, monkeypatch, is_text):
    """With the key and without names; types are those of the ids."""
    monkeypatch.setattr(file_match, "PIECE", 32)
    files = Files(tmp_path, is_text=is_text)
    expected = files.deliveries.to_table()
    assert expected.schema.field("subscription_id").type == (pa.string() if is_text else pa.int64())
    assert "delivery_id" not in expected.column_names
    found = [files.by_hub(), files.by_match(nearcast), files.by_pieces(), files.by_stream()]
    assert [table.schema for table in found] == [expected.schema] * 4
    assert [table.to_pylist() for table in found] == [expected.to_pylist()] * 4


@pytest.mark.parametrize("is_text", [True, False], ids=["text", "integers"])
def test_names_on_request(tmp_path, nearcast, monkeypatch, is_text):
    """`--delivery-ids` adds the names that the values have, and nothing else changes."""
    monkeypatch.setattr(file_match, "PIECE", 32)
    files = Files(tmp_path, is_text=is_text)
    expected = files.deliveries.to_table(delivery_ids=True)
    assert expected["delivery_id"].to_pylist() == [each.delivery_id for each in files.deliveries]
    found = [
        files.by_hub(delivery_ids=True),
        files.by_match(nearcast, "--delivery-ids"),
        files.by_pieces(delivery_ids=True),
        files.by_stream(delivery_ids=True),
    ]
    assert [table.schema for table in found] == [expected.schema] * 4
    assert [table.to_pylist() for table in found] == [expected.to_pylist()] * 4


def test_files_of_match_and_of_a_stream_get_the_same_names_from_the_function(tmp_path, nearcast):
    """A reader of files without names makes them, and has those of a file that was written with them."""
    files = Files(tmp_path, is_text=True)
    plain = files.by_match(nearcast)
    assert with_delivery_ids(plain).to_pylist() == files.by_match(nearcast, "--delivery-ids").to_pylist()


def test_names_are_in_whatever_is_handed_over(tmp_path):
    """A function of the deliveries sees them without asking; memory on request."""
    handed = []
    store = Store(str(tmp_path / "K"))
    table = Files(tmp_path, is_text=True).deliveries.to_table()
    names = with_delivery_ids(table)["delivery_id"].to_pylist()
    sink = sink_of(lambda given, _: handed.append(given), store)
    sink.function(pq.read_table(store.local(sink.stage(1, 0, [table])["staged"])), 1)
    assert handed[0]["delivery_id"].to_pylist() == names
    for wanted in (False, True):
        sink = sink_of("memory", store, delivery_ids=wanted)
        sink.publish(1, [sink.stage(1, 0, [table])])
        assert ("delivery_id" in sink.to_table().column_names) == wanted
