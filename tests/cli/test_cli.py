"""The commands: what they print, write and return, on good input and on bad."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
import typer.main

from nearcast.cli import app
from support.waiting import wait_until

DOCS = Path(__file__).parents[2] / "docs" / "commands.md"

#: 0.001 degrees of latitude are about 111 metres.
SUBSCRIPTIONS = [
    {"id": "anna", "query": "ipad AND NOT used", "lon": 13.4, "lat": 52.5, "radius_m": 800.0},
    {"id": "ben", "query": "coffee", "west": 13.3, "south": 52.4, "east": 13.5, "north": 52.6},
    {"id": "cleo", "query": '"flea market" OR concert'},
]
MESSAGES = [
    {"id": 1, "text": "iPad with free coffee", "lon": 13.401, "lat": 52.5, "ts": "2026-05-01T09:00:00Z"},
    {"id": 2, "text": "Used iPad", "lon": 13.4, "lat": 52.5, "ts": "2026-05-01T09:01:00Z"},
    {"id": 3, "text": "Flea market and coffee", "lon": 0.0, "lat": 0.0, "ts": "2026-05-01T09:02:00Z"},
    {"id": 4, "text": "iPad far away", "lon": 13.4, "lat": 52.51, "ts": "2026-05-01T09:03:00Z"},
]
DELIVERED = [("anna", 1), ("ben", 1), ("cleo", 3)]


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_parquet(path, rows):
    names = dict.fromkeys(name for row in rows for name in row)
    pq.write_table(pa.table({name: [row.get(name) for row in rows] for name in names}), path)
    return path


def write_csv(path, rows):
    names = dict.fromkeys(name for row in rows for name in row)
    pa_csv.write_csv(pa.table({name: [row.get(name) for row in rows] for name in names}), path)
    return path


class World:
    """A folder with two input files, and the command line that matches them."""

    def __init__(self, folder, subscriptions=SUBSCRIPTIONS, messages=MESSAGES):
        self.subscriptions = write_parquet(folder / "subscriptions.parquet", subscriptions)
        self.messages = write_lines(folder / "messages.jsonl", messages)
        self.out = folder / "deliveries.parquet"
        self.inputs = ("--subscriptions", self.subscriptions, "--messages", self.messages)

    def deliveries(self):
        return delivered(pq.read_table(self.out))


def delivered(table):
    return [(row["subscription_id"], row["message_id"]) for row in table.to_pylist()]


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


# --- match --------------------------------------------------------------------------------------------------------


def test_match_writes_deliveries_in_order_of_message_and_registration(nearcast, world):
    """Each message reaches those it satisfies; the order is that of the files."""
    result = nearcast("match", *world.inputs, "--out", world.out)
    assert 0 == result.status
    assert DELIVERED == world.deliveries()
    assert "4 messages to 3 subscriptions: 3 deliveries" in result.out
    assert "" == result.err


def test_match_writes_all_delivery_columns(nearcast, world):
    """The columns are those of the interchange format, with event times and the version of the vocabulary."""
    nearcast("match", *world.inputs, "--out", world.out, "--map", "time=ts")
    table = pq.read_table(world.out)
    ids, event = ["subscription_id", "message_id"], ["change", "score", "rank", "cause_id", "time"]
    assert [*ids, *event, "step", "arrival", "version"] == table.column_names
    assert ["+"] * 3 == table["change"].to_pylist()
    assert "2026-05-01T09:02:00+00:00" == table["time"][2].as_py().isoformat()
    assert [0, 0, 2] == table["step"].to_pylist() == table["arrival"].to_pylist()


def test_match_json_has_exactly_the_promised_keys(nearcast, world):
    """Programs read the summary from stdout; nothing else is there."""
    summary = json.loads(nearcast("match", *world.inputs, "--out", world.out, "--json").out)
    keys = ["messages", "subscriptions", "deliveries", "rejected", "seconds", "index", "vocabulary_version"]
    assert keys == list(summary)
    assert (4, 3, 3, 0, "trigger") == tuple(summary[key] for key in [*keys[:4], "index"])
    assert pq.read_table(world.out)["version"][0].as_py() == summary["vocabulary_version"]


@pytest.mark.parametrize("index", ["scan", "trigger", "trigger:few=2,leaf_rows=100"])
@pytest.mark.parametrize("threads", [1, 2])
def test_index_and_threads_do_not_change_the_answer(nearcast, world, index, threads):
    """An index may only save work."""
    result = nearcast("match", *world.inputs, "--out", world.out, "--index", index, "--threads", threads)
    assert (0, DELIVERED) == (result.status, world.deliveries())


@pytest.mark.parametrize("write", [write_parquet, write_lines, write_csv])
def test_formats_by_extension(nearcast, tmp_path, write):
    """Parquet, JSON lines and CSV say the same, in and out."""
    extension = {write_parquet: "parquet", write_lines: "jsonl", write_csv: "csv"}[write]
    subscriptions = write(tmp_path / f"s.{extension}", SUBSCRIPTIONS)
    messages, out = write(tmp_path / f"m.{extension}", MESSAGES), tmp_path / f"d.{extension}"
    result = nearcast("match", "--subscriptions", subscriptions, "--messages", messages, "--out", out)
    assert (0, "") == (result.status, result.err)
    if extension == "jsonl":
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        assert DELIVERED == [(row["subscription_id"], row["message_id"]) for row in rows]
    else:
        table = pq.read_table(out) if extension == "parquet" else pa_csv.read_csv(out)
        assert DELIVERED == delivered(table)


def test_geojson_in(nearcast, tmp_path):
    """A file of Features serves as messages and as subscriptions."""
    square = [[[0, 0], [2, 0], [2, 2], [0, 2], [0, 0]]]
    wish = {"type": "Feature", "id": "s1", "properties": {"query": "tea"}}
    wish["geometry"] = {"type": "Polygon", "coordinates": square}
    post = {"type": "Feature", "id": "m1", "properties": {"text": "Tea time"}}
    post["geometry"] = {"type": "Point", "coordinates": [1, 1]}
    subscriptions = tmp_path / "s.geojson"
    subscriptions.write_text(json.dumps({"type": "FeatureCollection", "features": [wish]}))
    messages = write_lines(tmp_path / "m.geojsonl", [post])
    out = tmp_path / "d.parquet"
    result = nearcast("match", "--subscriptions", subscriptions, "--messages", messages, "--out", out)
    assert (0, [("s1", "m1")]) == (result.status, delivered(pq.read_table(out)))


def test_space_is_given_where_columns_do_not_tell(nearcast, tmp_path):
    """Both spaces can be asked for when no column name decides; a contradiction is an error."""
    world = World(tmp_path)
    assert 0 == nearcast("match", *world.inputs, "--out", world.out, "--space", "earth").status
    result = nearcast("match", *world.inputs, "--out", world.out, "--space", "plane")
    assert 1 == result.status
    assert "lat" in result.complaint or "lon" in result.complaint


def test_the_plane(nearcast, tmp_path):
    """Columns x, y and x_min… make a plane without being told."""
    world = World(
        tmp_path,
        [{"id": "s", "query": "tea", "x_min": 0.0, "y_min": 0.0, "x_max": 500.0, "y_max": 500.0}],
        [{"id": "in", "text": "tea", "x": 500.0, "y": 0.0}, {"id": "out", "text": "tea", "x": 500.1, "y": 0.0}],
    )
    assert 0 == nearcast("match", *world.inputs, "--out", world.out).status
    assert [("s", "in")] == world.deliveries()


def test_map_renames_in_whichever_file_has_the_column(nearcast, tmp_path):
    """One --map may be about either file."""
    messages = [{"body" if name == "text" else name: value for name, value in row.items()} for row in MESSAGES]
    wishes = [{"wish" if name == "query" else name: value for name, value in row.items()} for row in SUBSCRIPTIONS]
    world = World(tmp_path, wishes, messages)
    result = nearcast("match", *world.inputs, "--out", world.out, "--map", "text=body", "--map", "query=wish")
    assert (0, DELIVERED) == (result.status, world.deliveries())


def test_map_of_a_column_that_is_not_there(nearcast, world):
    """The error names the columns there are."""
    result = nearcast("match", *world.inputs, "--out", world.out, "--map", "time=when")
    assert 1 == result.status
    assert "neither file has a column 'when'; there are id, query" in result.complaint
    assert not world.out.exists()


def test_vocabulary_is_learned_from_the_messages_or_given(nearcast, world, tmp_path):
    """A vocabulary saved from the same messages has the version that is learned from them."""
    from nearcast.text import Analyzer, Vocabulary

    learned = Vocabulary()
    learned.learn_texts(pa.array([row["text"] for row in MESSAGES]), Analyzer())
    learned.to_parquet(tmp_path / "v.parquet")
    summary = json.loads(nearcast("match", *world.inputs, "--out", world.out, "--json").out)
    assert learned.version == summary["vocabulary_version"]
    given = nearcast("match", *world.inputs, "--out", world.out, "--json", "--vocabulary", tmp_path / "v.parquet")
    assert learned.version == json.loads(given.out)["vocabulary_version"]


def test_no_deliveries_make_an_empty_file(nearcast, tmp_path):
    """Nobody reached is an answer, with its columns."""
    world = World(tmp_path, SUBSCRIPTIONS[:1], MESSAGES[1:2])
    assert 0 == nearcast("match", *world.inputs, "--out", world.out).status
    assert (0, 10) == pq.read_table(world.out).shape


def test_empty_files(nearcast, tmp_path):
    """A file of no lines is a file of no messages."""
    world = World(tmp_path)
    world.messages.write_text("")
    result = nearcast("match", *world.inputs, "--out", world.out, "--json")
    assert 0 == result.status
    assert (0, 3, 0) == tuple(json.loads(result.out)[key] for key in ("messages", "subscriptions", "deliveries"))


# --- bad rows -----------------------------------------------------------------------------------------------------

BOWTIE = json.dumps({"type": "Polygon", "coordinates": [[[0, 0], [2, 2], [2, 0], [0, 2], [0, 0]]]})
BAD_SUBSCRIPTIONS = {
    "unparsable query": ({"id": "bad", "query": "(ipad AND"}, "query"),
    "empty query without region": ({"id": "bad", "query": ""}, "query"),
    "latitude 91": ({"id": "bad", "query": "tea", "lon": 0.0, "lat": 91.0, "radius_m": 5.0}, "lat"),
    "NaN": ({"id": "bad", "query": "tea", "lon": float("nan"), "lat": 0.0, "radius_m": 5.0}, "lon"),
    "self-crossing polygon": ({"id": "bad", "query": "tea", "region": BOWTIE}, "region"),
    "two region forms": ({**SUBSCRIPTIONS[0], **SUBSCRIPTIONS[1], "id": "bad"}, None),
    "half a region": ({"id": "bad", "query": "tea", "lon": 1.0, "lat": 1.0}, None),
    "duplicate id": ({"id": "ben", "query": "tea"}, "id"),
    "unknown kind": ({"id": "bad", "query": "tea", "kind": "nearby"}, "kind"),
}


@pytest.mark.parametrize("case", BAD_SUBSCRIPTIONS)
def test_a_bad_subscription_is_rejected_and_the_others_match(nearcast, tmp_path, case):
    """One line says which row and why; all good rows are delivered; the exit status is 3."""
    row, field = BAD_SUBSCRIPTIONS[case]
    world = World(tmp_path, [*SUBSCRIPTIONS, row])
    result = nearcast("match", *world.inputs, "--out", world.out, "--json")
    assert 3 == result.status
    assert DELIVERED == world.deliveries()
    assert (3, 1) == tuple(json.loads(result.out)[key] for key in ("subscriptions", "rejected"))
    assert result.complaint.startswith(f"nearcast: rejected subscriptions row 3 (id {row['id']}), ")
    if field is not None:
        assert f"(id {row['id']}), {field}: " in result.complaint


BAD_MESSAGES = {
    "latitude 91": ({"id": 9, "text": "coffee", "lon": 13.4, "lat": 91}, "lat"),
    "NaN": ({"id": 9, "text": "coffee", "lon": float("nan"), "lat": 52.5}, "lon"),
    "no place": ({"id": 9, "text": "coffee"}, "lon"),
    "no id": ({"text": "coffee", "lon": 13.4, "lat": 52.5}, "id"),
    "text for a number": ({"id": 9, "text": "coffee", "lon": "east", "lat": 52.5}, "lon"),
    "time that is none": ({"id": 9, "text": "coffee", "lon": 13.4, "lat": 52.5, "time": "noon"}, "time"),
}


@pytest.mark.parametrize("case", BAD_MESSAGES)
def test_a_bad_message_is_rejected_and_the_others_match(nearcast, tmp_path, case):
    """Also in the middle of the file, whose other rows keep their numbers."""
    row, field = BAD_MESSAGES[case]
    world = World(tmp_path, messages=[*MESSAGES[:1], row, *MESSAGES[1:]])
    result = nearcast("match", *world.inputs, "--out", world.out)
    assert 3 == result.status
    assert DELIVERED == world.deliveries()
    assert re.match(rf"nearcast: rejected messages row 1\b.*, {field}: ", result.complaint)


def test_a_line_that_is_not_json_is_a_rejected_row(nearcast, world):
    """A broken line does not cost the rest of the file."""
    lines = world.messages.read_text().splitlines()
    world.messages.write_text("\n".join([lines[0], '{"id": 9, "te', *lines[1:]]))
    result = nearcast("match", *world.inputs, "--out", world.out)
    assert (3, DELIVERED) == (result.status, world.deliveries())
    assert result.complaint.startswith("nearcast: rejected messages row 1")


def test_rejected_rows_go_to_a_file(nearcast, tmp_path):
    """With --rejected all rows are written, with the promised columns, and none is shown."""
    bad = [{**row, "id": f"bad{at}"} for at, (row, _) in enumerate(BAD_SUBSCRIPTIONS.values())]
    world = World(tmp_path, [*SUBSCRIPTIONS, *bad], [*MESSAGES, BAD_MESSAGES["latitude 91"][0]])
    file = tmp_path / "rejected.csv"
    result = nearcast("match", *world.inputs, "--out", world.out, "--rejected", file)
    assert (3, "") == (result.status, result.err)
    table = pa_csv.read_csv(file)
    assert ["source", "row", "id", "field", "reason"] == table.column_names
    # Under another id the duplicate is a good row.
    assert len(bad) - 1 + 1 == table.num_rows
    assert ("messages", 4, "lat") == tuple(table.to_pylist()[-1][name] for name in ("source", "row", "field"))


def test_without_a_file_only_the_first_rejected_rows_are_shown(nearcast, tmp_path):
    """A thousand bad rows do not flood the terminal."""
    world = World(tmp_path, [*SUBSCRIPTIONS, *({"id": f"bad{row}", "query": "("} for row in range(1000))])
    shown = nearcast("match", *world.inputs, "--out", world.out).err.splitlines()
    assert 11 == len(shown)
    assert "nearcast: and 990 more; --rejected FILE writes them all" == shown[-1]


# --- bad files and bad usage --------------------------------------------------------------------------------------


def expect_failure(result, world, status, *fragments):
    """Check for one line with these fragments, and that nothing was written."""
    assert status == result.status
    for fragment in fragments:
        assert fragment in result.complaint
    assert "" == result.out
    assert not world.out.exists()


def test_a_file_that_is_not_parquet(nearcast, world):
    """The error names the file."""
    world.subscriptions.write_text("id,query\n1,tea\n")
    expect_failure(nearcast("match", *world.inputs, "--out", world.out), world, 1, "is not a Parquet file")


def test_a_file_that_is_not_there(nearcast, world):
    """The error names the file."""
    world.messages.unlink()
    expect_failure(nearcast("match", *world.inputs, "--out", world.out), world, 1, "messages.jsonl")


def test_a_format_nobody_knows(nearcast, world):
    """The error lists the formats."""
    result = nearcast("match", "--subscriptions", "s.xlsx", "--messages", world.messages, "--out", world.out)
    expect_failure(result, world, 1, "s.xlsx", ".parquet")


def test_a_missing_column(nearcast, tmp_path):
    """The error names the column that is missing and those there are."""
    world = World(tmp_path, messages=[{"id": 1, "body": "tea", "lon": 1.0, "lat": 1.0}])
    expect_failure(nearcast("match", *world.inputs, "--out", world.out), world, 1, "text", "body")


@pytest.mark.parametrize(
    ("messages", "maps", "complaint"),
    [
        (
            {"id": 1, "body": "tea", "lon": 1.0, "lat": 1.0},
            [],
            "messages: there is no column text or terms; there are: id, body, lon, lat; rename one, --map text=NAME",
        ),
        (
            {"id": 1, "text": "tea", "lat": 1.0},
            [],
            "no column lon; there are: id, text, lat; rename one, --map lon=NAME",
        ),
        (
            {"id": 1, "text": "tea", "x": 1.0, "y": 1.0},
            [],
            "column lon tells the earth and column x a plane; rename one, --map NAME=x",
        ),
        (
            {"id": 1, "text": "tea", "body": "tea", "lon": 1.0, "lat": 1.0},
            ["--map", "text=body"],
            "two columns would be called text; rename one of them, --map NAME=text",
        ),
    ],
)
def test_the_option_that_renames_is_named_where_that_would_help(nearcast, tmp_path, messages, maps, complaint):
    """The library speaks of columns; the command adds how to give --map."""
    world = World(tmp_path, messages=[messages])
    result = nearcast("match", *world.inputs, "--out", world.out, *maps)
    expect_failure(result, world, 1, complaint)
    assert result.complaint.rstrip().endswith(complaint)


def test_the_option_of_the_space_is_named_where_columns_do_not_tell_it(nearcast, tmp_path):
    """Nothing but words on either side."""
    world = World(tmp_path, [{"id": "s", "query": "tea"}], [{"id": 1, "text": "tea"}])
    expect_failure(
        nearcast("match", *world.inputs, "--out", world.out), world, 1, "give the space, earth or plane, with --space"
    )


def test_estimate_names_the_option_too(nearcast, tmp_path):
    """Columns of the sample and of the subscription together tell two spaces."""
    world = World(tmp_path)
    wish = json.dumps({"query": "tea", "x": 1.0, "y": 1.0, "radius": 2.0})
    result = nearcast("estimate", "--messages", world.messages, "--subscription", wish)
    assert (1, True) == (result.status, "rename one, --map NAME=x" in result.complaint)


def test_a_column_of_a_type_that_cannot_serve(nearcast, tmp_path):
    """Ids that are fractions are refused as a column."""
    world = World(tmp_path, [{"id": 1.5, "query": "tea"}])
    expect_failure(nearcast("match", *world.inputs, "--out", world.out), world, 1, "id", "double")


def test_a_bad_vocabulary(nearcast, world, tmp_path):
    """The error names the file and the column that is missing."""
    file = write_parquet(tmp_path / "v.parquet", [{"word": "tea"}])
    result = nearcast("match", *world.inputs, "--out", world.out, "--vocabulary", file)
    expect_failure(result, world, 1, "v.parquet", "'term'")


def test_an_unknown_index(nearcast, world):
    """That is wrong usage; the error lists the indexes."""
    result = nearcast("match", *world.inputs, "--out", world.out, "--index", "rtree")
    expect_failure(result, world, 2, "'rtree'", "trigger")


def test_an_unknown_option_of_an_index(nearcast, world):
    """The error lists its options."""
    result = nearcast("match", *world.inputs, "--out", world.out, "--index", "trigger:fast=1")
    expect_failure(result, world, 2, "fast=1", "leaf_rows")


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        (["--out", "d.xlsx"], "d.xlsx"),
        (["--out", "no/such/folder/d.csv"], "make it first"),
        (["--out", "d.csv", "--rejected", "d.csv"], "choose another name"),
        (["--out", "d.csv", "--map", "time"], "--map takes new=old"),
        (["--out", "d.csv", "--map", "a=b", "--map", "a=c"], "twice"),
        (["--out", "d.csv", "--threads", "0"], "--threads"),
        (["--out", "d.csv", "--space", "mars"], "--space"),
        (["--out", "d.csv", "--frob"], "--frob"),
        ([], "--out"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(nearcast, world, arguments, fragment, monkeypatch, tmp_path):
    """Nothing is read or written before the command line is understood."""
    monkeypatch.chdir(tmp_path)
    result = nearcast("match", *world.inputs, *arguments)
    assert 2 == result.status
    assert fragment in result.complaint


def test_an_input_is_never_overwritten(nearcast, world):
    """--out that names an input is refused."""
    result = nearcast("match", *world.inputs, "--out", world.subscriptions)
    assert 2 == result.status
    assert "is an input" in result.complaint
    assert 3 == pq.read_table(world.subscriptions).num_rows


def test_an_unknown_command(nearcast):
    """One line, status 2."""
    result = nearcast("frobnicate")
    assert (2, True) == (result.status, "frobnicate" in result.complaint)


def test_an_error_leaves_the_old_file(nearcast, world, monkeypatch):
    """When matching fails half-way, what was at --out is still there and nothing lies beside it."""
    from nearcast.hub import Hub

    world.out.write_text("old")

    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr(Hub, "publish_many", fail)
    result = nearcast("match", *world.inputs, "--out", world.out)
    assert (1, "old") == (result.status, world.out.read_text())
    assert "out of memory" in result.complaint
    assert 3 == len(list(world.out.parent.iterdir()))


# --- interrupts, in a process of its own --------------------------------------------------------------------------


def started(*arguments):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-m", "nearcast", *map(str, arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "kill"])
def test_an_interrupt_leaves_nothing_half_written(tmp_path, nearcast, number, status):
    """Stopped while it writes, `match` leaves the old file, no partial one, and no traceback."""
    nearcast("generate", tmp_path / "work", "--subscriptions", 50_000, "--messages", 60_000)
    folder = tmp_path / "answers"
    folder.mkdir()
    (folder / "d.csv").write_text("old")
    files = [tmp_path / "work" / f"{name}.parquet" for name in ("subscriptions", "messages")]
    process = started(
        "match", "--subscriptions", files[0], "--messages", files[1], "--out", folder / "d.csv", "--index", "scan"
    )
    wait_until(lambda: len(list(folder.iterdir())) == 2, is_alive=lambda: process.poll() is None)
    process.send_signal(number)
    out, err = process.communicate()
    assert status == process.returncode
    assert ["d.csv"] == [path.name for path in folder.iterdir()]
    assert "old" == (folder / "d.csv").read_text()
    assert "" == out
    assert "Traceback" not in err


def test_an_interrupt_while_python_runs_text(tmp_path):
    """An interrupt in the middle of an `exec` ends a command with the status of any other."""
    code = "from nearcast import cli; cli.app = lambda **_: exec('raise KeyboardInterrupt'); cli.main(['version'])"
    (tmp_path / "interrupted.py").write_text(code)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    assert 130 == subprocess.run([sys.executable, "-m", "interrupted"], env=environment, check=False).returncode


def test_python_dash_m_runs_the_same_program():
    """`python -m nearcast version` prints the version and nothing else."""
    from nearcast import __version__

    process = started("version")
    out, err = process.communicate()
    assert (0, f"{__version__}\n", "") == (process.returncode, out, err)


# --- the other commands -------------------------------------------------------------------------------------------


def ask(world, subscription, message):
    return ("explain", *world.inputs, "--subscription", subscription, "--message", message)


@pytest.mark.parametrize(
    ("subscription", "message", "matched", "fragment"),
    [
        ("anna", 1, True, "found 'ipad'"),
        ("anna", 2, False, "NOT 'used' was hit"),
        ("anna", 4, False, "outside the circle of 800 m around (13.4, 52.5) by 312 m"),
        ("ben", 2, False, "the word 'coffee' is missing"),
        ("cleo", 3, True, "'flea', 'market'"),
    ],
)
def test_explain_names_the_step(nearcast, world, subscription, message, matched, fragment):
    """Readable for people, and the same as JSON for programs."""
    shown = nearcast(*ask(world, subscription, message))
    assert (0, "") == (shown.status, shown.err)
    assert fragment in shown.out
    answer = json.loads(nearcast(*ask(world, subscription, message), "--json").out)
    assert ["subscription_id", "message_id", "matched", "steps"] == list(answer)
    assert (subscription, message, matched) == tuple(answer[key] for key in list(answer)[:3])


def test_explain_agrees_with_match(nearcast, world):
    """Every pair is explained as it was delivered."""
    nearcast("match", *world.inputs, "--out", world.out)
    pairs = [(wish["id"], post["id"]) for post in MESSAGES for wish in SUBSCRIPTIONS]
    matched = [pair for pair in pairs if json.loads(nearcast(*ask(world, *pair), "--json").out)["matched"]]
    assert world.deliveries() == matched


def test_explain_keeps_text_and_terms_apart(nearcast, tmp_path):
    """A phrase does not reach from the text into the given terms, as in `match`."""
    message = {"id": 1, "text": "hot", "terms": ["dog"], "lon": 1.0, "lat": 1.0}
    world = World(tmp_path, [{"id": "s", "query": '"hot dog"'}], [message])
    assert not json.loads(nearcast(*ask(world, "s", 1), "--json").out)["matched"]


def test_explain_with_an_unknown_id(nearcast, world):
    """The error says in which file it was looked for."""
    result = nearcast(*ask(world, "zoe", 1))
    assert 1 == result.status
    assert "subscriptions.parquet has no row with the id 'zoe'" in result.complaint


def test_explain_of_a_row_that_cannot_be_used(nearcast, tmp_path):
    """The reason is that with which `match` rejects it."""
    world = World(tmp_path, [{"id": "bad", "query": "("}])
    result = nearcast(*ask(world, "bad", 1))
    assert 1 == result.status
    assert "subscriptions row 0 cannot be used: query: " in result.complaint


def test_explain_says_when_an_id_stands_for_several_messages(nearcast, tmp_path):
    """Messages are told apart by arrival: the first is explained."""
    world = World(tmp_path, messages=[MESSAGES[0], {**MESSAGES[1], "id": 1}])
    result = nearcast(*ask(world, "anna", 1))
    assert (0, True) == (result.status, "gets message 1" in result.out)
    assert "has 2 rows with the id '1'; the first counts" in result.complaint


def test_indexes_as_json(nearcast):
    """The list has the promised keys, and the default index is in it."""
    listed = json.loads(nearcast("indexes", "--json").out)
    assert all(["name", "kinds", "paper", "options"] == list(each) for each in listed)
    assert {"scan", "trigger"} <= {each["name"] for each in listed}


def test_indexes_for_people(nearcast):
    """Names and options can be read."""
    out = nearcast("indexes").out
    assert "trigger" in out
    assert "leaf_rows=" in out


def test_generate_writes_what_match_reads(nearcast, tmp_path):
    """A generated folder can be matched at once, without a rejected row."""
    made = nearcast("generate", tmp_path / "w", "--subscriptions", 500, "--messages", 100, "--space", "earth")
    assert (0, "") == (made.status, made.err)
    files = [tmp_path / "w" / f"{name}.parquet" for name in ("subscriptions", "messages")]
    out = tmp_path / "d.csv"
    matched = nearcast("match", "--subscriptions", files[0], "--messages", files[1], "--out", out, "--json")
    assert 0 == matched.status
    assert (100, 500) == tuple(json.loads(matched.out)[key] for key in ("messages", "subscriptions"))


def test_generate_refuses_a_file_for_a_folder(nearcast, world):
    """The error says what to name."""
    result = nearcast("generate", world.messages)
    assert (2, True) == (result.status, "is a file; name a folder" in result.complaint)


@pytest.mark.parametrize("option", ["--subscriptions", "--messages"])
def test_generate_refuses_more_rows_than_fit(nearcast, tmp_path, option):
    """The error says how many do; nothing is made."""
    result = nearcast("generate", tmp_path / "w", option, 10**20)
    assert (2, True) == (result.status, "more than 100,000,000 do not fit" in result.complaint)
    assert [] == list(tmp_path.iterdir())


def test_generate_from_a_source_in_another_space(nearcast, tmp_path):
    """The columns of a data file decide."""
    source = write_parquet(
        tmp_path / "s.parquet", [{"text": f"tea{row}", "x": 1.0, "y": float(row)} for row in range(9)]
    )
    sizes = ("--subscriptions", 5, "--messages", 3)
    assert 0 == nearcast("generate", tmp_path / "w", "--source", source, *sizes).status
    result = nearcast("generate", tmp_path / "v", "--source", source, "--space", "earth", *sizes)
    assert (2, True) == (result.status, "tell the plane" in result.complaint)


def test_demo_tells_its_story(nearcast):
    """Figures, districts, three arrivals and three near misses of three kinds."""
    result = nearcast("demo", "--subscriptions", 8000, "--messages", 1000, "--engine", "local", "--seconds", 0)
    assert (0, "") == (result.status, result.err)
    assert 6 == result.out.count(" asked for ")
    assert "Busiest districts" in result.out
    for fragment in ("deliveries", "a second", "outside the circle", "is missing", "was hit", "found '"):
        assert fragment in result.out


def test_no_command_shows_help(nearcast):
    """`nearcast` alone says what there is."""
    result = nearcast()
    assert 0 == result.status
    for name in ("match", "explain", "generate", "prepare", "stream", "inspect", "indexes", "bench", "demo", "version"):
        assert name in result.out


# --- docs ---------------------------------------------------------------------------------------------------------


def commands():
    """Return {full name: options} of every command."""
    found = {}
    for name, command in typer.main.get_command(app).commands.items():
        for full, each in (
            [(f"{name} {sub}", child) for sub, child in command.commands.items()]
            if hasattr(command, "commands")
            else [(name, command)]
        ):
            found[full] = {option for parameter in each.params for option in parameter.opts if option.startswith("--")}
    return found


@pytest.mark.parametrize("name", commands())
def test_every_option_is_documented_and_every_documented_one_exists(name):
    """docs/commands.md has a section for the command and a row for each option, and none too many."""
    text = DOCS.read_text()
    sections = dict(re.findall(r"^## `nearcast ([\w -]+)`\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    rows = set(re.findall(r"^\| `(--[\w-]+)`", sections[name], re.MULTILINE))
    assert commands()[name] - {"--help"} == rows
    assert f"(#nearcast-{name.replace(' ', '-')})" in text
