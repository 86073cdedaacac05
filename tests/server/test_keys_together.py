"""Messages under an `Idempotency-Key` that wait together share one transaction, and each keeps its own key."""

import threading

import pytest

from nearcast.server import publisher
from support.held_writer import held_writer
from support.http_server import circle, feature
from support.waiting import join, wait_until

SERVER = {"hub": {"beat_seconds": 0}}


@pytest.fixture(scope="module", autouse=True)
def subscription(server):
    with server.client() as client:
        client.post("/v1/subscriptions", json=circle("tea", subscriber="anna"))


def posted_together(server, given):
    """Post messages under keys while the hub is held up; return their answers, and how many transactions there were."""
    answers, threads, tenant = {}, [], server.tenant()

    def post(number):
        message, key = given[number]
        with server.client() as own:
            answers[number] = own.post("/v1/messages", json=message, headers={"Idempotency-Key": key} if key else {})

    before = tenant.hub.stats()["log"]["transactions"]
    with held_writer(tenant.hub):
        for number in range(len(given)):
            threads.append(threading.Thread(target=post, args=(number,)))
            threads[-1].start()
            n = sum(len(each) if isinstance(each, list) else 1 for each, _ in given[: number + 1])
            wait_until(lambda n=n: tenant.publisher.n_waiting == n)
    for thread in threads:
        join(thread)
    return [answers[number] for number in range(len(given))], tenant.hub.stats()["log"]["transactions"] - before


def test_requests_with_keys_that_wait_share_a_transaction(server):
    """The first is under way when the others come; these are one transaction, in the order in which they came."""
    given = [(feature(f"k{number}"), f"key {number}" if number % 3 else None) for number in range(12)]
    answers, n_transactions = posted_together(server, given)
    assert [202] * 12 == [each.status_code for each in answers]
    assert 2 == n_transactions
    found = [each.delivery.message_id for each in server.tenant().hub.events("anna", after="0-0")]
    assert [f"k{number}" for number in range(12)] == found[-12:]
    with server.client() as client:
        again = client.post("/v1/messages", json=given[1][0], headers={"Idempotency-Key": given[1][1]})
    assert {**answers[1].json(), "repeated": True} == again.json()


def test_small_requests_do_not_wait_for_a_large_one_beside_them(server):
    """The first is under way; the next is a transaction of its own, and so are the large one and the last."""
    large = [feature(f"l{number}") for number in range(200)]
    given = [(feature("s0"), "s0"), (feature("s1"), "s1"), (large, None), (feature("s2"), "s2")]
    answers, n_transactions = posted_together(server, given)
    assert [202] * 4 == [each.status_code for each in answers]
    assert 4 == n_transactions


def test_a_transaction_takes_so_many_bytes_and_no_more(server, monkeypatch):
    """Of requests of a thousand bytes each, those that wait go two by two."""
    monkeypatch.setattr(publisher, "_MOST_BYTES_TOGETHER", 2_500)
    given = [(feature(f"b{number}", note="n" * 1_000), None) for number in range(5)]
    answers, n_transactions = posted_together(server, given)
    assert [202] * 5 == [each.status_code for each in answers]
    assert 3 == n_transactions


def test_a_refused_request_among_others_with_keys_is_told_alone(server):
    """The one beyond the pole: those before and after it are published."""
    given = [(feature("r0"), "r0"), (feature("r1", lat=91.0), "r1"), (feature("r2"), "r2")]
    answers, _ = posted_together(server, given)
    assert [202, 422, 202] == [each.status_code for each in answers]
    assert [True, False, True] == [server.tenant().hub.kept_message(f"r{at}") is not None for at in range(3)]
