"""Options for Kafka in a file of properties, so that no secret stands in a command line."""

from __future__ import annotations

from pathlib import Path

from nearcast.cli._console import UsageMistake

_OPTION = "--kafka-options"


def kafka_options_in(path: Path | None) -> dict[str, str]:
    """Return the options in a file, `name=value` a line; a usage mistake, which shows no value, if it holds others.

    As in Java's properties, a line that begins with # or ! is a comment, and one that ends in a backslash goes on.
    """
    from nearcast.errors import InvalidInput
    from nearcast.pipeline.kafka_topics import KafkaOptions

    if path is None:
        return {}
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageMistake(f"{_OPTION} {path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    found: dict[str, str] = {}
    for number, line in _lines(text):
        name, mark, value = (part.strip() for part in line.partition("="))
        if not mark or not name or " " in name:
            raise UsageMistake(f"{_OPTION} {path}, line {number}: expected name=value")
        found[name] = value
    try:
        return dict(KafkaOptions(found).values)
    except InvalidInput as error:
        raise UsageMistake(f"{_OPTION} {path}: {error}") from None


def _lines(text: str) -> list[tuple[int, str]]:
    """Return the lines that hold options, each with the number of its first one."""
    found: list[tuple[int, str]] = []
    is_open = False
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not is_open and (not stripped or stripped[0] in "#!"):
            continue
        goes_on = stripped.endswith("\\")
        part = stripped.removesuffix("\\")
        if is_open:
            first, before = found[-1]
            found[-1] = (first, before + part)
        else:
            found.append((number, part))
        is_open = goes_on
    return found
