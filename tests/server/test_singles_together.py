"""Single messages over HTTP: plain Features go another way than all others, and mean the same."""

import asyncio
import json
import threading

import msgspec
import pytest

from nearcast.server.feature_columns import PointFeature
from nearcast.server.publisher import PublishRequest
from support.held_writer import held_writer
from support.http_server import circle, feature
from support.waiting import join, wait_until

SERVER = {"limits": {"text_chars": 100}}


@pytest.fixture(scope="module")
def client(server):
    with server.client() as found:
        found.post("/v1/subscriptions", json=circle("tea", subscriber="anna"))
        yield found


SINGLES = {
    "plain": feature("plain"),
    "number": feature(7),
    "no-text": {"type": "Feature", "id": "n", "geometry": feature(1)["geometry"], "properties": {}},
    "null-text": feature("null", None),
    "attributes": feature("a", mood="good", size=3, share=0.5, open=True),
    "nested": feature("nested", tags=["a", {"b": 1}]),
    "named-like-a-column": feature("column", lon=3),
    "time": feature("time", time="2026-01-01T00:00:00Z"),
    "bad-time": feature("bad", time="noon"),
    "terms": feature("terms", terms=["green", "tea"]),
    "own-id": feature("outer", id="inner"),
    "beyond": feature("beyond", lat=91.0),
    "long": feature("long", "tea " * 50),
    "no-words": feature("text", 7),
    "large-id": feature(1 << 70),
    "zero-byte": feature("a\0b"),
    "empty-id": feature(""),
    "deep": {**feature("deep"), "properties": {"a": json.loads("[" * 80 + "]" * 80)}},
    "too-deep": {**feature("too"), "properties": {"a": json.loads("[" * 150 + "]" * 150)}},
}


@pytest.mark.parametrize("name", SINGLES)
def test_a_plain_feature_means_what_the_same_feature_means_value_by_value(client, server, name):
    """Status, problem and the message that is kept are those of the same Feature with a member that changes nothing."""
    given = SINGLES[name]
    answers, kept = [], []
    for body in (given, {**given, "bbox": None}):
        answer = client.post("/v1/messages", content=json.dumps(body), headers={"Content-Type": "application/json"})
        found = {key: each for key, each in answer.json().items() if key != "cursor"}
        answers.append((answer.status_code, found))
        id_ = given["properties"].get("id", given["id"])
        kept.append(server.tenant().hub.kept_message(id_) if answer.status_code == 202 else None)
    assert answers[1] == answers[0]
    assert (None if kept[1] is None else vars_of(kept[1])) == (None if kept[0] is None else vars_of(kept[0]))


def vars_of(message):
    """Return what a message says: the time of receipt differs."""
    return message.id, message.text, message.place, message.terms, dict(message.attributes)


def test_singles_of_every_form_that_wait_together_each_get_their_own_answer(server):
    """Some are plain with attributes that others lack or have otherwise, some are not plain, some are refused."""
    given = [feature(f"w{number}") for number in range(4)]
    given += [feature("w4", mood="good"), feature("w5", mood=3), feature(6), feature("w7", lat=91.0)]
    given += [feature("w8", time="2026-01-01T00:00:00Z")]
    answers, threads = {}, []

    def post(number):
        with server.client() as own:
            answers[number] = own.post("/v1/messages", json=given[number])

    publisher, before = server.tenant().publisher, server.tenant().hub.stats()["log"]["inputs"]
    with held_writer(server.tenant().hub):
        for number in range(len(given)):  # one after the other: those of one form go together where they are neighbours
            threads.append(threading.Thread(target=post, args=(number,)))
            threads[-1].start()
            wait_until(lambda: publisher.n_waiting == len(threads))
    for thread in threads:
        join(thread)
    assert [202] * 7 + [422, 202] == [answers[number].status_code for number in range(len(given))]
    hub = server.tenant().hub
    assert {"mood": "good"} == dict(hub.kept_message("w4").attributes)
    assert {"mood": 3} == dict(hub.kept_message("w5").attributes)
    assert hub.kept_message("w7") is None
    assert hub.stats()["log"]["inputs"] - before < len(given)


def test_batches_that_wait_together_leave_each_other_their_attributes(server):
    """A number here and a text there under one name stay what they are, and a message has no attribute of another."""
    batches = [
        [feature("b1", mood="good")],
        [feature("b2", mood=3)],
        [feature("b3")],
        [feature("b4", time="2026-01-01")],
    ]
    publisher, threads = server.tenant().publisher, []

    def post(batch):
        with server.client() as own:
            own.post("/v1/messages", json=batch)

    with held_writer(server.tenant().hub):
        for batch in batches:
            threads.append(threading.Thread(target=post, args=(batch,)))
            threads[-1].start()
        wait_until(lambda: publisher.n_waiting == len(batches))
    for thread in threads:
        join(thread)
    kept = [dict(server.tenant().hub.kept_message(f"b{number}").attributes) for number in (1, 2, 3)]
    assert [{"mood": "good"}, {"mood": 3}, {}] == kept


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"type": 1}, {"type": "cafe"}),
        ({"tags": [1]}, {"tags": ["a"]}),
        ({"n": 1}, {"n": (1 << 63) + 5}),
        ({"a": {"b": 1}}, {"a": {"c": 2}}),
    ],
    ids=["type", "lists", "large-numbers", "objects"],
)
@pytest.mark.parametrize("form", ["feature", "point", "columns"])
def test_attributes_that_would_change_each_other_are_not_published_together(form, one, other):
    """In one column they would all be text, or have each other's fields."""

    async def forms():
        return [PublishRequest([given(form, each)]).form for each in (one, other)]

    found = asyncio.run(forms())
    assert None in found or found[0] != found[1]


def given(form, attributes):
    if form == "columns":
        return {"id": "a", "text": "tea", "lon": 0.0, "lat": 0.0, **attributes}
    made = {**feature("a"), "properties": {"text": "tea", **attributes}}
    return made if form == "feature" else msgspec.convert(made, PointFeature)


def test_another_method_of_a_hot_route_is_not_allowed(client):
    """What the short way does not answer is answered as ever."""
    for path in ("/v1/messages", "/v1/locations"):
        refused = client.delete(path)
        assert (405, "urn:nearcast:problem:method-not-allowed") == (refused.status_code, refused.json()["type"])
