"""What a newcomer gets wrong with stores and streams: told in their own words, and before Spark is started."""

import pytest

from nearcast.cli import main
from nearcast.cli.inspect import inspect
from nearcast.cli.stream import _BatchDisplay
from nearcast.errors import IncompatibleStore, InvalidInput
from nearcast.geo import Space
from nearcast.pipeline.driver.pipeline import Pipeline
from nearcast.pipeline.preparation.prepared_store import prepare
from nearcast.pipeline.runner import LocalRunner
from nearcast.pipeline.settings import PipelineSettings
from nearcast.pipeline.sinks import sink_of
from nearcast.pipeline.store.store import Store
from nearcast.spark import stream
from nearcast.window import Window

WISHES = "id,query,lon,lat,radius_m\na,ipad,13.4,52.5,800\n"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Return a folder with raw files and a store that was prepared without a window."""
    folder = tmp_path_factory.mktemp("prepared")
    (folder / "wishes.csv").write_text(WISHES)
    prepare([folder / "wishes.csv"], folder / "store", PipelineSettings(Space.earth(), partitions=1), LocalRunner())
    return folder


def test_a_stream_with_other_settings_than_its_store(prepared, tmp_path):
    """The error speaks of the store that was given and of `nearcast prepare`, not of a checkpoint."""
    store = Store(str(tmp_path / "K"))
    other = PipelineSettings(Space.earth(), window=Window.of("2h"), partitions=1)
    pipeline = Pipeline(store, other, LocalRunner(), sink_of(str(tmp_path / "out"), store))
    with pytest.raises(IncompatibleStore) as raised:
        pipeline.begin_from(str(prepared / "store" / "nearcast"))
    told = f"the store {prepared}/store was prepared with no window, not 2h; give the stream what nearcast prepare was"
    assert str(raised.value).startswith(told)


def test_a_store_that_is_there_is_refused_before_spark_is_started(prepared, capsys):
    """One line at once, instead of after a minute: a master that cannot be started is not asked."""
    with pytest.raises(SystemExit) as ended:
        main(["prepare", str(prepared / "wishes.csv"), "--out", str(prepared / "store"), "--master", "nowhere"])
    assert ended.value.code == 1
    assert "is prepared already" in capsys.readouterr().err


def test_the_summary_says_where_rejected_rows_are():
    """A stream that rejected rows names the folder."""
    show = _BatchDisplay(as_json=False)
    assert "rejected" not in show.summary("out", "out/_rejected")
    show.rejected = 2
    assert "2 rows rejected, why is in out/_rejected;" in show.summary("out", "out/_rejected")


def test_labels_of_inspect_do_not_touch_their_values(prepared, capsys):
    """The longest label has a space after it."""
    inspect(str(prepared / "store"))
    assert "rules of words " in capsys.readouterr().out


@pytest.mark.parametrize("out", [5, None, ["out"]])
def test_an_output_of_another_type(out, tmp_path):
    """A number does not become the name of a folder."""
    with pytest.raises(InvalidInput, match=r"out is .*; expected a folder, kafka://"):
        sink_of(out, Store(str(tmp_path / "K")))


def test_a_hook_that_cannot_be_called(tmp_path):
    """It is refused before the stream begins, not counted in every batch."""
    with pytest.raises(InvalidInput, match="on_batch is 'print'; expected a function of a BatchProgress"):
        stream(str(tmp_path), str(tmp_path), out=str(tmp_path / "o"), checkpoint=str(tmp_path / "K"), on_batch="print")
