"""`nearcast token`: tokens of a server's data folder, made, listed and revoked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearcast.cli._console import UsageMistake

if TYPE_CHECKING:
    from nearcast.server.tokens import TokenStore

app = typer.Typer(help="Tokens of a server: made, listed and revoked in its data folder.", no_args_is_help=True)
_Data = Annotated[Path, typer.Option(metavar="FOLDER", help="The server's data folder.")]
_DEFAULT = Path("nearcast-data")


def _tokens() -> Any:
    try:
        from nearcast.server import tokens
    except ImportError as error:
        raise UsageMistake(f"tokens need more packages; pip install 'nearcast[server]' ({error})") from None
    return tokens


def _store(data: Path) -> TokenStore:
    store: TokenStore = _tokens().TokenStore(data / "tokens.db")
    return store


@app.command("create")
def create(
    scopes: Annotated[str, typer.Option(metavar="A,B", help="Some of publish, subscribe, location, admin.")],
    data: _Data = _DEFAULT,
    tenant: Annotated[str, typer.Option(help="The tenant whose world it opens.")] = "default",
    subscriber: Annotated[str | None, typer.Option(help="The one subscriber that it may act for.")] = None,
    name: Annotated[str, typer.Option(help="What it is for.")] = "",
    expires: Annotated[str | None, typer.Option(metavar="TIME", help="When it ends, in RFC 3339.")] = None,
) -> int:
    """Make a token and print it, this once: only its SHA-256 is kept."""
    end = _tokens().checked_end(expires)
    store = _store(data)
    secret, _ = store.create(
        tenant,
        [scope.strip() for scope in scopes.split(",")],
        subscriber=subscriber,
        name=name,
        expires=end,
    )
    store.close()
    typer.echo(secret)
    return 0


@app.command("list")
def list_tokens(data: _Data = _DEFAULT) -> int:
    """Print what is known of each token, one JSON object a line."""
    store = _store(data)
    found: list[dict[str, Any]] = [token.to_json() for token in store.of_tenant(None)]
    store.close()
    for token in found:
        typer.echo(json.dumps(token))
    return 0


@app.command("revoke")
def revoke(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="The id that `token list` shows.")],
    data: _Data = _DEFAULT,
) -> int:
    """Forget a token, which from then on opens nothing."""
    store = _store(data)
    is_known = store.revoke(None, token_id)
    store.close()
    if not is_known:
        raise UsageMistake(f"there is no token {token_id!r}; see nearcast token list")
    return 0
