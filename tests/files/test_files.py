"""Files of every format: rows in order, bad rows rejected alone, files that cannot be read named in one line."""

import csv
import gzip
import json
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nearcast.columns import NO_TIME
from nearcast.errors import FileMissing, FileUnavailable, InvalidColumns
from nearcast.files import DeliveryWriter, read_batches, read_table, total_rows
from nearcast.geo import ANYWHERE, BOX, CIRCLE, POLYGON, Space
from nearcast.tables import Rejected, read_messages, read_subscriptions
from nearcast.tables.names import DELIVERY_SCHEMA
from nearcast.text import Analyzer
from nearcast.text.words import WordTable

EARTH = Space.earth()
SQUARE = [[[0, 0], [2, 0], [2, 1], [0, 1], [0, 0]]]


def names_in(folder):
    return [path.name for path in folder.iterdir()]


def written(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(path, **options):
    """Return the rows of a file, without what readers add, and what was rejected."""
    rejected = Rejected()
    rows = [row for batch in read_batches(path, rejected=rejected, **options) for row in batch.to_pylist()]
    shown = [{name: value for name, value in row.items() if not name.startswith("nearcast.")} for row in rows]
    return shown, [(row.row, row.field, row.reason) for row in rejected]


def messages(path, words=None, **options):
    rejected = Rejected()
    table = read_table(path, source="messages", rejected=rejected, **options)
    words = WordTable() if words is None else words
    return read_messages(table, EARTH, words, Analyzer(), add_words=True, rejected=rejected), rejected


def subscriptions(path):
    rejected = Rejected()
    table = read_table(path, source="subscriptions", rejected=rejected)
    return read_subscriptions(table, EARTH, WordTable(), Analyzer(), rejected=rejected), rejected


def fields(rejected):
    return [(row.row, row.field) for row in rejected]


# --- any format -------------------------------------------------------------------------------------------------


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def sheet(rows):
    names = list(rows[0])
    cells = [["" if row[name] is None else str(row[name]) for name in names] for row in rows]
    return "".join(",".join(line) + "\n" for line in [names, *cells])


def features(rows):
    point = [{"type": "Point", "coordinates": [row["lon"], row["lat"]]} for row in rows]
    rest = [{name: value for name, value in row.items() if name not in ("lon", "lat", "id")} for row in rows]
    return [
        {"type": "Feature", "id": row["id"], "geometry": geometry, "properties": properties}
        for row, geometry, properties in zip(rows, point, rest, strict=True)
    ]


ROWS = [
    {"id": "m1", "text": "hot dog", "lon": 13.4, "lat": 52.5, "time": "1970-01-01T00:00:01Z"},
    {"id": "m2", "text": None, "lon": -1.0, "lat": 2.0, "time": None},
    {"id": "m3", "text": "hot", "lon": 1.5, "lat": -2.5, "time": "1970-01-01T02:00:00+02:00"},
]
FORMATS = {
    "m.jsonl": lambda rows: lines(rows).encode(),
    "m.ndjson": lambda rows: lines(rows).encode(),
    "m.csv": lambda rows: sheet(rows).encode(),
    "m.csv.gz": lambda rows: gzip.compress(sheet(rows).encode()),
    "m.JSONL.gz": lambda rows: gzip.compress(lines(rows).encode()),
    "m.geojson": lambda rows: json.dumps({"type": "FeatureCollection", "features": features(rows)}).encode(),
    "m.geojsonl": lambda rows: lines(features(rows)).encode(),
    "m.geojsons": lambda rows: "".join(f"\x1e{json.dumps(row, indent=1)}\n" for row in features(rows)).encode(),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_text_format_gives_the_same_messages(tmp_path, name):
    words = WordTable()
    found, rejected = messages(written(tmp_path / name, FORMATS[name](ROWS)), words)
    assert [] == list(rejected)
    assert ["m1", "m2", "m3"] == found.ids.to_pylist()
    assert [[13.4, 52.5], [-1.0, 2.0], [1.5, -2.5]] == found.box[:, :2].tolist()
    assert [1_000_000, NO_TIME, 0] == found.time.tolist()
    assert ["hot", "dog", "hot"] == [words.word(term) for term in found.terms.tolist()]


def test_parquet_gives_the_same_messages(tmp_path):
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "m.parquet")
    found, rejected = messages(tmp_path / "m.parquet")
    assert (["m1", "m2", "m3"], 0) == (found.ids.to_pylist(), len(rejected))
    assert 3 == total_rows(tmp_path / "m.parquet")


@pytest.mark.parametrize("name", [*FORMATS, "m.parquet"])
@pytest.mark.parametrize("batch_rows", [1, 2, 3, 100])
def test_batches_keep_the_order_of_rows(tmp_path, name, batch_rows):
    """However a file is cut, its rows come in order and know their numbers."""
    rows = [{**ROWS[0], "id": f"m{i}"} for i in range(7)]
    if name == "m.parquet":
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / name, row_group_size=3)
    else:
        written(tmp_path / name, FORMATS[name](rows))
    batches = list(read_batches(tmp_path / name, batch_rows=batch_rows))
    assert max(batch.num_rows for batch in batches) <= batch_rows
    whole = pa.concat_tables(batches, promote_options="permissive")
    assert ([f"m{i}" for i in range(7)], list(range(7))) == (
        whole["id"].to_pylist(),
        whole["nearcast.row"].to_pylist(),
    )


@pytest.mark.parametrize("name", ["e.jsonl", "e.csv", "e.geojsonl", "e.geojson"])
def test_files_without_rows_give_one_empty_table(tmp_path, name):
    content = '{"type":"FeatureCollection","features":[]}' if name == "e.geojson" else ""
    path = written(tmp_path / name, content)
    (table,) = read_batches(path, rename={"text": "title"} if name in ("e.jsonl", "e.csv") else None)
    assert 0 == table.num_rows
    assert (0, 0) == tuple(map(len, messages(path)))
    assert (0, 0) == tuple(map(len, subscriptions(path)))


@pytest.mark.parametrize("name", ["m.jsonl", "m.csv", "m.geojson"])
def test_columns_are_renamed_on_the_way_in(tmp_path, name):
    rows = [{("title" if key == "text" else key): value for key, value in row.items()} for row in ROWS]
    path = written(tmp_path / name, FORMATS[name](rows))
    words = WordTable()
    found, _ = messages(path, words, rename={"text": "title"})
    assert ["hot", "dog", "hot"] == [words.word(term) for term in found.terms.tolist()]
    with pytest.raises(InvalidColumns, match=r"no column headline to use as text; there are: .*title"):
        list(read_batches(path, rename={"text": "headline"}))


def test_total_rows_is_only_known_for_parquet(tmp_path):
    assert total_rows(written(tmp_path / "m.csv", "id\n1\n")) is None
    assert total_rows(written(tmp_path / "m.parquet", "no")) is None


# --- files that cannot be read ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("m.xlsx", "", r"the format is not known; expected a name that ends in \.parquet, \.jsonl"),
        ("plain", "", "the format is not known"),
        ("m.parquet.gz", "", "the format is not known"),
        ("m.parquet", "id,text\n", "m.parquet is not a Parquet file"),
        ("m.parquet", "", "m.parquet is not a Parquet file"),
        ("m.geojson", "{", "m.geojson is not GeoJSON: .* line 1 column 2"),
        ("m.geojson", b"\xff\xff", "m.geojson is not GeoJSON"),
        ("m.geojson", "[]", "m.geojson is no GeoJSON FeatureCollection"),
        ("m.geojson", '{"type":"FeatureCollection"}', "m.geojson is no GeoJSON FeatureCollection"),
        ("m.csv", "id,id\n", "column id is there twice"),
        ("m.csv", b"\xff\n", "not CSV in UTF-8"),
        ("m.csv.gz", "id\n", "m.csv.gz cannot be read"),
        ("m.jsonl.gz", gzip.compress(b'{"id":1}\n', mtime=0)[:-6], "m.jsonl.gz cannot be read"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, content, message):
    """Each is one line that says which file and what is wrong."""
    path = tmp_path / name
    written(path, content)
    with pytest.raises(InvalidColumns, match=message) as caught:
        list(read_batches(path))
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_told_before_the_first_row_is_asked_for(tmp_path):
    with pytest.raises(FileMissing, match="no such file"):
        read_batches(tmp_path / "absent.csv")


def test_damaged_parquet_is_told(tmp_path):
    pq.write_table(pa.table({"id": [f"id{i}" for i in range(1000)]}), tmp_path / "m.parquet", compression="zstd")
    content = bytearray((tmp_path / "m.parquet").read_bytes())
    content[40:400] = bytes(360)
    written(tmp_path / "m.parquet", bytes(content))
    with pytest.raises(InvalidColumns, match=r"m\.parquet (is damaged|cannot be read)") as caught:
        list(read_batches(tmp_path / "m.parquet"))
    assert "\n" not in str(caught.value)


# --- Parquet ----------------------------------------------------------------------------------------------------


def test_a_folder_of_parquet_files_is_read_by_name(tmp_path):
    folder = tmp_path / "m.parquet"
    folder.mkdir()
    for name, ids in (("part-1.parquet", ["c"]), ("part-0.parquet", ["a", "b"])):
        pq.write_table(pa.table({"id": ids}), folder / name)
    written(folder / "_SUCCESS", "")
    table = read_table(folder)
    assert (["a", "b", "c"], [0, 1, 2]) == (table["id"].to_pylist(), table["nearcast.row"].to_pylist())
    assert 3 == total_rows(folder)


def test_parquet_without_rows_keeps_its_columns(tmp_path):
    pq.write_table(
        pa.table({"id": pa.array([], pa.string()), "lon": pa.array([], pa.float64())}), tmp_path / "m.parquet"
    )
    (table,) = read_batches(tmp_path / "m.parquet")
    assert ["id", "lon", "nearcast.row"] == table.column_names


def test_parquet_text_that_is_no_utf_8_rejects_its_row(tmp_path):
    broken = pa.Array.from_buffers(pa.string(), 3, pa.array([b"a", b"\xff", b"c"]).buffers())
    pq.write_table(pa.table({"id": [1, 2, 3], "text": broken}), tmp_path / "m.parquet")
    rows, rejected = read(tmp_path / "m.parquet")
    assert ([1, 3], [(1, "text")]) == ([row["id"] for row in rows], [row[:2] for row in rejected])
    with pytest.raises(InvalidColumns, match="row 1: the bytes of text are not UTF-8"):
        list(read_batches(tmp_path / "m.parquet"))


# --- JSON lines -------------------------------------------------------------------------------------------------


def test_bad_lines_are_rejected_alone(tmp_path):
    """A line that is no JSON object rejects its row and names the line; blank lines are no rows."""
    content = (
        b'{"id":1,"text":"a"}\n\n{bad\n[1]\n"x"\n\xff\n{"id":2,"text":"b"} {}\n{"id":3,"text":"\\ud800"}\n{"id":4}'
    )
    rows, rejected = read(written(tmp_path / "m.jsonl", content))
    assert [{"id": 1, "text": "a"}, {"id": 4, "text": None}] == rows
    assert [1, 2, 3, 4, 5, 6] == [row for row, _, _ in rejected]
    assert [3, 4, 5, 6, 7, 8] == [int(reason.split(":")[0].removeprefix("line ")) for _, _, reason in rejected]
    assert "line 3: column 2: not JSON" in rejected[0][2]


def test_without_a_list_for_rejected_rows_the_first_bad_line_raises(tmp_path):
    path = written(tmp_path / "m.jsonl", '{"id":1}\n{bad\n')
    with pytest.raises(InvalidColumns, match=r"^m\.jsonl: line 2: column 2: not JSON"):
        list(read_batches(path))


def test_rejected_rows_do_not_move_the_numbers_of_others(tmp_path):
    rows = [{"id": i, "text": "a", "lon": 0, "lat": 95 if i == 4 else 0} for i in range(6)]
    content = lines(rows[:2]) + "{bad\n" + lines(rows[3:])
    found, rejected = messages(written(tmp_path / "m.jsonl", content))
    assert ([0, 1, 3, 5], [(2, None), (4, "lat")]) == (found.ids.to_pylist(), fields(rejected))


def test_a_wrong_value_in_json_rejects_its_row_only(tmp_path):
    """JSON has no column types, so a number given as text is the fault of its row."""
    rows = [
        {"id": "a", "text": "t", "lon": 1, "lat": 2},
        {"id": "b", "text": "t", "lon": "1", "lat": 2},
        {"id": "c", "text": 5, "lon": 1, "lat": 2},
        {"id": "d", "terms": "t", "lon": 1, "lat": 2},
        {"id": "e", "terms": ["t", 1], "lon": 1, "lat": 2},
        {"id": "f", "text": "t", "lon": True, "lat": 2},
        {"id": "g", "text": "t", "lon": 1, "lat": 2, "time": 17},
        {"id": "h", "text": "t", "lon": [1], "lat": 10**400},
        {"id": "i", "terms": ["t"], "lon": 1.5, "lat": 2, "time": "1970-01-01T00:00:00Z"},
    ]
    found, rejected = messages(written(tmp_path / "m.jsonl", lines(rows)))
    assert ["a", "i"] == found.ids.to_pylist()
    expected = [(1, "lon"), (2, "text"), (3, "terms"), (4, "terms"), (5, "lon"), (6, "time"), (7, "lon")]
    assert expected == fields(rejected)
    assert "lon is '1'; expected a number" == next(iter(rejected)).reason


def test_a_file_whose_only_row_is_wrong_is_no_error(tmp_path):
    path = written(tmp_path / "m.jsonl", '{"id":"a","text":"t","lon":"1","lat":2}\n')
    found, rejected = messages(path)
    assert (0, [(0, "lon")]) == (len(found), fields(rejected))


@pytest.mark.parametrize("batch_rows", [1, 100])
def test_ids_of_a_file_have_one_type(tmp_path, batch_rows):
    """Ids keep their type, so a column has one: that of the first id."""
    path = written(
        tmp_path / "m.jsonl", '{"id":1}\n{"id":"2"}\n{"id":3.0}\n{"id":true}\n{"id":99999999999999999999}\n{"id":6}\n'
    )
    rows, rejected = read(path, batch_rows=batch_rows)
    assert ([1, 6], [1, 2, 3, 4]) == ([row["id"] for row in rows], [row for row, _, _ in rejected])
    assert {"id"} == {field for _, field, _ in rejected}
    assert "line 2: id is '2'; expected an integer, like the first id" == rejected[0][2]


def test_text_that_looks_like_a_date_stays_text(tmp_path):
    rows = [{"id": "2024-01-01", "day": "2024-01-01T00:00:00Z", "in": {"day": ["2024-01-01"]}}]
    assert rows == read(written(tmp_path / "m.jsonl", lines(rows)))[0]


def test_long_integers_beside_floats_are_not_rounded(tmp_path):
    rows = [{"id": 1, "n": 2**53 + 1, "in": [0.5]}, {"id": 2, "n": 0.5, "in": [2**53 + 1]}, {"id": 3, "n": 2**63}]
    (table,) = read_batches(written(tmp_path / "m.jsonl", lines(rows)))
    assert [2**53 + 1, 0.5, 2**63] == [json.loads(cell) for cell in table["n"].to_pylist()]
    assert [[0.5], [2**53 + 1], None] == [cell and json.loads(cell) for cell in table["in"].to_pylist()]


def test_a_column_once_seen_is_there_in_later_batches(tmp_path):
    path = written(tmp_path / "m.jsonl", '{"id":1,"text":"a"}\n{"id":2}\n')
    _, second = read_batches(path, batch_rows=1)
    assert [{"id": 2, "text": None}] == second.drop_columns(["nearcast.row"]).to_pylist()


def test_attributes_of_several_types_become_json_text(tmp_path):
    rows = [{"id": 1, "price": 5, "lon": 1, "lat": 2, "text": "a"}, {"id": 2, "price": "free", "lon": 1, "lat": 2}]
    found, rejected = messages(written(tmp_path / "m.jsonl", lines(rows)))
    assert (["5", '"free"'], 0) == (found.attributes["price"].to_pylist(), len(rejected))


def test_batches_of_several_types_become_one_table(tmp_path):
    """A number in one batch and text in another end as a rejected row, not as an error."""
    path = written(
        tmp_path / "m.jsonl",
        lines([{"id": 1, "text": "a", "lon": 1, "lat": 2}]) * 65_536 + lines([{"id": 2, "lon": "x", "lat": 2.5}]),
    )
    found, rejected = messages(path)
    assert (65_536, [(65_536, "lon")]) == (len(found), fields(rejected))


def test_features_may_stand_in_json_lines(tmp_path):
    content = lines([ROWS[0]]) + lines(features(ROWS[1:]))
    found, rejected = messages(written(tmp_path / "m.jsonl", content))
    assert (["m1", "m2", "m3"], 0) == (found.ids.to_pylist(), len(rejected))
    assert [[13.4, 52.5], [-1.0, 2.0], [1.5, -2.5]] == found.box[:, :2].tolist()


def test_subscriptions_in_json_lines(tmp_path):
    """Regions and queries may be objects; shapes of different depth stand side by side."""
    multi = {"type": "MultiPolygon", "coordinates": [SQUARE]}
    rows = [
        {"id": "a", "query": "x", "region": {"type": "Polygon", "coordinates": SQUARE}},
        {"id": "b", "query": {"and": [{"word": "x"}, {"not": {"word": "y"}}]}, "region": multi},
        {"id": "c", "query": "x", "region": [0, 0, 1, 1]},
        {"id": "d", "query": "x", "lon": 1, "lat": 2, "radius_m": 3},
        {"id": "e", "query": {"word": 5}},
        {"id": "f", "query": 5},
        {"id": "g", "kind": "topk", "query": "x", "lon": 1, "lat": 2, "k": 3.5},
        {"id": "h", "kind": 1, "query": "x"},
        {"id": "i", "query": "x"},
    ]
    found, rejected = subscriptions(written(tmp_path / "s.jsonl", lines(rows)))
    assert (["a", "b", "c", "d", "i"], [POLYGON, POLYGON, BOX, CIRCLE, ANYWHERE]) == (
        found.ids.to_pylist(),
        found.regions.kind.tolist(),
    )
    assert [(4, "query"), (5, "query"), (6, "k"), (7, "kind")] == fields(rejected)


scalars = st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.text(max_size=5), st.floats(-1e9, 1e9))
objects = st.dictionaries(st.sampled_from(["text", "lon", "a", "b"]), scalars | st.lists(st.integers(0, 9), max_size=2))


@given(st.lists(st.tuples(objects, st.integers(0, 99)), min_size=1, max_size=8))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_json_lines_lose_and_change_nothing(tmp_path, rows):
    """Whatever the values, each row has what its line says; a mixed column says it in JSON."""
    rows = [{**row, "id": number} for row, number in rows]
    path = written(tmp_path / "h.jsonl", lines(rows))
    (table,) = read_batches(path)
    mixed = {field.name for field in table.schema if field.metadata}
    for expected, row in zip(rows, table.to_pylist(), strict=True):
        for name in set(row) - {"nearcast.row"}:
            value = json.loads(row[name]) if name in mixed and row[name] is not None else row[name]
            assert expected.get(name) == value


# --- CSV --------------------------------------------------------------------------------------------------------


def test_csv_cells_are_text_and_empty_ones_are_not_given(tmp_path):
    content = '\ufeffid,text,note\r\n007,"a, ""b""\nc",\r\n\r\n8,,"x"\r\n'
    rows, rejected = read(written(tmp_path / "m.csv", content))
    assert [{"id": "007", "text": 'a, "b"\nc', "note": None}, {"id": "8", "text": None, "note": "x"}] == rows
    assert [] == rejected


def test_csv_rows_that_do_not_fit_are_rejected_alone(tmp_path):
    content = b'id,lon\n1,2\n3\n4,5,6\n"7"x,8\n\xff,9\n10,11\n"12,13\n14,15\n'
    rows, rejected = read(written(tmp_path / "m.csv", content))
    assert ["1", "10"] == [row["id"] for row in rows]
    assert [1, 2, 3, 4, 6] == [row for row, _, _ in rejected]
    assert "line 3: the row has 1 cells, the header 2; quote cells that hold commas" == rejected[0][2]
    assert rejected[-1][2].startswith("line 8: not CSV")
    with pytest.raises(InvalidColumns, match=r"^m\.csv: line 3: "):
        list(read_batches(tmp_path / "m.csv"))


def test_wrong_cells_of_csv_reject_their_rows(tmp_path):
    content = (
        "id,text,terms,lon,lat,time\n"
        "1,a,,13.4,52.5,1970-01-01T00:00:01Z\n"
        "2,a,,east,52.5,\n"
        "3,a,,13.4,nan,\n"
        "4,a,,13.4,,\n"
        "5,a,,13.4,52.5,now\n"
        ",a,,13.4,52.5,\n"
        '7,,"[""hot"", ""dog""]",1e1, 5 ,\n'
        "8,,hot dog,1,5,\n"
        "9,a,,1_0,5,\n"
    )
    words = WordTable()
    found, rejected = messages(written(tmp_path / "m.csv", content), words)
    assert (["1", "7"], [[13.4, 52.5], [10.0, 5.0]]) == (found.ids.to_pylist(), found.box[:, :2].tolist())
    assert ["a", "hot", "dog"] == [words.word(term) for term in found.terms.tolist()]
    expected = [(1, "lon"), (2, "lat"), (3, "lat"), (4, "time"), (5, "id"), (7, "terms"), (8, "lon")]
    assert expected == fields(rejected)
    assert "lon is 'east'; expected a number" == next(iter(rejected)).reason


def test_subscriptions_in_csv(tmp_path):
    region = json.dumps({"type": "Polygon", "coordinates": SQUARE}).replace('"', '""')
    content = (
        "id,kind,query,west,south,east,north,region,threshold,lon,lat,expires\n"
        "a,within,x AND y,0,0,1,1,,,,,\n"
        f'b,,x,,,,,"{region}",,,,\n'
        "c,similar,x,,,,,,0.5,1,2,\n"
        "d,similar,x,,,,,,high,1,2,\n"
        "e,within,x,,,,,,,,,1970-01-01T00:00:01Z\n"
    )
    found, rejected = subscriptions(written(tmp_path / "s.csv", content))
    assert (["a", "b", "e"], [BOX, POLYGON, ANYWHERE]) == (found.ids.to_pylist(), found.regions.kind.tolist())
    assert [(2, "max_distance_m"), (3, "threshold")] == fields(rejected)
    assert [NO_TIME, NO_TIME, 1_000_000] == found.expires.tolist()


def test_a_long_cell_is_read(tmp_path):
    """Polygons outgrow the usual limit of a CSV cell; the limit of the process is as before."""
    before = csv.field_size_limit()
    rows, _ = read(written(tmp_path / "m.csv", f"id,region\n1,{'x' * 200_000}\n"))
    assert (200_000, before) == (len(rows[0]["region"]), csv.field_size_limit())


# --- GeoJSON ----------------------------------------------------------------------------------------------------


def feature(id, geometry, properties=None, **more):  # noqa: A002
    return {"type": "Feature", "id": id, "geometry": geometry, "properties": properties, **more}


SHAPES = [
    feature("point", {"type": "Point", "coordinates": [1, 2, 300]}, {"text": "a", "radius_m": 5}),
    feature("area", {"type": "Polygon", "coordinates": SQUARE}, {"text": "b", "query": "x"}),
    feature("bbox", None, {"text": "c", "query": "x"}, bbox=[170, -1, -170, 1]),
    feature("nowhere", None, {"text": "d", "query": "x"}),
    feature("line", {"type": "LineString", "coordinates": [[0, 0], [1, 1]]}, {"query": "x"}),
    feature("north", {"type": "Point", "coordinates": [0, 91]}),
    feature("bad", {"type": "Point"}),
    {"type": "Point", "coordinates": [1, 2]},
    feature("props", None, 5),
]


@pytest.mark.parametrize("name", ["f.geojson", "f.geojsonl", "f.geojsons"])
def test_messages_in_geojson(tmp_path, name):
    """A message is a Point, a rectangle or a bbox; all else is rejected."""
    found, rejected = messages(written_features(tmp_path / name))
    assert ["point", "area", "bbox"] == found.ids.to_pylist()
    expected = [[1.0, 2.0, 1.0, 2.0], [0.0, 0.0, 2.0, 1.0], [170.0, -1.0, -170.0, 1.0]]
    assert expected == found.box.tolist()
    assert [3, 4, 5, 6, 7, 8] == sorted(row.row for row in rejected)


@pytest.mark.parametrize("name", ["f.geojson", "f.geojsonl"])
def test_subscriptions_in_geojson(tmp_path, name):
    """A subscription is a Point with a radius, a polygon, a bbox, or without geometry anywhere."""
    found, rejected = subscriptions(written_features(tmp_path / name))
    assert (["point", "area", "bbox", "nowhere"], [CIRCLE, POLYGON, BOX, ANYWHERE]) == (
        found.ids.to_pylist(),
        found.regions.kind.tolist(),
    )
    assert [4, 5, 6, 7, 8] == sorted(row.row for row in rejected)


def written_features(path):
    if path.suffix == ".geojson":
        return written(path, json.dumps({"type": "FeatureCollection", "features": SHAPES}))
    mark = "\x1e" if path.suffix == ".geojsons" else ""
    return written(path, "".join(f"{mark}{json.dumps(each)}\n" for each in SHAPES))


def test_one_feature_is_a_collection_of_one(tmp_path):
    path = written(tmp_path / "f.geojson", json.dumps(SHAPES[0]))
    assert ["point"] == messages(path)[0].ids.to_pylist()


def test_the_geometry_of_a_feature_wins_over_its_properties(tmp_path):
    path = written(
        tmp_path / "f.geojson",
        json.dumps(feature("a", {"type": "Polygon", "coordinates": SQUARE}, {"text": "t", "lon": 50, "lat": 60})),
    )
    assert [[0.0, 0.0, 2.0, 1.0]] == messages(path)[0].box.tolist()


# --- writing ----------------------------------------------------------------------------------------------------

DELIVERIES = pa.table(
    {
        "subscription_id": pa.array([1, 2, 3]),
        "message_id": ['say "hi", ok', "ä\n\\", ""],
        "score": pa.array([0.1, 1.0, None]),
        "rank": pa.nulls(3, pa.int32()),
        "time": pa.array(
            [datetime(2026, 5, 1, 9, tzinfo=UTC), datetime(1969, 5, 1, 9, 0, 0, 120, tzinfo=UTC), None],
            pa.timestamp("us", "UTC"),
        ),
        "change": ["+", "-", "+"],
    }
)


def test_json_lines_as_written(tmp_path):
    with DeliveryWriter(tmp_path / "d.jsonl") as writer:
        writer.write(DELIVERIES.slice(0, 2))
        writer.write(DELIVERIES.slice(2))
    assert 3 == writer.rows
    first, second, third = (tmp_path / "d.jsonl").read_text().splitlines()
    assert (
        r'{"subscription_id":1,"message_id":"say \"hi\", ok","score":0.1,"rank":null,'
        r'"time":"2026-05-01T09:00:00Z","change":"+"}'
    ) == first
    assert ("ä\n\\", 1.0, "1969-05-01T09:00:00.000120Z") == tuple(
        json.loads(second)[name] for name in ("message_id", "score", "time")
    )
    assert ("", None, None) == tuple(json.loads(third)[name] for name in ("message_id", "score", "time"))
    assert '"score":1.0,' in second


def test_csv_as_written(tmp_path):
    with DeliveryWriter(tmp_path / "d.csv") as writer:
        writer.write(DELIVERIES)
    with (tmp_path / "d.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert DELIVERIES.column_names == header
    assert ["1", 'say "hi", ok', "0.1", "", "2026-05-01T09:00:00Z", "+"] == rows[0]
    assert ["2", "ä\n\\", "1.0", "", "1969-05-01T09:00:00.000120Z", "-"] == rows[1]
    assert '3,"",,,,+' == (tmp_path / "d.csv").read_text().splitlines()[-1]


def test_parquet_as_written(tmp_path):
    with DeliveryWriter(tmp_path / "d.parquet") as writer:
        writer.write(DELIVERIES)
        writer.write(DELIVERIES)
    assert pa.concat_tables([DELIVERIES] * 2) == pq.read_table(tmp_path / "d.parquet")


@pytest.mark.parametrize("name", ["d.parquet", "d.csv"])
@pytest.mark.parametrize("ids", [([1, 2], ["1"]), (["1"], [1, 2])])
def test_ids_that_turn_into_others_are_refused(tmp_path, name, ids):
    """A column has one type, and 1 does not become "1"; nothing is left behind."""
    first, second = (pa.table({"id": each}) for each in ids)

    def write():
        with DeliveryWriter(tmp_path / name) as writer:
            writer.write(first)
            writer.write(second)

    with pytest.raises(InvalidColumns, match="id holds integers and text"):
        write()
    assert [] == names_in(tmp_path)


def test_json_lines_tell_ids_of_both_kinds_apart(tmp_path):
    with DeliveryWriter(tmp_path / "d.jsonl") as writer:
        for each in ([1, 2], ["1"]):
            writer.write(pa.table({"id": each}))
    assert [1, 2, "1"] == [json.loads(line)["id"] for line in (tmp_path / "d.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", ["d.parquet", "d.jsonl", "d.csv"])
def test_nothing_written_is_a_file_without_rows(tmp_path, name):
    with DeliveryWriter(tmp_path / name):
        pass
    table = read_table(tmp_path / name)
    assert 0 == table.num_rows
    if name != "d.jsonl":
        names = ["delivery_id"] if name == "d.csv" else []
        assert [*DELIVERY_SCHEMA.names[:-1], *names, "version", "nearcast.row"] == table.column_names


@pytest.mark.parametrize("name", ["d.parquet", "d.jsonl", "d.csv"])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_interrupt_leaves_the_old_file_and_no_other(tmp_path, name, error):
    written(tmp_path / name, "old")

    def interrupted():
        with DeliveryWriter(tmp_path / name) as writer:
            writer.write(DELIVERIES)
            raise error

    with pytest.raises(error):
        interrupted()
    assert [name] == names_in(tmp_path)
    assert "old" == (tmp_path / name).read_text()


def test_an_interrupt_before_the_first_row_leaves_nothing(tmp_path, monkeypatch):
    """The hidden file is removed also when the interrupt strikes between making it and entering the block."""
    touch = Path.touch

    def interrupted(path, **options):
        touch(path, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "touch", interrupted)
    with suppress(KeyboardInterrupt), DeliveryWriter(tmp_path / "d.csv"):
        pytest.fail("the block was entered")
    assert [] == list(tmp_path.iterdir())


def test_paths_that_cannot_be_written_are_told_before_the_work(tmp_path):
    with pytest.raises(InvalidColumns, match=r"cannot write this format; use one of \.parquet, \.jsonl"):
        DeliveryWriter(tmp_path / "d.txt")
    with pytest.raises(FileUnavailable, match="cannot be written: No such file or directory"):
        DeliveryWriter(tmp_path / "absent" / "d.csv").__enter__()
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(InvalidColumns, match="cannot be written: it is a folder"):
        DeliveryWriter(tmp_path / "d.csv").__enter__()


@given(st.lists(st.tuples(st.text(max_size=6), st.floats(allow_nan=False, allow_infinity=False)), max_size=6))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_reads_back(tmp_path, rows):
    """Any text and any float survive JSON lines and CSV."""
    table = pa.table(
        {"id": pa.array([row[0] for row in rows], pa.string()), "lon": np.array([row[1] for row in rows], float)}
    )
    for name in ("d.jsonl", "d.csv"):
        with DeliveryWriter(tmp_path / name) as writer:
            writer.write(table)
    assert rows == [
        (row["id"], row["lon"]) for row in map(json.loads, (tmp_path / "d.jsonl").read_text().split("\n")[:-1])
    ]
    with (tmp_path / "d.csv").open(newline="") as file:
        assert rows == [(row["id"], float(row["lon"])) for row in csv.DictReader(file)]
