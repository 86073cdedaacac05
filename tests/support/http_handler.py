"""A handler of requests behind a port of its own: for servers that answer otherwise than ours does."""

import http.server
import threading
from contextlib import contextmanager

from support.waiting import join


class QuietHandler(http.server.BaseHTTPRequestHandler):
    """A handler that tells nobody what it does."""

    def body(self):
        """Return the body of the request."""
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def hang_up(self):
        """Close the connection without an answer."""
        self.close_connection = True

    def answer(self, status, kind, body):
        """Answer the request."""
        self.send_response(status)
        self.send_header("content-type", kind)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextmanager
def served(handler):
    """Have requests answered by a class of handlers; yield the URL."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        join(thread)
        server.server_close()
