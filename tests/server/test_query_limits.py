"""Limits of queries: characters, words and depth, in every form in which a query is given."""

import pytest

from nearcast.query import parse
from nearcast.server.query_limits import depth_of
from support.http_server import circle, feature, running

SERVER = {"limits": {"query_chars": 60, "query_words": 5, "query_depth": 3}}
SCORED = {"id": "s", "kind": "similar", "lon": 1, "lat": 1, "max_distance_m": 5, "threshold": 0.5}


def as_feature(query):
    geometry = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}
    return {"type": "Feature", "id": "f", "geometry": geometry, "properties": {"query": query}}


def words(n):
    return [f"w{at}" for at in range(n)]


#: name: (subscription, pointer, limit, given)
CASES = {
    "chars": (circle("s", "a" * 61), "/query", "query_chars", 61),
    "chars-json": (circle("s", {"word": "a" * 61}), "/query", "query_chars", 61),
    "chars-feature": (as_feature("a" * 61), "/properties/query", "query_chars", 61),
    "chars-terms": ({**SCORED, "terms": ["a" * 30, "b" * 31]}, "/terms", "query_chars", 61),
    "chars-both": ({**SCORED, "query": "a" * 41, "terms": ["b" * 20]}, "/query", "query_chars", 61),
    "words": (circle("s", " OR ".join(words(6))), "/query", "query_words", 6),
    "words-phrase": (circle("s", '"a b c" (d OR e f)'), "/query", "query_words", 6),
    "words-json": (circle("s", {"and": [{"word": each} for each in words(6)]}), "/query", "query_words", 6),
    "words-feature": (as_feature(" ".join(words(6))), "/properties/query", "query_words", 6),
    "words-similar": ({**SCORED, "query": " ".join(words(6))}, "/query", "query_words", 6),
    "words-terms": ({**SCORED, "terms": words(6)}, "/terms", "query_words", 6),
    "words-both": ({**SCORED, "query": "a b", "terms": words(4)}, "/terms", "query_words", 6),
    "depth": (circle("s", "((((a))))"), "/query", "query_depth", 4),
    "depth-not": (circle("s", "a NOT NOT NOT NOT b"), "/query", "query_depth", 4),
    "depth-json": (circle("s", {"not": {"not": {"not": {"not": {"word": "a"}}}}}), "/query", "query_depth", 4),
    "depth-feature": (as_feature("a (b OR (c (d OR (e))))"), "/properties/query", "query_depth", 4),
}


@pytest.mark.parametrize("name", CASES)
def test_a_query_over_a_limit_is_refused_with_its_name(client, name):
    """Alone, in a batch, when it is tried, and when it is estimated: the limit, what was given, what is allowed."""
    given, pointer, limit, n = CASES[name]
    wanted = {"limit": f"limits.{limit}", "given": n, "allowed": SERVER["limits"][limit]}
    for path in ("/v1/subscriptions", "/v1/subscriptions?validateOnly=true"):
        found = client.post(path, json=given)
        (error,) = found.json()["errors"]
        assert (422, "urn:nearcast:problem:over-limit") == (found.status_code, found.json()["type"]), found.text
        assert (pointer, wanted) == (error["pointer"], {name: error[name] for name in wanted})
        assert f"limits.{limit} allows {wanted['allowed']}" in error["message"]
    (row,) = client.post("/v1/subscriptions", json=[given]).json()["rejected"]
    assert (f"/0{pointer}", error["message"]) == (row["pointer"], row["reason"])
    for path, body in (("estimate", {}), ("explain", {"message": feature("m")})):
        found = client.post(f"/v1/{path}", json={**body, "subscription": given})
        (error,) = found.json()["errors"]
        assert (422, f"/subscription{pointer}", n) == (found.status_code, error["pointer"], error["given"])
    assert 404 == client.get(f"/v1/subscriptions/{given['id']}").status_code


@pytest.mark.parametrize(
    "given",
    [
        circle("s", "a" * 60),
        circle("s", '"a b c" (d OR NOT e)'),
        circle("s", "NOT (a OR (b))"),
        as_feature("(((a)))"),
        {**SCORED, "query": "a b", "terms": words(3)},
    ],
)
def test_a_query_at_its_limits_is_taken(client, given):
    """With as many as are allowed."""
    assert 200 <= client.put(f"/v1/subscriptions/{given['id']}", json=given).status_code < 300


def test_a_patch_is_checked_too(client):
    """As the subscription that it makes."""
    client.put("/v1/subscriptions/patched", json=circle("patched", "tea"))
    found = client.patch("/v1/subscriptions/patched", json={"query": " ".join(words(6))})
    assert (422, "/query") == (found.status_code, found.json()["errors"][0]["pointer"])
    assert "tea" == client.get("/v1/subscriptions/patched").json()["query"]


def test_what_was_stored_under_other_limits_can_be_changed(tmp_path):
    """Its labels, and what a message says to it; its query only into one within the limits."""
    with running(tmp_path, limits={"query_words": 20}) as server, server.client() as client:
        client.put("/v1/subscriptions/s", json=circle("s", " OR ".join(words(10)))).raise_for_status()
    with running(tmp_path, limits={"query_words": 5}) as server, server.client() as client:
        assert 200 == client.patch("/v1/subscriptions/s", json={"labels": {"a": "b"}}).status_code
        assert 422 == client.patch("/v1/subscriptions/s", json={"query": " OR ".join(words(9))}).status_code
        client.post("/v1/subscriptions/s:pause").raise_for_status()
        said = client.post("/v1/subscriptions/s:test", json={"message": feature("m"), "send": False})
        assert 200 == said.status_code, said.text
        assert {"a": "b"} == client.get("/v1/subscriptions/s").json()["labels"]


@pytest.mark.parametrize(
    ("query", "depth"),
    [
        ("", 0),
        ("a b", 0),
        ("NOT a", 1),
        ("NOT (a OR NOT b)", 3),
        ("(a) (b) (NOT c)", 2),
        ('"( ( (" a', 0),
        ("NOT NOT (a) OR (b)", 3),
        ("“NOT (” (x)", 1),
    ],
)
def test_depth_counts_what_stands_in_one_another(query, depth):
    """Not what stands side by side, and nothing between quotes."""
    assert depth == depth_of(query)


def test_words_of_a_query_are_counted_each_time():
    """Those of phrases too."""
    assert [0, 1, 5] == [parse(each).n_words for each in ("", "a", 'a NOT (a OR "a b a")')]
