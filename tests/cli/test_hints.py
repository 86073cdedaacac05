"""Which option an error of a command names: one that does what it advises, and that this command has."""

import pyarrow as pa
import pyarrow.parquet as pq


def write(folder, messages: dict, subscriptions: dict) -> None:
    """Write the two files of a workload."""
    for name, columns in (("messages", messages), ("subscriptions", subscriptions)):
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")


def test_a_benchmark_names_no_option_that_it_lacks(nearcast, tmp_path):
    """`bench` cannot rename columns; its error says what is missing, as that of `match` does."""
    write(tmp_path, {"id": [1], "text": ["tea"], "lon": [1.0]}, {"id": [1], "query": ["tea"]})
    result = nearcast("bench", "boolean", "--workload", tmp_path)
    assert 1 == result.status
    assert result.complaint.rstrip().endswith("there is no column lat; there are: id, text, lon; rename one")
    files = ("--subscriptions", tmp_path / "subscriptions.parquet", "--messages", tmp_path / "messages.parquet")
    assert "rename one, --map lat=NAME" in nearcast("match", *files, "--out", tmp_path / "out.csv").complaint


def test_a_benchmark_names_the_options_it_has(nearcast, tmp_path):
    """`bench` takes a space."""
    write(tmp_path, {"id": [1], "text": ["tea"]}, {"id": [1], "query": ["tea"]})
    result = nearcast("bench", "boolean", "--workload", tmp_path)
    assert (1, True) == (result.status, "give the space, earth or plane, with --space" in result.complaint)
