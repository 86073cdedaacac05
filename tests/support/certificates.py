"""The certificates of the system, which every client and server reads anew: that takes longer than many a test."""

import functools
import ssl
from types import SimpleNamespace

import httpcore2
import pytest

from nearcast.server.webhooks import transport


@pytest.fixture(scope="session", autouse=True)
def certificates_read_once():
    """Give all clients one TLS context, and the webhooks of all servers another."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(httpcore2, "default_ssl_context", functools.cache(httpcore2.default_ssl_context))
        made_once = SimpleNamespace(create_default_context=functools.cache(ssl.create_default_context))
        patched.setattr(transport, "ssl", made_once)
        yield
