"""`nearcast match` and `nearcast explain` with top-k subscriptions."""

import json

import pytest

SUBSCRIPTIONS = [
    {"id": "ann", "kind": "topk", "query": "ramen noodles", "lon": 13.4, "lat": 52.5, "k": 1, "max_distance_m": 5000},
    {"id": "bob", "query": "ramen", "lon": 13.4, "lat": 52.5, "radius_m": 1000},
]
MESSAGES = [
    {"id": 1, "text": "ramen", "lon": 13.41, "lat": 52.5, "time": "2026-01-01T00:00:00Z"},
    {"id": 2, "text": "noodles and ramen", "lon": 13.4, "lat": 52.5, "time": "2026-01-01T00:00:10Z"},
    {"id": 3, "text": "pizza", "lon": 13.4, "lat": 52.5, "time": "2026-01-01T00:00:35Z"},
    {"id": 4, "text": "noodles", "lon": 13.43, "lat": 52.5, "time": "2026-01-01T00:00:41Z"},
    {"id": 5, "text": "ramen", "lon": 13.4, "lat": 52.5, "time": "2026-01-01T00:00:05Z"},
]


@pytest.fixture
def files(tmp_path):
    """Write both files; return the arguments that name them and the output."""
    for name, rows in (("s", SUBSCRIPTIONS), ("m", MESSAGES)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ["--subscriptions", tmp_path / "s.jsonl", "--messages", tmp_path / "m.jsonl"]


def delivered(path):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [(row["subscription_id"], row["message_id"], row["change"], row["rank"], row["cause_id"]) for row in rows]


def test_match_over_time(nearcast, files, tmp_path):
    out = tmp_path / "o.jsonl"
    result = nearcast("match", *files, "--out", out, "--window", "30s", "--json")
    assert 0 == result.status
    assert {"messages": 5, "subscriptions": 2, "deliveries": 8, "rejected": 0}.items() <= json.loads(result.out).items()
    assert [
        ("ann", 1, "+", 1, 1),
        ("bob", 1, "+", None, 1),
        ("ann", 1, "-", 1, 2),
        ("ann", 2, "+", 1, 2),
        ("bob", 2, "+", None, 2),
        ("ann", 2, "-", 1, 4),
        ("ann", 4, "+", 1, 4),
        ("bob", 5, "+", None, 5),
    ] == delivered(out)
    assert "came too late" in result.err


def test_match_over_messages(nearcast, files, tmp_path):
    out = tmp_path / "o.jsonl"
    assert 0 == nearcast("match", *files, "--out", out, "--window", "2", "--index", "scan:buffer=kmax").status
    assert ("ann", 2, "-", 1, 4) in delivered(out)
    assert ("ann", 5, "+", 1, 5) in delivered(out)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ([], "there are subscriptions of kind topk; give their window, --window 100000 or --window 2h"),
        (["--window", "soon"], "--window is 'soon'; expected a number of messages like 100000, or a time like 30s"),
        (["--window", "0"], "--window is 0; expected a number of messages"),
        (["--window", "9", "--index", "scan:buffer=deep"], "there is no buffer=deep"),
    ],
)
def test_what_is_wrong_with_the_window_is_a_usage_error(nearcast, files, tmp_path, options, complaint):
    result = nearcast("match", *files, "--out", tmp_path / "o.jsonl", *options)
    assert 2 == result.status
    assert complaint in result.err
    assert not (tmp_path / "o.jsonl").exists()


def test_explain_ranks_the_message_when_it_arrives(nearcast, files):
    asked = ["--subscription", "ann", "--window", "30s"]
    result = nearcast("explain", *files, *asked, "--message", "1", "--json")
    found = json.loads(result.out)
    assert (True, 1) == (found["matched"], found["steps"][3]["rank"])
    result = nearcast("explain", *files, *asked, "--message", "2")
    assert "enters at rank 1 among the best 1; rank 1 leaves" in result.out
    result = nearcast("explain", *files, *asked, "--message", "3")
    assert "no word in common" in result.out
    result = nearcast("explain", *files, *asked, "--message", "5")
    assert "came too late" in result.out
    result = nearcast("explain", *files, "--subscription", "ann", "--message", "1")
    assert (2, True) == (result.status, "--window 100000" in result.err)
