"""The true culprit: an HTTP proxy in front of the router that stops answering a client after some rounds."""

from __future__ import annotations

import argparse
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import Request, urlopen

ROUNDS = 5
"""a client's next round after so many is accepted and never answered"""


class Proxy(BaseHTTPRequestHandler):
    """Forwards `POST /generate`; counts per client, by the `X-Client` header."""

    upstream = ""
    seen: dict[str, int] = {}  # noqa: RUF012 - one per process, on purpose
    lock = threading.Lock()

    def do_POST(self) -> None:
        """Answers the first rounds of a client, then hangs."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        client = self.headers.get("X-Client", "")
        with self.lock:
            self.seen[client] = self.seen.get(client, 0) + 1
            hangs = self.seen[client] > ROUNDS
        if hangs:
            time.sleep(30)
            return
        with urlopen(Request(f"{self.upstream}/generate", data=body, method="POST"), timeout=5) as answer:
            content = answer.read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Quiet."""


class Server(ThreadingHTTPServer):
    """Hanging requests must not keep the process from ending."""

    daemon_threads = True
    address_family = socket.AF_INET


def main() -> None:
    """Serves until it is stopped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--upstream", required=True)
    arguments = parser.parse_args()
    Proxy.upstream = arguments.upstream
    Server(("127.0.0.1", arguments.port), Proxy).serve_forever()


if __name__ == "__main__":
    main()
