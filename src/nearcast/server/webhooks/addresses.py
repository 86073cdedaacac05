"""Which URLs and addresses a webhook may be sent to: protection against server-side request forgery (SSRF).

A URL is parsed once, here, by the parser of the library that connects. Its name is resolved when a connection is made,
every address must be global, and the connection goes to the address that was looked at: a name that resolves otherwise
a moment later (DNS rebinding) gains nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import httpx2

from nearcast.errors import InvalidInput
from nearcast.geo.shapes import shorten

IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
#: Returns the addresses of a name and port, as text.
Resolver: TypeAlias = Callable[[str, int], Awaitable[list[str]]]

_MOST_CHARACTERS = 2000
#: IPv6 that is in use on the internet; all else is special.
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
#: Networks that some Pythons call global: protocol assignments, relays, documentation, and addresses of IPv6 that stand
#: for one of IPv4 (6to4, Teredo).
_SPECIAL = tuple(
    ipaddress.ip_network(network)
    for network in ("192.0.0.0/24", "192.88.99.0/24", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)


class UnsafeAddress(InvalidInput):
    """A webhook's URL, or an address that its name resolves to, that may not be called."""


@dataclass(frozen=True)
class AddressPolicy:
    """The rules for URLs of webhooks: https to global addresses, and what the operator allows besides.

    `hosts` are names, and `networks` addresses, that may be called though they are not global, by plain http as well.
    """

    hosts: frozenset[str] = frozenset()
    networks: tuple[IpNetwork, ...] = ()

    @classmethod
    def allowing(cls, given: Iterable[str]) -> AddressPolicy:
        """Return the policy that allows these names and networks: `hooks.internal`, `10.0.0.0/8`, `127.0.0.1`."""
        hosts, networks = set(), []
        for each in given:
            try:
                networks.append(ipaddress.ip_network(each))
            except ValueError:
                hosts.add(_checked_name(each))
        return cls(frozenset(hosts), tuple(networks))

    def check_url(self, url: str) -> httpx2.URL:
        """Return a URL, parsed; raise `UnsafeAddress` for one that may not be called, whatever its name resolves to."""
        parsed = _parsed(url)
        if parsed.scheme not in ("http", "https"):
            raise UnsafeAddress(f"url is {shorten(url)}; expected one that begins with https://", field="url")
        if parsed.userinfo or parsed.fragment:
            raise UnsafeAddress(
                f"url {shorten(url)} has a user name or a fragment; take it out, a receiver checks the signature",
                field="url",
            )
        literal = _literal(parsed.host)
        if literal is not None and not self.allows(literal):
            raise UnsafeAddress(_not_global(parsed.host), field="url")
        if parsed.scheme == "http" and not self._may_be_plain(parsed.host, literal):
            raise UnsafeAddress(f"url is {shorten(url)}; expected https, http is for allowed hosts alone", field="url")
        return parsed

    def allows(self, address: IpAddress) -> bool:
        """Tell whether an address is global, or in a network that the operator allows."""
        return is_global(address) or any(address in network for network in self.networks)

    def vetted(self, host: str, addresses: Iterable[str]) -> list[str]:
        """Return the addresses of a name; raise `UnsafeAddress` if there is none, or one that may not be called."""
        found = [ipaddress.ip_address(each) for each in addresses]
        if not found:
            raise UnsafeAddress(f"{host} has no address", field="url")
        if host.lower().rstrip(".") not in self.hosts and not all(map(self.allows, found)):
            raise UnsafeAddress(_not_global(host), field="url")
        return [str(each) for each in found]

    def _may_be_plain(self, host: str, literal: IpAddress | None) -> bool:
        if literal is not None:
            return any(literal in network for network in self.networks)
        return host.lower().rstrip(".") in self.hosts


def is_global(address: IpAddress) -> bool:
    """Tell whether an address is a host of the internet: not private, local, shared, reserved, mapped, multicast."""
    if address.version == 6 and address not in _GLOBAL_UNICAST:
        return False
    is_special = address.is_multicast or address.is_reserved or any(address in network for network in _SPECIAL)
    return address.is_global and not is_special


class NameLookups:
    """Looks names up in threads of its own: one that nobody answers for holds its thread up for long.

    With as many threads as there are connections, names that hang keep no other waiting; they are begun when needed.
    """

    def __init__(self, threads: int):
        self._threads = ThreadPoolExecutor(threads, "nearcast-names")

    async def resolve(self, host: str, port: int) -> list[str]:
        """Return the addresses of a name by the system's resolver, in its order, each once; an address is its own."""
        try:
            return [str(ipaddress.ip_address(host))]
        except ValueError:
            pass
        try:
            look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
            found = await asyncio.get_running_loop().run_in_executor(self._threads, look_up)
        except (OSError, UnicodeError):  # an unknown name, or one that can be none
            return []
        return list(dict.fromkeys(str(address[0]).partition("%")[0] for *_, address in found))

    def close(self) -> None:
        """Look up no name that waits; those that are being looked up are not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _parsed(url: str) -> httpx2.URL:
    if not isinstance(url, str) or len(url) > _MOST_CHARACTERS:
        raise UnsafeAddress(f"url is {shorten(url)}; expected text of up to {_MOST_CHARACTERS} characters", field="url")
    if not url.isprintable() or " " in url or "\\" in url:
        raise UnsafeAddress(f"url is {shorten(url)}; expected no space, backslash or control character", field="url")
    try:
        parsed = httpx2.URL(url)
        port = parsed.port
    except (httpx2.InvalidURL, ValueError) as error:
        raise UnsafeAddress(f"url is {shorten(url)}; it cannot be read: {error}", field="url") from None
    if not parsed.host or (port is not None and not 0 < port < 1 << 16):
        raise UnsafeAddress(f"url is {shorten(url)}; expected a host, and a port from 1 to 65535 if any", field="url")
    return parsed


def _literal(host: str) -> IpAddress | None:
    """Return the address that a host is; of the old forms, 0x7f.1 or 2130706433, that which the system would take."""
    bare = host.strip("[]").rstrip(".")
    try:
        return ipaddress.ip_address(bare)
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(bare))
    except (OSError, UnicodeError):
        return None


def _checked_name(name: str) -> str:
    plain = name.strip().lower().rstrip(".")
    if not plain or any(character in plain for character in "/:@ *"):
        raise InvalidInput(f"allowed host is {name!r}; expected a name, an address or a network like 10.0.0.0/8")
    return plain


def _not_global(host: str) -> str:
    """Return why a host is not called; without its address, which a subscriber must not learn of an internal name."""
    return (
        f"{host} is not, or not only, on the internet; webhooks go to global addresses, or to those that the operator "
        "of this server allows"
    )
