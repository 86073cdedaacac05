"""`nearcast inspect`: what the checkpoint of a stream holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearcast.cli._console import UsageMistake, stdout
from nearcast.cli._options import JsonOption

if TYPE_CHECKING:
    from rich.table import Table

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Characters of a setting that are shown.
_LONGEST = 80
_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def inspect(
    checkpoint: Annotated[str, typer.Argument(metavar="CHECKPOINT", help="The folder given as --checkpoint.")],
    as_json: JsonOption = False,
) -> int:
    """Tell what the checkpoint of a stream holds: versions, sizes, plan, counts, and the load of each partition."""
    from nearcast.errors import InvalidInput
    from nearcast.pipeline.store.checkpoint_report import inspect_checkpoint

    try:
        found = inspect_checkpoint(checkpoint)
    except InvalidInput as error:
        raise UsageMistake(str(error)) from None
    if as_json:
        typer.echo(json.dumps(found))
        return 0
    console = stdout()
    for name, value in _facts(found):
        console.print(f"{name:<13} {value}", soft_wrap=True, markup=False, highlight=False)
    console.print()
    if console.is_terminal:
        console.print(_table(found))
    else:
        for line in _lines(found):
            typer.echo(line)
    return 0


def _facts(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "checkpoint", found["checkpoint"]
    yield "format", str(found["format"])
    batch = "none yet" if found["batch"] < 0 else f"{found['batch']:,}, in {found['seconds']:.2f} s"
    yield "batch", f"{batch}; next step {found['next_step']:,}"
    if found["now"] is not None:
        yield "time", (_EPOCH + timedelta(microseconds=found["now"])).isoformat().replace("+00:00", "Z")
    if found["query_id"] is not None:
        yield "query", found["query_id"]
    yield "plan", f"{found['plan']['name']}, {_counted(found['plan']['partitions'], 'partition')}"
    yield "vocabulary", str(found["vocabulary"].get("version", "none"))
    for name, value in found["settings"].items():
        if value is not None:
            yield name.replace("_", " "), _shown(value)
    yield "so far", ", ".join(f"{value:,} {name}" for name, value in found["counts"].items())
    sizes = found["bytes"]
    kinds = ", ".join(f"{name} {_size(size)}" for name, size in sizes["kinds"].items())
    yield "on disk", f"{_size(sizes['total'])} ({kinds}); Spark {_size(sizes['spark'])}"
    if sizes["unused"]:
        yield "", f"{_size(sizes['unused'])} of it only for batches before, or left over"


def _shown(value: Any) -> str:
    """Return a setting as text, cut where it is long."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def _table(found: dict[str, Any]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("partition", "snapshot", "size", "deltas", "size", "messages", "seconds", "load"):
        table.add_column(heading, justify="right", no_wrap=True)
    for each in found["partitions"]:
        table.add_row(
            str(each["partition"]),
            "none" if each["snapshot"] is None else f"batch {each['snapshot_batch']}",
            _size(each["snapshot_bytes"]),
            f"{len(each['deltas']):,}",
            _size(each["delta_bytes"]),
            f"{each['messages']:,}",
            f"{each['seconds']:.3f}",
            _share(found, each),
        )
    return table


def _lines(found: dict[str, Any]) -> Iterator[str]:
    for each in found["partitions"]:
        snapshot = "no snapshot"
        if each["snapshot"] is not None:
            snapshot = f"{each['snapshot']} of batch {each['snapshot_batch']} ({_size(each['snapshot_bytes'])})"
        deltas = f"{_counted(len(each['deltas']), 'delta')} ({_size(each['delta_bytes'])})"
        load = f"{_counted(each['messages'], 'message')} in {each['seconds']:.3f} s ({_share(found, each)})"
        yield f"partition {each['partition']}: {snapshot}, {deltas}, {load}"


def _share(found: dict[str, Any], partition: dict[str, Any]) -> str:
    """Return how much of the work of all partitions one did."""
    total = sum(each["seconds"] for each in found["partitions"])
    return f"{partition['seconds'] / total:.0%}" if total else "0%"


def _counted(n: int, name: str) -> str:
    return f"{n:,} {name}{'' if n == 1 else 's'}"


def _size(n: float) -> str:
    for unit in _UNITS:
        if n < 1000 or unit == _UNITS[-1]:
            break
        n /= 1000
    return f"{n:,.0f} {unit}" if unit == "bytes" else f"{n:,.1f} {unit}"
