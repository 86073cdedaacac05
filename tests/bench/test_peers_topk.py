"""A hub's top-k answers beside DuckDB, which computes all of them again: the same k, window and score."""

import json

import pytest

from nearcast.bench.data.workloads import Recipe, generated
from nearcast.bench.peers import topk_race
from nearcast.bench.peers.duckdb_topk import DuckDbTopk
from nearcast.bench.peers.topk_race import TopkRequest, difference, run_topk_race

REQUEST = TopkRequest(window=60, rate=20, budget_s=60.0)


def quiet(_):
    pass


def drawn(space="plane"):
    recipe = Recipe(k=4, message_words=(3, 6))
    return generated(kind="topk", subscriptions=50, messages=REQUEST.n_messages, recipe=recipe, space=space)


@pytest.mark.parametrize("space", ["plane", "earth"])
def test_both_have_the_same_answers(space):
    """On the plane and the earth; both are measured, in seconds of work for each second of messages."""
    report = run_topk_race(drawn(space), REQUEST, quiet)
    hub, duckdb = report["results"]

    assert ("nearcast", "measured", None) == (hub["peer"], hub["state"], hub["note"])
    assert ("duckdb", "measured", None) == (duckdb["peer"], duckdb["state"], duckdb["note"])
    assert hub["s_each_second"] > 0 < duckdb["s_each_second"]
    assert hub["changes_per_message"] > 0
    assert (50, 4, 60) == tuple(report["workload"][name] for name in ("subscriptions", "k", "window"))


def test_wrong_answers_are_shown_and_not_timed(monkeypatch):
    """One score that is another is enough."""
    usual = DuckDbTopk.answers

    def lightly_wrong(self, n):
        found = usual(self, n)
        found["score"][-1:] += 1e-6
        return found

    monkeypatch.setattr(DuckDbTopk, "answers", lightly_wrong)
    _, duckdb = run_topk_race(drawn(), REQUEST, quiet)["results"]

    assert ("disagrees", None) == (duckdb["state"], duckdb["s_each_second"])
    assert "is right" in duckdb["note"]


def test_what_would_take_too_long_is_skipped_with_an_estimate():
    """Some answers are computed and compared all the same."""
    _, duckdb = run_topk_race(drawn(), TopkRequest(window=60, rate=20, budget_s=1e-6), quiet)["results"]

    assert ("skipped", None) == (duckdb["state"], duckdb["s_each_second"])
    assert "the answers of 1 took" in duckdb["note"]
    assert "are expected for all; the budget is --budget 1e-06" in duckdb["note"]


def test_without_duckdb_the_hub_is_measured(monkeypatch):
    """The reason is told."""
    monkeypatch.setattr(topk_race, "why_no_duckdb", lambda: "it is not installed")
    hub, duckdb = run_topk_race(drawn(), REQUEST, quiet)["results"]

    assert ("measured", "missing") == (hub["state"], duckdb["state"])
    assert "it is not installed" == duckdb["note"]


def test_lists_differ_only_where_scores_do():
    """Messages of nearly the same score may change places, and the last of the list may be another as good."""
    right = [(1, 0.9), (2, 0.5), (3, 0.5)]

    assert difference(right, [(1, 0.9), (3, 0.5), (2, 0.5 - 1e-12)]) is None
    assert difference(right, [(1, 0.9), (2, 0.5), (7, 0.5)]) is None
    assert difference([], []) is None
    assert "2 messages where 3 are right" == difference(right, right[:2])
    assert "a score of 0.6 where 0.5 is right" == difference(right, [(1, 0.9), (2, 0.6), (3, 0.5)])
    assert "other messages: [1, 7]" == difference(right, [(7, 0.9), (2, 0.5), (3, 0.5)])


def test_the_command_races_top_k_answers_alone(nearcast, tmp_path):
    """No other peer is loaded, and no picture is drawn of nothing."""
    sizes = ["--topk", 30, "--window", 40, "--rate", 10, "--k", 3]
    result = nearcast("bench", "peers", "--only", "topk", *sizes, "--json", tmp_path / "t.json", "--out", tmp_path)
    report = json.loads((tmp_path / "t.json").read_text())

    assert 0 == result.status
    assert ([], ["nearcast", "duckdb"]) == (report["results"], [row["peer"] for row in report["topk"]["results"]])
    assert (30, 3, 40, 10) == tuple(
        report["topk"]["workload"][name] for name in ("subscriptions", "k", "window", "rate")
    )
    assert "30 subscriptions, k = 3, a window of 40 messages" in result.out
    assert ["t.json"] == [path.name for path in tmp_path.iterdir()]
