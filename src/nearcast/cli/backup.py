"""`nearcast backup`, `restore` and `doctor`: copies of durable folders, and what is wrong with one."""

from __future__ import annotations

import json
import platform
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from nearcast.cli._console import UsageMistake
from nearcast.cli._remote import connect

_EXIT_ERROR = 1
_NEEDS_EXTRA = "this needs more packages; pip install 'nearcast[server]'"


def backup(
    source: Annotated[
        str, typer.Argument(metavar="FOLDER", help="A server's data, a durable hub, or the URL of a server.")
    ],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="A new folder; for a URL, a name on the server.")],
) -> int:
    """Copy a data folder or a durable hub that is not open, or have a running server copy its own."""
    if source.startswith(("http://", "https://")):
        with connect(source) as client:
            client.backup(target)
        return 0
    _copy(source, target, is_back=False)
    return 0


def restore(
    source: Annotated[str, typer.Argument(metavar="BACKUP", help="What `nearcast backup` made.")],
    target: Annotated[str, typer.Argument(metavar="FOLDER", help="A new folder, for a server or a durable hub.")],
) -> int:
    """Copy a backup into a new folder, if nothing is wrong with it."""
    _copy(source, target, is_back=True)
    return 0


def _copy(source: str, target: str, *, is_back: bool) -> None:
    folders, durable = _folders(), _durable()
    if not Path(source).is_dir():
        raise UsageMistake(f"there is no folder {source}")
    _check_kind(source)
    if Path(target).exists() and not Path(target).is_dir():
        raise UsageMistake(f"{target} is a file; give a new folder")
    if Path(target).exists() and any(Path(target).iterdir()):
        raise UsageMistake(f"{target} is not empty; give a new folder")
    if (Path(source) / "tenants").is_dir():
        (folders.restore_data if is_back else folders.backup_data)(Path(source), Path(target))
    else:
        (durable.restore if is_back else durable.backup)(source, target)


def _check_kind(folder: str) -> None:
    """Raise if a folder is neither of those that are copied and looked at."""
    from nearcast.hub import DURABLE_HEAD

    if not any((Path(folder) / name).exists() for name in ("tenants", DURABLE_HEAD)):
        raise UsageMistake(f"{folder} holds neither the data of a server nor a durable hub; name the folder of one")


def doctor(
    folder: Annotated[str | None, typer.Argument(metavar="FOLDER", help="A server's data, or a durable hub.")] = None,
) -> int:
    """Print versions of what nearcast stands on, and what is wrong with a folder that is not open; status 1 if any."""
    typer.echo(json.dumps({"python": platform.python_version(), **_versions()}))
    if folder is None:
        return 0
    if not Path(folder).is_dir():
        raise UsageMistake(f"there is no folder {folder}")
    _check_kind(folder)
    problems = _folders().check_data(Path(folder))
    for each in problems:
        typer.echo(each)
    typer.echo(f"{folder}: {'nothing wrong' if not problems else f'{len(problems)} things wrong'}", err=True)
    return _EXIT_ERROR if problems else 0


def _versions() -> dict[str, str | None]:
    names = ("nearcast", "numba", "numpy", "pyarrow", "shapely", "apsw", "fastapi", "httpx2", "pyspark")
    found: dict[str, str | None] = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def _folders() -> Any:
    try:
        from nearcast.server import data_folders
    except ImportError as error:
        raise UsageMistake(f"{_NEEDS_EXTRA} ({error})") from None
    return data_folders


def _durable() -> Any:
    try:
        from nearcast import durable
    except ImportError as error:
        raise UsageMistake(f"{_NEEDS_EXTRA} ({error})") from None
    return durable
