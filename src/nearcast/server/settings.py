"""Settings of the server: dataclasses by section, filled from a TOML file, the environment and the command line.

The command line goes before the environment, that before the file. `NEARCAST_LIMITS__BODY_BYTES=2000000` is the key
`body_bytes` of `[limits]`. Unknown sections and keys are errors, with the nearest name.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from nearcast.errors import InvalidInput
from nearcast.model.spelling import did_you_mean
from nearcast.server.setting_ranges import check_range

_PREFIX = "NEARCAST_"


@dataclass(frozen=True)
class ListenSettings:
    """Where the server listens and keeps its data. Port 0 lets the system choose one."""

    host: str = "127.0.0.1"
    port: int = 8080
    data: str = "nearcast-data"
    #: Names beside loopback's own that `Host` and `Origin` may have when the server listens on loopback.
    allowed_hosts: tuple[str, ...] = ()
    #: Whether every call needs a token; not given: unless the server listens on loopback.
    require_tokens: bool | None = None
    #: A GeoJSON file that the page draws under all else: streets, for instance.
    overlay: str | None = None
    #: Seconds after which calls under way are cut off at the end.
    grace_seconds: float = 10.0


@dataclass(frozen=True)
class HubSettings:
    """Options of each tenant's hub, by the wall clock; they must agree with those that its folder was made with."""

    space: str = "earth"
    index: str = "trigger"
    window: str | None = None
    lifetime: str | None = "expires"
    tell_expiry: bool = False
    max_distance: float | None = None
    max_ahead: str | None = "5m"
    snapshot_bytes: int = 256 << 20
    #: How long deliveries wait for their subscribers, and how many bytes they may take.
    retention_age: str | None = "7d"
    retention_bytes: int | None = 10 << 30
    #: Seconds between two moves of event time to the wall clock.
    beat_seconds: float = 1.0


@dataclass(frozen=True)
class LimitSettings:
    """How much one request, one subscription, one token and one stream may take."""

    body_bytes: int = 1 << 20
    batch: int = 1000
    text_chars: int = 10_000
    query_chars: int = 1024
    query_words: int = 64
    query_depth: int = 16
    vertices: int = 1000
    subscriptions: int = 5_000_000
    #: Requests of one token, as `limits` writes them; empty: no limit.
    rate: str = "10000/second"
    #: Messages that may wait to be published before more are refused with 429, and the bytes of their bodies.
    waiting_messages: int = 50_000
    waiting_bytes: int = 256 << 20
    #: Bytes that must be free on the disk of the data; below it, changes are refused with 429.
    free_bytes: int = 256 << 20
    #: Events of one page, longest wait for one, and seconds between comments on an idle stream.
    page: int = 1000
    wait_seconds: float = 60.0
    keep_alive_seconds: float = 15.0
    #: Seconds that a stream may take to read what it was sent.
    stall_seconds: float = 30.0
    streams: int = 20_000
    #: Hours for which answers to an `Idempotency-Key` are kept.
    key_hours: float = 24.0


@dataclass(frozen=True)
class WebhookSettings:
    """Which addresses webhooks may call beside those of the internet, and how long a receiver may take."""

    #: Names, addresses and networks of one's own: `hooks.internal`, `10.0.0.0/8`.
    allow: tuple[str, ...] = ()
    timeout_seconds: float = 15.0


@dataclass(frozen=True)
class Settings:
    """All settings, by section."""

    server: ListenSettings = field(default_factory=ListenSettings)
    hub: HubSettings = field(default_factory=HubSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    webhooks: WebhookSettings = field(default_factory=WebhookSettings)

    @property
    def is_loopback(self) -> bool:
        """Tell whether only this machine can reach the server."""
        host = self.server.host
        return host in ("localhost", "::1") or host.startswith("127.")

    @property
    def needs_tokens(self) -> bool:
        """Tell whether every call needs a token."""
        given = self.server.require_tokens
        return not self.is_loopback if given is None else given


def load_settings(
    file: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
    given: Mapping[str, Mapping[str, Any]] | None = None,
) -> Settings:
    """Return the settings of a file, the environment and what was `given` by section; the later goes before."""
    found = Settings()
    if file is not None:
        found = _with(found, _of_file(Path(file)), str(file))
    found = _with(found, _of_environment(os.environ if environment is None else environment), "the environment")
    return _with(found, given or {}, "the command line")


def _of_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidInput(f"there is no file {path}; leave --config out or name another") from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read ({error.strerror}); give a file of settings") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} is not TOML: {error}") from None


def _of_environment(environment: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return what names like NEARCAST_SECTION__KEY give; others with the prefix mean other things."""
    found: dict[str, dict[str, str]] = {}
    for name, value in sorted(environment.items()):
        section, parted, key = name.removeprefix(_PREFIX).partition("__")
        if name.startswith(_PREFIX) and parted:
            found.setdefault(section.lower(), {})[key.lower()] = value
    return found


def _with(settings: Settings, given: Mapping[str, Any], origin: str) -> Settings:
    for section, values in given.items():
        names = [each.name for each in fields(settings)]
        if section not in names:
            raise InvalidInput(f"{origin}: there is no section {section!r}{did_you_mean(section, names)}")
        if not isinstance(values, Mapping):
            raise InvalidInput(f"{origin}: {section} is {values!r}; expected a table of keys")
        settings = replace(settings, **{section: _section(getattr(settings, section), section, values, origin)})
    return settings


def _section(before: Any, section: str, values: Mapping[str, Any], origin: str) -> Any:
    hints = get_type_hints(type(before))
    changes = {}
    for key, value in values.items():
        if key not in hints:
            raise InvalidInput(f"{origin}: there is no setting {section}.{key}{did_you_mean(key, list(hints))}")
        changes[key] = _typed(value, hints[key], f"{origin}: {section}.{key}")
        check_range(f"{section}.{key}", changes[key], value, origin)
    return replace(before, **changes)


def _typed(value: Any, hint: Any, called: str) -> Any:
    """Return a value as the type of its setting; text is read where it comes from the environment."""
    kinds = [kind for kind in getattr(hint, "__args__", (hint,)) if kind is not Ellipsis]
    if getattr(hint, "__origin__", None) is tuple:
        return _names(value, called)
    if type(None) in kinds and value in (None, ""):
        return None
    for kind in (bool, int, float, str):
        if kind in kinds and (read := _read(value, kind)) is not None:
            return read
    wanted = " or ".join(kind.__name__ for kind in kinds if kind is not type(None))
    raise InvalidInput(f"{called} is {value!r}; expected {wanted}")


def _names(value: Any, called: str) -> tuple[str, ...]:
    if isinstance(value, str):
        text = value.strip()
        if text.count("[") != text.count("]"):
            raise InvalidInput(f"{called} is {value!r}; expected names with commas between, or all of them in [ ]")
        if text.startswith("[") and text.endswith("]") and "[" not in text[1:]:  # else they are those of addresses
            text = text[1:-1]
        parts = [part.strip() for part in text.split(",")]
        return tuple(part.strip("\"'") for part in parts if part)
    if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        return tuple(value)
    raise InvalidInput(f"{called} is {value!r}; expected a list of text")


def _read(value: Any, kind: type) -> Any:
    """Return a value as this type, None if it is of another."""
    if kind is bool:
        known = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        return value if isinstance(value, bool) else known.get(value.lower()) if isinstance(value, str) else None
    if isinstance(value, bool):
        return None
    if isinstance(value, kind):
        return value
    if kind is float and isinstance(value, int):
        return float(value)
    if kind is not str and isinstance(value, str):
        try:
            return kind(value)
        except ValueError:
            return None
    return None
