"""Names that are nearly right: refused in dicts, a warning in tables, refused everywhere when asked for."""

import json

import pyarrow as pa
import pytest

from nearcast import Hub
from nearcast.cli.stream import _table
from nearcast.errors import InvalidColumns, InvalidMessage, InvalidSubscription
from nearcast.model.spelling import edits, nearest, one_edit_away

SUBSCRIPTION = {"id": 1, "query": "ramen", "lon": 1.0, "lat": 2.0, "radius_m": 5}
SIMILAR = {"id": 1, "kind": "similar", "query": "ramen", "lon": 1.0, "lat": 2.0, "threshold": 0.5, "max_distance_m": 5}
MESSAGE = {"id": 1, "text": "ramen", "lon": 1.0, "lat": 2.0}


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [("region", "region", 0), ("regoin", "region", 1), ("k", "", 1), ("kitten", "sitting", 3)],
)
def test_edit_distance(one, other, distance):
    """Letters added, removed, replaced, and neighbours swapped count one each."""
    assert distance == edits(one, other) == edits(other, one)


def test_short_names_are_not_guessed_at():
    """`y` is one edit away from `k`, and nobody meant it."""
    assert (None, "lon", "text") == (
        one_edit_away("y", ["k"]),
        nearest("lng", ["lon"]),
        one_edit_away("txet", ["text"]),
    )


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("regoin", [0, 0, 1, 1], "region"),
        ("quary", "sushi", "query"),
        ("text_wieght", 0.3, "text_weight"),
        ("Radius_m", 3, "radius_m"),
        ("latitude", 3, "lat"),
        ("expire", "2027-01-01T00:00:00Z", "expires"),
    ],
)
def test_an_unknown_key_of_a_dict_is_refused_with_the_nearest_name(name, value, meant):
    """A slip of the pen does not make a request worldwide."""
    row = {"id": 1, "query": "ramen", name: value}
    for call in (Hub().subscribe, lambda row: Hub().estimate(row, [MESSAGE])):
        with pytest.raises(InvalidSubscription, match=f"{name}.* means nothing .*; did you mean {meant}\\?") as error:
            call(row)
        assert name == error.value.field
    (rejected,) = Hub().subscribe_many([row])
    assert (name, True) == (rejected.field, f"did you mean {meant}?" in rejected.reason)


def test_an_unknown_key_that_is_like_nothing_is_refused_without_a_guess():
    """There is no telling what was meant; None is not given, whatever its name."""
    with pytest.raises(InvalidSubscription, match=r"'colour' means nothing in a subscription$"):
        Hub().subscribe({**SUBSCRIPTION, "colour": "red"})
    assert 1 == Hub().subscribe({**SUBSCRIPTION, "colour": None})


@pytest.mark.parametrize(
    ("name", "value", "kind"), [("k", 5, "topk"), ("threshold", 0.5, "similar"), ("terms", ["a"], "similar or topk")]
)
def test_a_value_of_another_kind_without_kind_is_refused(name, value, kind):
    """`k` without `kind` is no request for everything within a region."""
    with pytest.raises(InvalidSubscription, match=f"{name} is given, .*without kind.*; give kind {kind}, or leave"):
        Hub().subscribe({**SUBSCRIPTION, name: value})


def test_a_value_of_another_kind_is_refused():
    """A threshold means nothing to the best k."""
    with pytest.raises(InvalidSubscription, match="k is given, which kind similar does not use; give kind topk"):
        Hub().subscribe({**SIMILAR, "k": 3})


def test_properties_of_a_feature_are_free_unless_they_look_misspelt():
    """Features carry names and colours of their own; `quary` is none of them."""
    feature = {"type": "Feature", "geometry": {"type": "Point", "coordinates": [1, 2]}}
    properties = {"id": 1, "query": "a", "radius_m": 5, "colour": "red"}
    assert 1 == Hub().subscribe({**feature, "properties": properties})
    with pytest.raises(InvalidSubscription, match="did you mean query"):
        Hub().subscribe({**feature, "properties": {**properties, "quary": "b"}})


@pytest.mark.parametrize(
    ("given", "hint"), [({"lon": 1, "latt": 2}, "is latt meant as lat"), ({"lng": 1}, "is lng meant as lon")]
)
def test_a_missing_place_hints_at_an_attribute_that_looks_like_it(given, hint):
    """Attributes are free, so only a place that is missing asks about them."""
    with pytest.raises(InvalidMessage, match=hint):
        Hub().publish({"id": 1, "text": "a", **given})


# --- tables -----------------------------------------------------------------------------------------------------


def table(*rows):
    return pa.Table.from_pylist(list(rows))


def test_a_column_one_edit_away_is_a_warning():
    """The row is stored as it stands, and the caller can know."""
    rejected = Hub().subscribe_many(table({**SUBSCRIPTION, "expirse": "x", "colour": "red"}))
    assert (0, ["subscriptions: column expirse is not used; did you mean expires?"]) == (
        len(rejected),
        rejected.warnings,
    )


def test_values_of_another_kind_are_a_warning():
    """The warning names the first row, and each column once."""
    rows = table({**SUBSCRIPTION, "k": None}, {**SUBSCRIPTION, "id": 2, "k": 5}, {**SUBSCRIPTION, "id": 3, "k": 5})
    rejected = Hub().subscribe_many(rows)
    expected = (
        "subscriptions: column k is given in 2 rows of kind within, first in row 1, and not used there;"
        " give kind topk, or leave it out"
    )
    assert (0, [expected]) == (len(rejected), rejected.warnings)


def test_columns_that_rows_of_their_kind_use_are_no_warning():
    """A table may mix kinds."""
    rows = table({**SUBSCRIPTION, "kind": None}, {**SIMILAR, "id": 2})
    assert [] == Hub().subscribe_many(rows).warnings


def test_strict_refuses_a_misspelt_column_and_a_row_with_values_of_another_kind():
    """Whoever wants it that way gets no warnings but errors."""
    with pytest.raises(InvalidColumns, match="column quary is not known; did you mean query"):
        Hub().subscribe_many(table({**SUBSCRIPTION, "quary": "x"}), strict=True)
    hub = Hub()
    rejected = hub.subscribe_many(table({**SUBSCRIPTION, "k": 5}, {**SUBSCRIPTION, "id": 2}), strict=True)
    assert [(0, "k")] == [(row.row, row.field) for row in rejected]
    assert (False, True) == (1 in hub, 2 in hub)


@pytest.mark.parametrize("rows", [[{**MESSAGE, "tiem": "x"}], table({**MESSAGE, "tiem": "x"})], ids=["values", "table"])
def test_an_attribute_like_a_column_that_is_not_there_is_a_warning(rows):
    """Attributes are free; one that looks like the time of messages without one is told, or refused when asked for."""
    assert ["messages: column tiem is an attribute; did you mean time?"] == Hub().publish_many(rows).rejected.warnings
    with pytest.raises(InvalidColumns, match="did you mean time"):
        Hub().publish_many(rows, strict=True)


def test_an_attribute_like_a_column_that_is_there_is_no_warning():
    """Messages with a `time` may have `times` as well."""
    rows = table({**MESSAGE, "time": "2026-05-01T09:00:00Z", "times": 3})
    assert [] == Hub().publish_many(rows).rejected.warnings


# --- commands ---------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path):
    """Return the options that name two files, each with a column that is misspelt."""
    (tmp_path / "s.jsonl").write_text(json.dumps({**SUBSCRIPTION, "id": "s", "expirse": 1}) + "\n")
    (tmp_path / "m.jsonl").write_text(json.dumps({**MESSAGE, "id": "m", "tiem": 1}) + "\n")
    return ["--subscriptions", tmp_path / "s.jsonl", "--messages", tmp_path / "m.jsonl"]


WARNINGS = [
    "nearcast: warning: subscriptions: column expirse is not used; did you mean expires?",
    "nearcast: warning: messages: column tiem is an attribute; did you mean time?",
]


def test_match_warns_on_stderr_and_refuses_when_strict(nearcast, files, tmp_path):
    """Warnings leave the answer and the exit status alone."""
    out = ["--out", tmp_path / "d.csv"]
    done = nearcast("match", *files, *out)
    assert (0, WARNINGS) == (done.status, done.err.splitlines())
    done = nearcast("match", *files, *out, "--strict")
    assert (1, True) == (done.status, "did you mean expires?" in done.complaint)


def test_explain_warns_on_stderr_and_refuses_when_strict(nearcast, files):
    """As `match` does."""
    which = ["--subscription", "s", "--message", "m"]
    done = nearcast("explain", *files, *which)
    assert (0, WARNINGS) == (done.status, done.err.splitlines())
    assert 1 == nearcast("explain", *files, *which, "--strict").status


def test_estimate_warns_on_stderr_and_refuses_when_strict(nearcast, files):
    """As `match` does; the messages are a sample here."""
    done = nearcast("estimate", *files, "--subscription", "s")
    sample = WARNINGS[1].replace("messages", "sample")
    assert (0, [WARNINGS[0], sample]) == (done.status, done.err.splitlines())
    assert 1 == nearcast("estimate", *files, "--subscription", "s", "--strict").status


def test_stream_looks_at_its_subscriptions_before_spark_starts(files, capsys):
    """A warning on stderr, or an error with `--strict`; a column that `--map` renames is fine."""
    path = files[1]
    assert 1 == _table(str(path), {}, strict=False).num_rows
    assert WARNINGS[0] == capsys.readouterr().err.strip()
    with pytest.raises(InvalidColumns, match="did you mean expires"):
        _table(str(path), {}, strict=True)
    _table(str(path), {"expires": "expirse"}, strict=True)
