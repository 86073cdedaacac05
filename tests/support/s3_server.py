"""A server of the S3 API on loopback (moto), in a process of its own, and the environment its clients read."""

import os
import subprocess
import sys
from contextlib import contextmanager
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from support.waiting import wait_until

BUCKET = "nearcast-tests"
#: Tells the port it was given, then serves until it is killed. S3 decides If-None-Match and stores in one step, moto in
#: two: so there is one write at a time.
_SERVE = """
from threading import Lock
from werkzeug.serving import make_server
from moto.server import DomainDispatcherApplication, create_backend_app
application, writes = DomainDispatcherApplication(create_backend_app), Lock()
def serve(environ, start_response):
    if environ["REQUEST_METHOD"] != "PUT":
        return application(environ, start_response)
    with writes:
        return application(environ, start_response)
server = make_server("127.0.0.1", 0, serve, threaded=True)
print(server.server_port, flush=True)
server.serve_forever()
"""


@contextmanager
def s3_server():
    """Run a server with an empty bucket; yield {name: value} of the environment that leads clients to it."""
    environment = os.environ | {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    command = [sys.executable, "-c", _SERVE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True) as it:
        try:
            endpoint = f"http://127.0.0.1:{int(it.stdout.readline())}"
            wait_until(lambda: _made(endpoint), is_alive=lambda: it.poll() is None)
            yield {
                "AWS_ENDPOINT_URL": endpoint,
                "AWS_ACCESS_KEY_ID": "test",
                "AWS_SECRET_ACCESS_KEY": "test",
                "AWS_REGION": "us-east-1",
            }
        finally:
            it.kill()


def _made(endpoint):
    """Make the bucket; tell whether the server answered."""
    try:
        with urlopen(Request(f"{endpoint}/{BUCKET}", method="PUT")) as answer:
            return answer.status == 200
    except (URLError, ConnectionError):
        return False


@pytest.fixture(scope="session")
def s3_environment():
    pytest.importorskip("obstore")
    pytest.importorskip("moto")
    with s3_server() as environment:
        yield environment


@pytest.fixture
def s3(s3_environment, tmp_path, monkeypatch):
    """The URL of a folder of its own in a bucket of a real S3 API."""
    for name, value in s3_environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{tmp_path.parent.name}/{tmp_path.name}"
