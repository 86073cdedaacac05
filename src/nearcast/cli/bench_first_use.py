"""`nearcast bench first-use`: how long a new user waits."""

from __future__ import annotations

from typing import Annotated

import typer

from nearcast.cli._bench_options import JsonFileOption, check_json, write_json
from nearcast.cli._console import StepProgress


def first_use(
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each case; the median is told.")] = 3,
    json_file: JsonFileOption = None,
) -> int:
    """Time the first screen of the README in fresh processes: the import, with an empty cache of kernels, and again."""
    from nearcast.bench.first_use import lines_of, measure

    check_json(json_file)
    with StepProgress() as steps:
        report = measure(repeats, steps.begin)
    typer.echo("\n".join(lines_of(report)))
    write_json(report, json_file)
    return 0
