"""Messages over HTTP: every content type, errors per item, keys against repeats, limits."""

import gzip
import json
import threading

import pyarrow as pa
import pytest

from support.held_writer import held_writer
from support.http_server import circle, feature, running
from support.waiting import join, wait_until

SERVER = {"limits": {"batch": 50, "body_bytes": 100_000}}


@pytest.fixture(scope="module")
def client(server):
    with server.client() as found:
        found.post("/v1/subscriptions", json=circle("tea", subscriber="anna"))
        yield found


def _arrow(messages):
    table = pa.Table.from_pylist(messages)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _rows(n):
    """Rows of which every third is good in words and place, and one has no place."""
    rows = [{"id": number, "text": "tea", "lon": 13.4, "lat": 52.5} for number in range(n)]
    rows[1] = {**rows[1], "lat": 91.0}
    return rows


LATITUDES = (52.5, 91.0, 52.5, 52.5)
FORMS = {
    "collection": lambda: (
        "application/geo+json",
        json.dumps({"type": "FeatureCollection", "features": [feature(i, lat=LATITUDES[i]) for i in range(4)]}),
    ),
    "list": lambda: ("application/json", json.dumps(_rows(4))),
    "lines": lambda: ("application/x-ndjson", "\n".join(map(json.dumps, _rows(4))) + "\n\n"),
    "sequence": lambda: ("application/geo+json-seq", "".join(f"\x1e{json.dumps(row)}\n" for row in _rows(4))),
    "arrow": lambda: ("application/vnd.apache.arrow.stream", _arrow(_rows(4))),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_published_and_a_bad_item_stops_nothing(client, server, form):
    """202 says how many were accepted, and of each rejected item its row, id, field and reason."""
    content_type, body = FORMS[form]()
    before = server.tenant().hub.stats()["published"]
    answer = client.post("/v1/messages", content=body, headers={"Content-Type": content_type})
    assert 202 == answer.status_code, answer.text
    assert 3 == answer.json()["accepted"]
    (rejected,) = answer.json()["rejected"]
    assert (1, "1") == (rejected["row"], rejected["id"])
    assert "91" in rejected["reason"]
    assert 3 == server.tenant().hub.stats()["published"] - before


def test_a_packed_body_is_unpacked(client):
    """Content-Encoding gzip is read, and counts unpacked."""
    packed = gzip.compress(json.dumps(feature("packed")).encode())
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/geo+json"}
    assert 1 == client.post("/v1/messages", content=packed, headers=headers).json()["accepted"]


def test_lines_that_are_no_json_are_rejected_beside_the_others(client):
    """Rows are those of the request, whatever was wrong with them."""
    given = [feature("l0"), None, feature("l2", lat=95.0), feature("l3", "x" * 10_001), feature("l4")]
    lines = ["{" if each is None else json.dumps(each) for each in given]
    headers = {"Content-Type": "application/x-ndjson"}
    found = client.post("/v1/messages", content="\n".join(lines), headers=headers).json()
    assert 2 == found["accepted"]
    assert [(1, None), (2, "lat"), (3, "text")] == [(each["row"], each["field"]) for each in found["rejected"]]


def test_a_message_that_cannot_be_used_is_a_problem_with_a_pointer(client):
    """A single Feature is 422, and the pointer leads into it."""
    found = client.post("/v1/messages", json=feature("one", lat=95.0))
    assert (422, "application/problem+json") == (found.status_code, found.headers["content-type"])
    assert "/geometry/coordinates" == found.json()["errors"][0]["pointer"]


def test_a_key_is_published_once_and_another_body_is_refused(client, server):
    """The repeat gets the first answer, `repeated`; the hub got the messages once."""
    headers = {"Idempotency-Key": "order-1"}
    before = server.tenant().hub.stats()["published"]
    first = client.post("/v1/messages", json=feature("k"), headers=headers)
    again = client.post("/v1/messages", json=feature("k"), headers=headers)
    assert {**first.json(), "repeated": True} == again.json()
    assert (202, 1) == (again.status_code, server.tenant().hub.stats()["published"] - before)
    other = client.post("/v1/messages", json=feature("other"), headers=headers)
    assert (422, "urn:nearcast:problem:key-reused") == (other.status_code, other.json()["type"])


def test_the_hub_knows_a_key_that_server_db_has_lost(client, server):
    """A crash between the hub's log and server.db publishes nothing twice."""
    headers = {"Idempotency-Key": "order-2"}
    client.post("/v1/messages", json=feature("k2"), headers=headers)
    server.tenant().db.execute("DELETE FROM answers").result()
    before = server.tenant().hub.stats()["published"]
    again = client.post("/v1/messages", json=feature("k2"), headers=headers)
    assert (202, True, 1) == (again.status_code, again.json()["repeated"], again.json()["accepted"])
    assert before == server.tenant().hub.stats()["published"]


def publish_together(server, function, given, n_messages):
    """Call a function of one argument in a thread for each that is given, publishing when all their messages wait.

    Return how many messages each call of the hub had.
    """
    publisher, hub, calls = server.tenant().publisher, server.tenant().hub, []
    inner = hub.begin_publish_together

    def counted(wanted):
        calls.extend(len(each.messages) for each in wanted)
        return inner(wanted)

    hub.begin_publish_together = counted
    threads = [threading.Thread(target=function, args=(each,)) for each in given]
    try:
        with held_writer(hub):
            for thread in threads:
                thread.start()
            wait_until(lambda: publisher.n_waiting == n_messages)
    finally:
        for thread in threads:
            join(thread)
        del hub.begin_publish_together
    return calls


def test_requests_that_wait_together_are_published_together(server, client):
    """Many callers at once share calls of the hub, and each gets its own rejected rows."""
    answers = {}

    def call(number):
        with server.client() as own:
            rows = [feature(f"{number}-{row}", lat=91 if row == number else 0) for row in range(5)]
            answers[number] = own.post("/v1/messages", json=rows).json()

    calls = publish_together(server, call, range(5), 25)
    assert sum(calls) == 25
    assert len(calls) < 5
    for number, answer in answers.items():
        assert [(number, f"{number}-{number}")] == [(each["row"], each["id"]) for each in answer["rejected"]]


def test_requests_with_other_ids_are_not_refused_for_those_they_waited_with(server):
    """Ids of text and of numbers that wait together are published apart; all are accepted."""
    answers = []

    def call(ids):
        with server.client() as own:
            answers.append(own.post("/v1/messages", json=[feature(each) for each in ids]).json())

    publish_together(server, call, ([1], ["a"], [2, 3], ["b"], [4, "c"]), 7)
    assert [0, 0, 0, 0, 1] == sorted(len(each["rejected"]) for each in answers)


BATCHES = {
    "plain": [feature(number, time="2026-01-01T00:00:00Z") for number in range(40)],
    "attributes": [feature(f"t{number}", mood="good", size=number, tags=["a"]) for number in range(40)],
    "rejected": [feature(number, lat=91.0 if number == 7 else 0.0) for number in range(40)],
    "bad-time": [feature(number, time="noon" if number == 7 else "2026-01-01T00:00:00Z") for number in range(40)],
    "bad-text": [feature(number, 7 if number == 7 else "tea") for number in range(40)],
    "mixed-ids": [feature(number if number != 7 else "seven") for number in range(40)],
    "own-id": [feature(number, id=f"p{number}") for number in range(40)],
    "terms": [feature(number, terms=["green", "tea"]) for number in range(40)],
}


@pytest.mark.parametrize("name", BATCHES)
def test_a_large_batch_is_read_in_one_pass_and_means_the_same(client, name):
    """A batch of Features gives what the same messages give one by one: accepted, rejected, and as they are kept."""
    batch = BATCHES[name]
    given = {"type": "FeatureCollection", "features": batch}
    answers = [
        client.post("/v1/messages", content=json.dumps(given), headers={"Content-Type": "application/geo+json"}),
        client.post(
            "/v1/messages",
            content="\n".join(map(json.dumps, batch)),
            headers={"Content-Type": "application/x-ndjson"},
        ),
    ]
    by_value = client.post("/v1/messages", json=[{**each, "bbox": None} for each in batch]).json()
    shown = client.get(f"/v1/messages/{batch[3]['properties'].get('id', batch[3]['id'])}").json()
    for answer in answers:
        assert by_value["accepted"] == answer.json()["accepted"]
        assert _places(by_value) == _places(answer.json())
    kept = {name: value for name, value in batch[3]["properties"].items() if name != "id"}
    assert kept == {name: shown["properties"][name] for name in kept}


def _places(answer):
    return [(each["row"], each["field"]) for each in answer["rejected"]]


@pytest.mark.parametrize("limits", [{"waiting_messages": 3}, {"waiting_bytes": 400}], ids=["messages", "bytes"])
def test_more_than_may_wait_is_refused_with_a_time_to_try_again(tmp_path, limits):
    """Past the watermark publishers get 429 with Retry-After, and what waited is published."""
    with running(tmp_path, limits=limits) as server, server.client() as client:
        found, given = [], [feature(1), feature(2)]
        waiting = threading.Thread(target=lambda: found.append(client.post("/v1/messages", json=given)))
        with held_writer(server.tenant().hub):
            waiting.start()
            wait_until(lambda: server.tenant().publisher.n_waiting == 2)
            with server.client() as other:
                refused = other.post("/v1/messages", json=[feature(3), feature(4)])
            assert (429, "1") == (refused.status_code, refused.headers["retry-after"])
        join(waiting)
        assert 2 == found[0].json()["accepted"]
