"""`nearcast generate` and the workloads behind it."""

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from nearcast.bench.data import workloads
from nearcast.bench.data.workloads import drawn_from, generated, open_workload, save_workload
from nearcast.errors import InvalidColumns, InvalidInput

PLANE_BOX, EARTH_BOX = ["x_min", "y_min", "x_max", "y_max"], ["west", "south", "east", "north"]


@pytest.fixture
def venues(tmp_path):
    """Thirty rows whose every word names its row, so that words tell which row they came from."""
    rows = range(30)
    table = pa.table(
        {
            "text": [f"Cafe{row} Bar{row} Shop{row} the" for row in rows],
            "lon": [10.0 + row / 100 for row in rows],
            "lat": [50.0 + row / 100 for row in rows],
        }
    )
    path = tmp_path / "venues.parquet"
    pq.write_table(table, path)
    return path


def rows_of(words):
    return {int(word.strip("abcdefghijklmnopqrstuvwxyz")) for word in words if word != "the"}


def test_same_seed_gives_the_same_tables():
    """A workload can be made again."""
    first, again = (generated(subscriptions=50, messages=20, seed=3) for _ in range(2))
    assert first.subscriptions.equals(again.subscriptions)
    assert first.messages.equals(again.messages)


def test_another_seed_gives_other_tables():
    """Seeds differ in words and in places."""
    first, other = (generated(subscriptions=50, messages=20, seed=seed) for seed in (3, 4))
    assert not first.subscriptions["query"].equals(other.subscriptions["query"])
    assert not first.messages["x"].equals(other.messages["x"])


def test_messages_do_not_depend_on_the_number_of_subscriptions():
    """The same messages can be matched against more and more subscriptions."""
    few, many = (generated(subscriptions=n, messages=20) for n in (10, 1000))
    assert few.messages.equals(many.messages)


def test_columns_on_the_plane_and_on_the_earth():
    """The columns are those of the interchange format, and tell the space."""
    plane, earth = (generated(subscriptions=5, messages=5, space=space) for space in ("plane", "earth"))
    assert ["id", "kind", "query", *PLANE_BOX] == plane.subscriptions.column_names
    assert ["id", "terms", "x", "y"] == plane.messages.column_names
    assert ["id", "kind", "query", *EARTH_BOX] == earth.subscriptions.column_names
    assert ["id", "terms", "lon", "lat"] == earth.messages.column_names


def test_places_on_the_earth_lie_on_the_earth():
    """No generated row is one that `match` would reject."""
    table = generated(subscriptions=5000, messages=1, space="earth").subscriptions
    west, south, east, north = (table[name].to_numpy() for name in EARTH_BOX)
    assert ((west >= -180) & (west < east) & (east <= 180)).all()
    assert ((south >= -90) & (south < north) & (north <= 90)).all()


def test_places_are_clustered():
    """A hundredth of the square holds far more than a hundredth of the messages somewhere."""
    table = generated(subscriptions=1, messages=5000).messages
    cells, *_ = np.histogram2d(table["x"].to_numpy(), table["y"].to_numpy(), bins=10)
    assert cells.max() > 5 * cells.mean()


def test_words_follow_zipf():
    """The most common word is about twice as common as the second."""
    words = pa.array(generated(subscriptions=1, messages=20_000).messages["terms"].combine_chunks().flatten())
    counts = np.sort([each["counts"] for each in words.value_counts().to_pylist()])[::-1]
    assert 1.5 < counts[0] / counts[1] < 2.5
    assert len(counts) > 10_000


def test_a_word_stands_once_in_a_row():
    """Terms of a message and words of a query are distinct."""
    made = generated(subscriptions=500, messages=500)
    for terms in made.messages["terms"].to_pylist():
        assert len(set(terms)) == len(terms) > 0
    for query in made.subscriptions["query"].to_pylist():
        words = query.split(" AND ")
        assert len(set(words)) == len(words) <= 5


def test_every_rank_has_its_own_word():
    """No two ranks of the vocabulary share a word."""
    assert workloads.VOCABULARY == len({workloads._word(rank) for rank in range(workloads.VOCABULARY)})


@pytest.mark.parametrize(
    ("kind", "columns"), [("similar", ["text_weight", "threshold"]), ("topk", ["text_weight", "k"])]
)
def test_other_kinds_have_their_columns(kind, columns):
    """Scored kinds have a point and their numbers instead of a region, and plain words."""
    table = generated(kind=kind, subscriptions=20, messages=5).subscriptions
    assert ["id", "kind", "query", "x", "y", *columns] == table.column_names
    assert not any(" AND " in query for query in table["query"].to_pylist())


def test_rows_of_a_file_serve_either_messages_or_subscriptions(venues):
    """No subscription is made from a row that is also a message."""
    made = drawn_from(venues, subscriptions=20, messages=10)
    messages = rows_of(word for terms in made.messages["terms"].to_pylist() for word in terms)
    asked = rows_of(word for query in made.subscriptions["query"].to_pylist() for word in query.split(" AND "))
    assert 10 == len(messages)
    assert not messages & asked


def test_a_message_of_a_file_keeps_its_words_and_place(venues):
    """Words are cut as `match` cuts them, and stand beside the place of their row."""
    for message in drawn_from(venues, subscriptions=5, messages=10).messages.to_pylist():
        (row,) = rows_of(message["terms"])
        assert [f"cafe{row}", f"bar{row}", f"shop{row}", "the"] == message["terms"]
        assert (10.0 + row / 100, 50.0 + row / 100) == (message["lon"], message["lat"])


def test_a_row_that_serves_again_is_moved(venues):
    """With more subscriptions than rows, none is a mere copy."""
    table = drawn_from(venues, subscriptions=60, messages=10).subscriptions
    centres = (table["west"].to_numpy() + table["east"].to_numpy()) / 2
    assert 60 == len(np.unique(centres.round(9)))


def test_rows_without_words_or_place_are_not_drawn(tmp_path):
    """Empty text, no coordinate, NaN: such rows are skipped."""
    table = pa.table({"text": ["a", "", None, "b", "c", "d"], "x": [1.0, 2, 3, None, float("nan"), 4], "y": [1.0] * 6})
    pq.write_table(table, tmp_path / "rows.parquet")
    made = drawn_from(tmp_path / "rows.parquet", subscriptions=1, messages=1)
    words = {*made.messages["terms"][0].as_py(), made.subscriptions["query"][0].as_py()}
    assert {"a", "d"} == words


def test_a_csv_file_serves_as_source(tmp_path):
    """A data file may have any format that `match` reads."""
    pa_csv.write_csv(
        pa.table({"text": ["red fox", "blue cat"], "x": [1.5, 2.5], "y": [3.0, 4.0]}), tmp_path / "rows.csv"
    )
    made = drawn_from(tmp_path / "rows.csv", subscriptions=1, messages=1)
    assert made.messages["x"][0].as_py() in (1.5, 2.5)


def test_a_file_with_too_few_rows_is_refused(venues):
    """The error says how many rows there are."""
    with pytest.raises(InvalidInput, match="has 30 rows with words and a place; 30 messages leave no subscriptions"):
        drawn_from(venues, subscriptions=5, messages=30)


def test_a_file_without_places_is_refused(tmp_path):
    """The error names the columns there are and those needed."""
    pq.write_table(pa.table({"text": ["a"], "lon": [1.0]}), tmp_path / "rows.parquet")
    with pytest.raises(InvalidColumns, match="has the columns text, lon; a workload is drawn from text and lon, lat"):
        drawn_from(tmp_path / "rows.parquet", subscriptions=1, messages=1)


def test_saved_and_opened(tmp_path):
    """A folder holds the two tables and nothing else, and opens as what was saved."""
    made = generated(subscriptions=20, messages=10)
    save_workload(made, tmp_path / "out")
    opened = open_workload(tmp_path / "out")
    assert ["messages.parquet", "subscriptions.parquet"] == sorted(path.name for path in (tmp_path / "out").iterdir())
    names = ["id", "query", *PLANE_BOX]
    assert made.subscriptions.select(names).equals(opened.subscriptions.select(names))
    assert made.messages["terms"].to_pylist() == opened.messages["terms"].to_pylist()
    assert made.about == {name: value for name, value in opened.about.items() if name != "folder"}


def test_a_failure_leaves_nothing(tmp_path, monkeypatch):
    """When the second file cannot be written, the first is not left alone."""
    write = pq.write_table

    def fail_on_messages(table, path, **options):
        if "messages" in path.name:
            raise OSError("disk full")
        write(table, path, **options)

    monkeypatch.setattr(pq, "write_table", fail_on_messages)
    with pytest.raises(OSError, match="disk full"):
        save_workload(generated(subscriptions=5, messages=5), tmp_path / "out")
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "wrong",
    [{"kind": "near"}, {"subscriptions": 0}, {"messages": 0}, {"space": "mars"}],
    ids=lambda each: next(iter(each)),
)
def test_impossible_arguments_are_refused(wrong):
    """The error names the argument."""
    with pytest.raises(InvalidInput) as caught:
        generated(**{"subscriptions": 1, "messages": 1} | wrong)
    assert next(iter(wrong)) == caught.value.field
