"""Files and lines made to break readers: rejected rows only, every line accounted for, and the process lives on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nearcast import Hub
from nearcast.errors import InvalidColumns
from nearcast.files import read_batches, read_lines, read_table, united
from nearcast.tables import Rejected
from nearcast.tables.names import ROW_COLUMN

#: Mutated lines for each reader; more by hand: NEARCAST_FUZZ_LINES=100000 pytest tests/files/test_hostile_files.py.
FUZZ_LINES = int(os.environ.get("NEARCAST_FUZZ_LINES", "500"))
GOOD = b'{"id": 1, "a": 2}'

LINES = {
    "null": (b"null", "no JSON object"),
    "null with spaces": (b"  null ", "no JSON object"),
    "a number": (b"12", "no JSON object"),
    "text": (b'"x"', "no JSON object"),
    "a list": (b'[{"id": 1}]', "no JSON object"),
    "true": (b"true", "no JSON object"),
    "two objects": (b'{"id": 1} {"id": 2}', "not JSON"),
    "an object and null": (b'{"id": 1} null', "not JSON"),
    "half an object": (b'{"id": 1, "a": {}', "not JSON"),
    "the other half": (b', "b": {"id": 1}}', "not JSON"),
    "a zero byte": (b"\x00", "not JSON"),
    "a mark of byte order": (b"\xef\xbb\xbf" + GOOD, "not JSON"),
    "no UTF-8": (b'{"id": 1, "a": "\xff"}', "UTF-8"),
    "half a character": (b'{"id": 1, "a": "\\ud800"}', "half a character"),
    "half a character in UTF-8": (b'{"id": 1, "a": "\xed\xa0\x80"}', "UTF-8"),
    "half a character in a name": (b'{"id": 1, "\\udfff": 1}', "half a character"),
    "a number of 5,000 digits": (b'{"id": 1, "a": ' + b"9" * 5000 + b"}", "4300 digits"),
    "an id of 400 digits": (b'{"id": ' + b"9" * 400 + b"}", "64 bits"),
    "lists 101 deep": (b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}", "100 deep"),
    "lists 5,000 deep": (b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}", "100 deep"),
    "objects 20,000 deep": (b'{"a":' * 20_000 + b"1" + b"}" * 20_000, "100 deep"),
    "depth behind brackets in text": (b'{"a":' + b'["]",' * 20_000 + b"1" + b"]" * 20_000 + b"}", "100 deep"),
}


def run(code, content=b""):
    """Run Python in a process of its own, which may die; return what it printed."""
    done = subprocess.run([sys.executable, "-c", code], input=content, capture_output=True, check=False)
    assert (0, b"") == (done.returncode, done.stderr)
    return done.stdout.decode()


@pytest.mark.parametrize("name", LINES)
def test_a_bad_line_among_good_ones_is_rejected_alone(name, tmp_path):
    """Whatever stands on a line, it is one rejected row, and the lines around it are read."""
    line, reason = LINES[name]
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b"\n".join([GOOD, line, GOOD]))
    rejected = Rejected()
    table = read_table(path, rejected=rejected)
    assert [0, 2] == table[ROW_COLUMN].to_pylist()
    assert [1] == [row.row for row in rejected]
    assert reason in next(iter(rejected)).reason


def test_lines_that_are_all_bad_end_in_rows_not_in_a_crash():
    """Arrow's reader ended the process at a file of `null` alone, and at deep nesting: it never sees such lines."""
    code = """
import sys
from nearcast.files import read_lines
from nearcast.tables import Rejected
for line in sys.stdin.buffer.read().split(b"|"):
    rejected = Rejected()
    table = read_lines(line, source="stream", rejected=rejected)
    print(table.num_rows, len(rejected))
"""
    lines = [line for name, (line, _) in LINES.items() if "mark" not in name]
    assert ["0 1"] * len(lines) == run(code, b"|".join(lines)).splitlines()


def test_nesting_up_to_the_limit_is_read():
    """A hundred brackets deep is fine, and so are many brackets that are not within each other."""
    deep = b'{"id": 1, "a": ' + b"[" * 99 + b"]" * 99 + b"}"
    wide = json.dumps({"id": 2, "a": [[x, x] for x in range(500)], "b": "[" * 500}).encode()
    rejected = Rejected()
    assert [[1], [2]] == [read_lines(line, source="s", rejected=rejected)["id"].to_pylist() for line in (deep, wide)]
    assert [] == list(rejected)


@pytest.mark.parametrize("beside", [b"", b'\n{"id": "z", "text": 5}'])
@pytest.mark.parametrize("number", [b"Inf", b"-Inf"])
def test_what_arrow_takes_for_a_number_is_no_json_whatever_stands_beside_it(number, beside):
    """Where a stream is cut into blocks must not decide whether a record counts."""
    rejected = Rejected()
    read_lines(b'{"id": "a", "text": "tea", "v": ' + number + b"}" + beside, source="s", rejected=rejected)
    assert [0] == [row.row for row in rejected if "JSON" in row.reason]


def collection(*features):
    return json.dumps({"type": "FeatureCollection", "features": features})


def feature(properties, geometry=(1, 2)):
    return {"type": "Feature", "geometry": {"type": "Point", "coordinates": geometry}, "properties": properties}


def deep(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (feature({"id": 2, "a": "\ud800"}), "half a character"),
        (feature({"id": 2, "\ud800": 1}), "half a character"),
        (feature({"id": 2, "a": deep(150)}), "100 deep"),
        (feature({"id": 2}, (10**400, 1)), "finite"),
        (feature({"id": 10**400}), "64 bits"),
        (None, "no JSON object"),
    ],
)
def test_a_bad_feature_of_a_collection_is_rejected_alone(bad, reason, tmp_path):
    """One Feature that cannot be stored does not stop the collection."""
    path = tmp_path / "file.geojson"
    path.write_text(collection(feature({"id": 1}), bad, feature({"id": 3})))
    rejected = Rejected()
    assert [1, 3] == read_table(path, rejected=rejected)["id"].to_pylist()
    assert [(1, True)] == [(row.row, reason in row.reason) for row in rejected]


def test_a_collection_too_deep_to_parse_is_refused_as_a_whole(tmp_path):
    """Where no parser gets to the end there are no rows to tell apart."""
    path = tmp_path / "file.geojson"
    path.write_text('{"type": "FeatureCollection", "features": ' + "[" * 100_000)
    with pytest.raises(InvalidColumns, match="is not GeoJSON"):
        next(read_batches(path))


def test_features_without_any_column_are_still_rows(tmp_path):
    """A Feature without properties and geometry is a row without an id, told apart from no row."""
    path = tmp_path / "file.geojsonl"
    path.write_text('{"type": "Feature", "geometry": null, "properties": {}}\n')
    assert 1 == read_table(path, rejected=Rejected()).num_rows


def test_numbers_of_several_kinds_in_several_batches_keep_their_value(tmp_path):
    """An integer that a float cannot hold stays as it was written where a later batch has fractions."""
    path = tmp_path / "file.jsonl"
    path.write_text('{"id": 1, "a": 9007199254740993}\n{"id": 2, "a": 0.5}\n')
    table = united(list(read_batches(path, batch_rows=1)))
    assert ["9007199254740993", "0.5"] == table["a"].to_pylist()


@pytest.mark.parametrize("column", ["text", "query"])
def test_a_key_of_the_other_space_in_one_line_rejects_that_line(column, tmp_path):
    """A table with all its places on the earth is one of the earth; a stray `y` is the fault of its row."""
    row = {"id": 1, column: "a", "lon": 1, "lat": 2, **({"radius_m": 5} if column == "query" else {})}
    path = tmp_path / "file.jsonl"
    path.write_text("".join(json.dumps({**row, "id": at, **more}) + "\n" for at, more in enumerate([{}, {"y": 3}, {}])))
    hub = Hub()
    rejected = (
        hub.subscribe_many(read_table(path)) if column == "query" else hub.publish_many(read_table(path)).rejected
    )
    assert [(1, "y")] == [(row.row, row.field) for row in rejected]


def test_mutated_files_leave_rejected_rows_and_nothing_else(tmp_path):
    """Every row of a mutated file is read or rejected, once, and no reader raises or dies."""
    program = Path(__file__).with_name("fuzz_readers.py")
    command = [sys.executable, "-W", "error", program, ".jsonl,.csv,.geojson,.geojsonl", str(FUZZ_LINES), "0"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr[-2000:])
    for suffix, counts in json.loads(done.stdout).items():
        assert counts["lines"] >= FUZZ_LINES
        assert counts["rejected"] > 0 < counts["used"]
        assert (suffix == ".jsonl") == (counts["at once"] > 0)
