"""The commands: a thin skin over the hub. docs/commands.md describes them.

Answers go to stdout, progress and complaints to stderr. Exit status: 0 done, 1 an error, 2 wrong usage, 3 done but some
rows were rejected, 130 interrupted. An error is one line that says what to do; a traceback is a defect.

Commands import what they need when they run, so that `nearcast version` and `--help` answer at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import typer

from nearcast.cli import (
    backup,
    bench,
    catalogue,
    compact,
    estimate,
    explain,
    generate,
    inspect,
    match,
    prepare,
    publish,
    rebalance,
    serve,
    stream,
    subscriptions,
    token,
    warm,
)
from nearcast.cli._console import UsageMistake, complain, listen_for_signals
from nearcast.cli._hints import with_hint
from nearcast.errors import NearcastError, UnknownIndex

__all__ = ["app", "main"]

EXIT_ERROR, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130

app = typer.Typer(
    help="Location-aware publish/subscribe: standing requests of words and a place, matched against messages.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("match")(match.match)
app.command("explain")(explain.explain)
app.command("estimate")(estimate.estimate)
app.command("generate")(generate.generate)
app.command("prepare")(prepare.prepare)
app.command("stream")(stream.stream)
app.command("serve")(serve.serve)
app.command("publish")(publish.publish)
app.command("tail")(publish.tail)
app.command("backup")(backup.backup)
app.command("restore")(backup.restore)
app.command("doctor")(backup.doctor)
app.command("inspect")(inspect.inspect)
app.command("rebalance")(rebalance.rebalance)
app.command("compact")(compact.compact)
app.command("indexes")(catalogue.indexes)
app.command("warm")(warm.warm)
app.command("version")(catalogue.version)
app.command("demo")(catalogue.demo)
app.add_typer(bench.app, name="bench")
app.add_typer(subscriptions.app, name="sub")
app.add_typer(token.app, name="token")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and leave with its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    listen_for_signals()
    sys.exit(_status(given or ["--help"]))


def _status(arguments: list[str]) -> int:
    """Return the exit status of a command, having complained in one line where it failed."""
    try:
        return int(app(args=arguments, prog_name="nearcast", standalone_mode=False) or 0)
    except (KeyboardInterrupt, typer.Abort):
        # Once an interrupt has passed through an `exec` of text, as in the making of a named tuple, Python ends by the
        # signal itself, though it was caught; another `exec` makes it forget.
        exec("")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone; pointing stdout at nothing keeps the interpreter from complaining too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_ERROR
    except (UsageMistake, UnknownIndex) as mistake:
        complain(str(mistake))
        return EXIT_USAGE
    except NearcastError as error:
        complain(with_hint(error, _options_of(arguments)))
    except MemoryError:
        complain("out of memory: match fewer subscriptions at a time, or on a larger machine")
    except OSError as error:
        complain(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        complain(_usage(error))
        return EXIT_USAGE
    return EXIT_ERROR


def _options_of(arguments: list[str]) -> set[str]:
    """Return the options of the command that these arguments name."""
    command: Any = typer.main.get_command(app)
    for word in arguments:
        command = getattr(command, "commands", {}).get(word, command)
    return {option for parameter in command.params for option in parameter.opts}


def _usage(error: Exception) -> str:
    """Return in one line what typer found wrong with the command line."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "nearcast"
    message = " ".join(error.format_message().split()).rstrip(".")  # type: ignore[attr-defined]
    return f"{message}; see {command} --help"
