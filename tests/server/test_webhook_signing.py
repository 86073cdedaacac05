"""Requests of webhooks verify by the library of Standard Webhooks, and events are CloudEvents."""

from __future__ import annotations

import json
import time

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from hook_receivers import ListedEvents
from standardwebhooks import Webhook, WebhookVerificationError

from nearcast.errors import InvalidInput
from nearcast.server.webhooks.addresses import AddressPolicy
from nearcast.server.webhooks.signing import check_secret, new_secret, signed_headers
from nearcast.server.webhooks.sink import HookSink

BODY = '{"text":"ラーメン"}'.encode()


def test_a_receiver_verifies() -> None:
    """The signature is over id, time and body; another body fails."""
    secret = new_secret()
    headers = signed_headers([secret], "7:7:+:anna", int(time.time()), BODY)
    assert Webhook(secret).verify(BODY, headers) == {"text": "ラーメン"}
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(BODY + b" ", headers)


def test_both_secrets_verify_while_they_rotate() -> None:
    """A receiver may have the old secret or the new one."""
    old = HookSink("https://hook.example/", (new_secret(),))
    new = old.rotated()
    headers = signed_headers(new.secrets, "id", int(time.time()), BODY)
    for secret in (old.secrets[0], new.secrets[0]):
        Webhook(secret).verify(BODY, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret()).verify(BODY, headers)
    assert len(new.rotated().rotated().rotated().secrets) == 3


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_c2hvcnQ=", "no base64!", "whsec_" + "A" * 200, None, 5])
def test_a_secret_that_is_none(secret: object) -> None:
    """The error says what a secret is, and never repeats it."""
    with pytest.raises(InvalidInput, match="24 to 64 bytes") as caught:
        check_secret(secret)  # type: ignore[arg-type]
    if secret:
        assert str(secret) not in str(caught.value).replace("whsec_ and", "")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("https://hook.example/", "must be an object"),
        ({}, "must be an object"),
        ({"url": 5}, "must be an object"),
        ({"url": "https://127.0.0.1/"}, "not, or not only, on the internet"),
        ({"url": "https://hook.example/", "secret": "x"}, "unknown field 'secret'"),
        ({"url": "https://hook.example/", "secrets": []}, "1 to 3 secrets"),
        ({"url": "https://hook.example/", "secrets": "whsec_"}, "1 to 3 secrets"),
    ],
)
def test_a_sink_that_cannot_be_used(given: object, reason: str) -> None:
    """What is wrong is said when the sink is set, not when the first event fails."""
    with pytest.raises(InvalidInput, match=reason):
        HookSink.from_json(given, AddressPolicy())


def test_a_sink_never_shows_its_secrets() -> None:
    """Secrets are shown when they are made."""
    sink = HookSink.from_json({"url": "https://hook.example/x"}, AddressPolicy())
    assert sink.to_json() == {"url": "https://hook.example/x", "n_secrets": 1}


def test_events_are_cloud_events() -> None:
    """The library of CloudEvents reads a request as a structured event."""
    event = ListedEvents().add().event
    message = HTTPMessage({"content-type": "application/cloudevents+json"}, json.dumps(event).encode())
    read = from_http(message, JSONFormat(), CloudEvent)
    assert (read.get_id(), read.get_type(), read.get_data()) == (event["id"], event["type"], event["data"])
