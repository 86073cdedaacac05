"""`nearcast sub`: subscriptions of a server, from the command line."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from nearcast.cli._console import UsageMistake
from nearcast.cli._remote import DEFAULT_URL, SubscriberOption, UrlOption, connect, print_json

app = typer.Typer(help="Subscriptions of a server. The token is read from NEARCAST_TOKEN.", no_args_is_help=True)
_Id = Annotated[str, typer.Argument(metavar="ID", help="The subscription.")]


@app.command("create")
def create(
    subscription: Annotated[
        str, typer.Argument(metavar="JSON", help='{"query": "tea", "lon": 13.4, "lat": 52.5, "radius_m": 800}')
    ],
    subscriber: SubscriberOption = None,
    url: UrlOption = DEFAULT_URL,
) -> int:
    """Store a subscription and print its id; one with the same id is replaced."""
    try:
        given: Any = json.loads(subscription)
    except ValueError as error:
        raise UsageMistake(f"the subscription is not JSON: {error}") from None
    with connect(url) as client:
        typer.echo(client.subscribe(given, subscriber=subscriber))
    return 0


@app.command("list")
def list_subscriptions(subscriber: SubscriberOption = None, url: UrlOption = DEFAULT_URL) -> int:
    """Print all subscriptions, one JSON object a line."""
    with connect(url) as client:
        for each in client.subscriptions(subscriber):
            print_json(each)
    return 0


@app.command("show")
def show(subscription_id: _Id, url: UrlOption = DEFAULT_URL) -> int:
    """Print a subscription."""
    with connect(url) as client:
        print_json(client.get(subscription_id))
    return 0


@app.command("delete")
def delete(subscription_id: _Id, url: UrlOption = DEFAULT_URL) -> int:
    """Forget a subscription."""
    with connect(url) as client:
        client.unsubscribe(subscription_id)
    return 0


@app.command("pause")
def pause(subscription_id: _Id, url: UrlOption = DEFAULT_URL) -> int:
    """Take a subscription out of matching."""
    with connect(url) as client:
        client.pause(subscription_id)
    return 0


@app.command("resume")
def resume(subscription_id: _Id, url: UrlOption = DEFAULT_URL) -> int:
    """Bring a paused subscription back."""
    with connect(url) as client:
        client.resume(subscription_id)
    return 0
