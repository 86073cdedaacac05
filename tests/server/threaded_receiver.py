"""A receiver of webhooks in a thread, for tests that call a real server."""

import http.server
import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field

from support.waiting import join


@dataclass
class Receiver:
    """A receiver in a thread; `status` is what it answers."""

    port: int = 0
    status: int = 204
    requests: list = field(default_factory=list)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def ids(self):
        return [headers["webhook-id"] for headers, _ in self.requests]

    def events(self):
        return [json.loads(body) for _, body in self.requests]


@contextmanager
def receiving(receiver):
    """Run a receiver; at its own port again, if it had one."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.requests.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(receiver.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", receiver.port), Handler)
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        join(thread)
        server.server_close()
