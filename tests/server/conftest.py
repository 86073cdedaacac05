"""A running server for the tests of a file: one for all of them, with the settings that the file has as `SERVER`."""

import pytest

from support.certificates import certificates_read_once
from support.http_server import running

__all__ = ["certificates_read_once"]


@pytest.fixture(scope="module")
def server(request, tmp_path_factory):
    """Run a server on loopback until the last test of the file."""
    with running(tmp_path_factory.mktemp("server"), **getattr(request.module, "SERVER", {})) as found:
        yield found


@pytest.fixture(scope="module")
def client(server):
    """Return an HTTP client of the server."""
    with server.client() as found:
        yield found
