"""A real server for tests: uvicorn in a thread, on a port of loopback that the system chose, and an HTTP client."""

import contextlib
import socket
import threading
from dataclasses import dataclass
from pathlib import Path

import httpx2

from nearcast.server.run import HttpServer, bound_socket, make_server
from nearcast.server.settings import Settings, load_settings
from nearcast.server.tokens import TokenStore
from support.waiting import PATIENCE_S, join, wait_until


@dataclass
class RunningServer:
    """A server that answers, with clients for its callers."""

    url: str
    server: HttpServer
    data: Path

    def client(self, token=None, **options):
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=PATIENCE_S, trust_env=False, **options)

    @property
    def tenants(self):
        return self.server.app.state.tenants

    def tenant(self, name="default"):
        return self.tenants._open[name]


def settings_for(data, **sections) -> Settings:
    """Return settings for a test: any port, a disk that is never nearly full, and no inputs but those of the test."""
    given = {"server": {"port": 0, "data": str(data)}, "limits": {"free_bytes": 0}, "hub": {"beat_seconds": 0.0}}
    for section, values in sections.items():
        given[section] = {**given.get(section, {}), **values}
    return load_settings(environment={}, given=given)


@contextlib.contextmanager
def running(data, *, port=0, send_buffer=None, **sections):
    """Run a server over a data folder, in a thread; it is stopped as by a signal afterwards.

    `send_buffer` is how many bytes the system takes of an answer that nobody reads.
    """
    settings = settings_for(data, **sections)
    server = make_server(settings)
    listening = bound_socket("127.0.0.1", port)
    port = listening.getsockname()[1]
    if send_buffer is not None:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    thread = threading.Thread(target=server.run, args=([listening],), name="http-server", daemon=True)
    thread.start()
    wait_until(lambda: server.started, is_alive=thread.is_alive)
    try:
        yield RunningServer(f"http://127.0.0.1:{port}", server, Path(data))
    finally:
        server.should_exit = True
        join(thread)
        listening.close()


def make_token(data, tenant="default", scopes=("admin",), **options):
    """Make a token in a data folder, whether or not a server runs on it; return its secret."""
    store = TokenStore(Path(data) / "tokens.db")
    secret, _ = store.create(tenant, list(scopes), **options)
    store.close()
    return secret


def feature(message_id, text="tea", lon=13.4, lat=52.5, **properties):
    """Return a message as a GeoJSON Feature."""
    geometry = {"type": "Point", "coordinates": [lon, lat]}
    return {"type": "Feature", "id": message_id, "geometry": geometry, "properties": {"text": text, **properties}}


def circle(subscription_id, query="tea", lon=13.4, lat=52.5, radius_m=800, **more):
    """Return a subscription to a circle."""
    found = {"id": subscription_id, "query": query, "lon": lon, "lat": lat, "radius_m": radius_m, **more}
    return {name: value for name, value in found.items() if value is not None}
