"""Feeds mutated files to every reader, as a program of its own: a crash of the process is a finding, too.

    python tests/files/fuzz_readers.py SUFFIX,SUFFIX LINES SEED

writes files of each kind with mutated lines into the current folder, reads each as messages and as subscriptions, and
checks that every row is either read or rejected, once. Prints of each kind how many lines were read, used and rejected.
A file that fails is left behind.
"""

import json
import random
import sys
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa

from nearcast.errors import InvalidColumns
from nearcast.files import json_lines, read_batches, read_lines, read_objects, united
from nearcast.geo import Space
from nearcast.tables import Rejected, read_messages, read_subscriptions
from nearcast.tables.names import ROW_COLUMN
from nearcast.text import Analyzer
from nearcast.text.words import WordTable

EARTH = Space.earth()
#: Lines of one file, and rows that are read at once: some go the fast way even where others are broken.
LINES, BATCH = 60, 7
#: Texts that are read at once: a broken one spoils only another.
TEXTS = 2

SQUARE = {"type": "Polygon", "coordinates": [[[0, 0], [2, 0], [2, 1], [0, 1], [0, 0]]]}
ROWS = [
    {"id": "a", "text": "free coffee", "lon": 13.4, "lat": 52.5, "time": "2026-05-01T09:00:00Z", "shop": "Roast"},
    {"id": "b", "text": "ramen", "terms": ["hot", "dog"], "lon": -170, "lat": -9.5, "lon_max": 170, "lat_max": 3},
    {"id": "c", "query": "ipad AND NOT used", "lon": 1, "lat": 2, "radius_m": 800, "expires": "2027-01-01T00:00:00Z"},
    {"id": "d", "query": {"and": ["a", {"not": "b"}]}, "region": SQUARE},
    {"id": "e", "kind": "similar", "query": "noodles", "lon": 3, "lat": 4, "threshold": 0.5, "max_distance_m": 900},
    {"id": "f", "kind": "topk", "query": "jazz", "lon": 3, "lat": 4, "k": 5, "text_weight": 0.3, "terms": ["x"]},
    {"id": "g", "west": 1, "south": 2, "east": 3, "north": 4, "query": "\u00fcber \u5bff\u53f8", "similarity": "dice"},
]
ODD_VALUES = [
    *(None, True, 0, -1, 7, 1.5, 1e308, -1e-320, 10**18, 2**63, -(2**64), 10**400, float("inf"), float("nan")),
    *("", "x", "null", "\x00", "\ud800", "a\udfffb", "\ufeff", "2026-13-45T99:99:99Z", "9999-12-31T23:59:59-23:59"),
    *(
        [],
        {},
        [None],
        [[]],
        [1, "a"],
        ["a", None],
        {"": None},
        {"type": "Point"},
        {"type": "Polygon", "coordinates": 5},
    ),
    *({"type": "Point", "coordinates": [10**400, 1]}, {"type": "Circle", "center": [1, 2], "radius_m": 10**400}),
    *(SQUARE, [1, 2, 3, 4], [1, 2, 3, 10**400], {"and": []}, {"or": [{"not": "x"}]}, "a AND", '"a b', "within", "topk"),
]
ODD_BYTES = [
    *(
        b"null",
        b"[",
        b"]",
        b"{",
        b"}",
        b'"',
        b"\\",
        b",",
        b":",
        b"\n",
        b"\r",
        b"\x00",
        b"\xef\xbb\xbf",
        b"\x1e",
        b"\xff",
    ),
    *(b"\xed\xa0\x80", b"\\ud800", b"\\u0000", b"1e400", b"-", b"9" * 400, b"9" * 5000, b"[" * 200, b'{"a":' * 300),
    *(b"NaN", b"Infinity", b"\xc3", b"\t", b"\x0b", b"\x85", b'""', b"'", b"//", b"true", b"\xe2\x80\xa8"),
]


def deep(depth):
    """Return a list within lists."""
    value = []
    for _ in range(depth):
        value = [value]
    return value


def mutated_value(random_, row):
    """Return a row with some values replaced, removed or added."""
    row = dict(row)
    for _ in range(random_.choice([0, 0, 1, 1, 2, 4])):
        name = random_.choice([*ROWS[0], *ROWS[1], *ROWS[2], *ROWS[4], *ROWS[6], "region", "k", "", "shop", "type"])
        if random_.random() < 0.2:
            row.pop(name, None)
        else:
            row[name] = (
                deep(random_.choice([3, 90, 150, 700])) if random_.random() < 0.05 else random_.choice(ODD_VALUES)
            )
    return row


def mutated_bytes(random_, line):
    """Return a line with some bytes inserted, removed, replaced or repeated."""
    for _ in range(random_.choice([0, 0, 0, 1, 1, 2, 5])):
        at = random_.randrange(len(line) + 1)
        end = min(len(line), at + random_.choice([0, 0, 1, 1, 3, 20]))
        piece = random_.choice([random_.choice(ODD_BYTES), bytes([random_.randrange(256)]), line[at:end] * 2])
        line = line[:at] + piece + line[end:]
    return line


def feature(random_, row):
    """Return a GeoJSON Feature with the row as its properties."""
    geometry = random_.choice(
        [
            *({"type": "Point", "coordinates": [13.4, 52.5]}, SQUARE, None, random_.choice(ODD_VALUES)),
            {
                "type": random_.choice(["Point", "Polygon", "MultiPolygon", 5]),
                "coordinates": random_.choice(ODD_VALUES),
            },
        ]
    )
    value = {"type": "Feature", "geometry": geometry, "properties": row}
    if random_.random() < 0.5:
        value[random_.choice(["id", "bbox", "properties", "type"])] = random_.choice(ODD_VALUES)
    return value


def csv_line(row, names):
    cells = [row.get(name) for name in names]
    texts = ["" if each is None else each if isinstance(each, str) else json.dumps(each) for each in cells]
    return ",".join('"' + text.replace('"', '""') + '"' for text in texts).encode("utf-8", "surrogatepass")


def content(random_, suffix):
    """Return the bytes of a file, whose first line is clean, so that its columns are told."""
    rows = [mutated_value(random_, random_.choice(ROWS)) for _ in range(LINES - 1)]
    clean = {"id": "first", "text": "t", "query": "q", "lon": 1, "lat": 2, "radius_m": 3}
    if suffix == ".csv":
        names = list(dict.fromkeys(name for row in ROWS for name in row))
        lines = [",".join(names).encode(), csv_line(clean, names)]
        return b"\n".join([*lines, *(mutated_bytes(random_, csv_line(row, names)) for row in rows)])
    first = {"type": "Feature", "geometry": {"type": "Point", "coordinates": [1, 2]}, "properties": clean}
    if suffix == ".geojson":
        features = [first, *(feature(random_, row) for row in rows)]
        return json.dumps({"type": "FeatureCollection", "features": features}).encode()
    if suffix == ".jsonl":
        lines = [json.dumps(row, ensure_ascii=random_.random() < 0.5).encode("utf-8", "surrogatepass") for row in rows]
        first = clean
    else:
        lines = [json.dumps(feature(random_, row)).encode() for row in rows]
    return b"\n".join([json.dumps(first).encode(), *(mutated_bytes(random_, line) for line in lines)])


def check(path, counts):
    """Read a file both ways; raise unless every row of it is accounted for."""
    rejected = Rejected()
    batches = list(read_batches(path, rejected=rejected, batch_rows=BATCH))
    read = [number for batch in batches for number in batch[ROW_COLUMN].to_pylist()]
    n = len(read) + len(rejected)
    assert sorted([*read, *(row.row for row in rejected)]) == list(range(n)), "a row is missing or there twice"
    if path.suffix in (".jsonl", ".geojsonl"):
        assert n == sum(not line.isspace() and line != b"" for line in path.read_bytes().split(b"\n"))
    table = united(batches)
    used = 0
    for reader in (read_messages, read_subscriptions):
        found = Rejected()
        good = reader(table, EARTH, WordTable(), Analyzer(), rejected=found)
        assert len(good) + len(found) == table.num_rows
        found.to_table()
        used += len(good)
    rejected.to_table()
    counts["lines"] += n
    counts["rejected"] += len(rejected)
    counts["used"] += used


def check_objects(path, counts):
    """Read the lines of a file as texts in memory, some at a time: what is read at once has the values read slowly."""
    lines = [line for line in path.read_bytes().split(b"\n") if line.strip()]
    for first in range(0, len(lines), TEXTS):
        texts = lines[first : first + TEXTS]
        table = read_objects(pa.chunked_array([texts], pa.binary()), source="texts")
        if table is not None:
            rejected = Rejected()
            with patch.object(json_lines._Reader, "table_at_once", lambda *_: None):
                slowly = read_lines(b"\n".join(texts), source="texts", rejected=rejected)
            assert not len(rejected)
            assert set(slowly.column_names) == set(table.column_names)
            for name in table.column_names:
                # By their text, since NaN is among them.
                assert repr(table[name].to_pylist()) == repr(slowly[name].to_pylist()), name
            counts["at once"] += len(texts)


def checked(suffix, lines, seed):
    """Check files until so many lines were read; return what they were."""
    counts = dict.fromkeys(("lines", "rejected", "used", "at once"), 0)
    while counts["lines"] < lines:
        path = Path(f"mutated{suffix}")
        path.write_bytes(content(random.Random(f"{suffix} {seed}"), suffix))
        try:
            check(path, counts)
            if suffix == ".jsonl":
                check_objects(path, counts)
        except InvalidColumns as error:
            if "not GeoJSON" not in str(error):
                raise
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
        seed += 1
    path.unlink()
    return counts


def main(suffixes, lines, seed):
    """Check files of each kind."""
    sys.stdout.write(json.dumps({suffix: checked(suffix, lines, seed) for suffix in suffixes}))


if __name__ == "__main__":
    main(sys.argv[1].split(","), int(sys.argv[2]), int(sys.argv[3]))
