"""Webhooks never connect to an address that is not on the internet, however the URL or the DNS puts it."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl

import httpcore2
import pytest
import trustme
from hook_receivers import HookReceiver

from nearcast.errors import InvalidInput
from nearcast.server.webhooks.addresses import AddressPolicy, UnsafeAddress, is_global
from nearcast.server.webhooks.transport import HookTransport

#: Names that a hostile DNS answers with these addresses.
TABLE = {
    "private10.example": ["10.0.0.1"],
    "private172.example": ["172.16.5.4"],
    "private192.example": ["192.168.1.1"],
    "loopback.example": ["127.0.0.1"],
    "loopback6.example": ["::1"],
    "metadata.example": ["169.254.169.254"],
    "metadata6.example": ["fd00:ec2::254"],
    "shared.example": ["100.64.0.1"],
    "zero.example": ["0.0.0.0"],
    "zero6.example": ["::"],
    "broadcast.example": ["255.255.255.255"],
    "multicast.example": ["239.1.2.3"],
    "multicast6.example": ["ff02::1"],
    "linklocal6.example": ["fe80::1"],
    "sitelocal6.example": ["fec0::1"],
    "ula.example": ["fc00::1"],
    "mapped.example": ["::ffff:127.0.0.1"],
    "mapped-hex.example": ["::ffff:7f00:1"],
    "compatible.example": ["::127.0.0.1"],
    "translated.example": ["::ffff:0:127.0.0.1"],
    "nat64.example": ["64:ff9b::7f00:1"],
    "nat64-local.example": ["64:ff9b:1::7f00:1"],
    "6to4.example": ["2002:7f00:1::"],
    "teredo.example": ["2001:0:7f00:1::"],
    "documentation.example": ["192.0.2.1"],
    "documentation6.example": ["2001:db8::1"],
    "documentation20.example": ["3fff::1"],
    "benchmark.example": ["198.18.0.1"],
    "reserved.example": ["240.0.0.1"],
    "protocol.example": ["192.0.0.8"],
    "discard.example": ["100::1"],
    "one-of-two.example": ["93.184.216.34", "127.0.0.1"],
    "one-of-two6.example": ["2606:2800:220:1::1", "fe80::1"],
    "nothing.example": [],
}
HOSTILE = [
    *(f"https://{name}/hook" for name in TABLE),
    "https://127.0.0.1/",
    "https://127.1/",
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0x7f.1/",
    "https://0177.0.0.1/",
    "https://127.0.0.1./",
    "https://[::1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[fe80::1%25eth0]/",
    "https://169.254.169.254/latest/meta-data/",
    "https://10.0.0.1:8443/",
    "http://93.184.216.34/",
    "http://public.example/",
    "ftp://public.example/",
    "file:///etc/passwd",
    "gopher://public.example/",
    "//public.example/",
    "public.example",
    "",
    "https://",
    "https://user:word@public.example/",
    "https://public.example@127.0.0.1/",
    "https://127.0.0.1#@public.example/",
    "https://public.example\\@127.0.0.1/",
    "https://public.example:0/",
    "https://public.example:99999/",
    "https://public.example /",
    "https://public.example/\r\nhost: x",
    "https://1.2.3.4.5.6\t/",
    "https://１２７.0.0.1/",
    "https://" + "a" * 3000 + "/",
]


class NoSockets(httpcore2.AsyncNetworkBackend):
    """A network on which a connect is the failure of a test."""

    connected: list[str]

    def __init__(self) -> None:
        self.connected = []

    async def connect_tcp(self, host: str, *_: object, **__: object) -> httpcore2.AsyncNetworkStream:
        self.connected.append(host)
        raise httpcore2.ConnectError("no network in this test")


async def look_up(host: str, _port: int) -> list[str]:
    if host in TABLE:
        return TABLE[host]
    try:  # literals resolve to themselves
        return [str(ipaddress.ip_address(host.strip("[]")))]
    except ValueError:
        return ["93.184.216.34"]


def post(url: str) -> tuple[str, list[str]]:
    """Return the error of a request, and the addresses that were connected to."""

    async def run() -> tuple[str, list[str]]:
        sockets = NoSockets()
        transport = HookTransport(AddressPolicy(), resolver=look_up, sockets=sockets)
        response = await transport.post(url, {"content-length": "2"}, b"{}")
        await transport.close()
        return response.error, sockets.connected

    return asyncio.run(run())


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_no_connection_to_a_hostile_url(number: int) -> None:
    """URLs that have opened inner networks elsewhere: refused before a socket is made."""
    error, connected = post(HOSTILE[number])
    assert connected == []
    assert error


def test_a_global_address_is_connected_to_by_number() -> None:
    """What was vetted is what is connected to: the name is not resolved a second time."""
    error, connected = post("https://public.example/hook")
    assert connected == ["93.184.216.34"]
    assert "no network" in error


def test_a_name_that_resolves_otherwise_the_second_time() -> None:
    """DNS rebinding: each connection is vetted, and goes to the vetted address."""

    async def run() -> list[str]:
        answers = iter((["93.184.216.34"], ["127.0.0.1"]))

        async def rebind(_host: str, _port: int) -> list[str]:
            return next(answers)

        sockets = NoSockets()
        transport = HookTransport(AddressPolicy(), resolver=rebind, sockets=sockets)
        for _ in range(2):
            await transport.post("https://rebind.example/", {"content-length": "0"}, b"")
        await transport.close()
        return sockets.connected

    assert asyncio.run(run()) == ["93.184.216.34"]


@pytest.mark.parametrize(
    ("address", "expected"),
    [("8.8.8.8", True), ("2606:4700::1111", True), ("100.127.255.255", False), ("2002:808:808::1", False)],
)
def test_global_addresses(address: str, expected: bool) -> None:
    """Global is what the internet routes to one host."""
    assert is_global(ipaddress.ip_address(address)) is expected


def test_what_an_operator_allows() -> None:
    """Names and networks of one's own may be called, by plain http too; nothing else follows from that."""
    policy = AddressPolicy.allowing(["hooks.internal", "10.0.0.0/8"])
    assert policy.check_url("http://hooks.internal/x").host == "hooks.internal"
    assert policy.check_url("http://10.1.2.3:8080/").port == 8080
    assert policy.vetted("hooks.internal", ["192.168.0.1"]) == ["192.168.0.1"]
    with pytest.raises(UnsafeAddress):
        policy.vetted("other.example", ["192.168.0.1"])
    with pytest.raises(InvalidInput, match="expected a name"):
        AddressPolicy.allowing(["http://hooks.internal/"])


def tls_contexts(name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the TLS contexts of a server with a certificate for a name, and of a client that trusts it."""
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert(name).configure_cert(server)
    authority.configure_trust(client)
    return server, client


def test_tls_checks_the_name_though_the_address_was_given() -> None:
    """The request goes to the vetted address; SNI, certificate and Host are those of the name."""
    server_tls, client_tls = tls_contexts("hook.example")

    async def run() -> tuple[int, str, HookReceiver]:
        receiver = HookReceiver()
        server_tls.sni_callback = lambda _socket, name, _context: receiver.server_names.append(name)
        policy = AddressPolicy.allowing(["127.0.0.0/8"])

        async def at_loopback(_host: str, _port: int) -> list[str]:
            return ["127.0.0.1"]

        transport = HookTransport(policy, resolver=at_loopback, ssl_context=client_tls)
        async with receiver.running(server_tls):
            good = await transport.post(f"https://hook.example:{receiver.port}/", {"content-length": "2"}, b"{}")
            wrong = await transport.post(f"https://other.example:{receiver.port}/", {"content-length": "2"}, b"{}")
        await transport.close()
        return good.status, wrong.error, receiver

    status, error, receiver = asyncio.run(run())
    assert status == 204
    assert "certificate verify failed" in error.lower()
    assert receiver.server_names == ["hook.example", "other.example"]
    assert [each.headers["host"] for each in receiver.requests] == [f"hook.example:{receiver.port}"]


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy would connect wherever it likes."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    assert post("https://public.example/")[1] == ["93.184.216.34"]
