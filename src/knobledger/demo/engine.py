"""A small server that stands for one engine of a disaggregated pair, or for their router.

It reads its knobs from the environment once, when it starts, as the real ones do. Only the standard
library, so that the demo's host needs nothing but python3.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"
DEFAULT = 256
"""the kernel's own, where the variable is unset"""


class Engine(BaseHTTPRequestHandler):
    """`GET /health`, `GET /server_info`, `POST /generate`."""

    protocol_version = "HTTP/1.1"
    role = "decode"
    upstream: tuple[str, ...] = ()
    ctas = DEFAULT
    started = time.time()

    def do_GET(self) -> None:
        """Health and facts."""
        match self.path:
            case "/health":
                self._answer(200, {"role": self.role, "up_s": round(time.time() - self.started, 3)})
            case "/server_info":
                self._answer(200, {"role": self.role, "pid": os.getpid(), "target_ctas": self.ctas})
            case _:
                self._answer(404, {"error": f"no page {self.path}"})

    def do_POST(self) -> None:
        """One token: the router asks prefill, then decode; these make it up."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            tokens = [_generate(url) for url in self.upstream] or [self.role]
        except OSError as error:
            self._answer(503, {"error": str(error)})
            return
        self._answer(200, {"text": " ".join(tokens)})

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Quiet: the demo's terminal is for the demo."""

    def _answer(self, status: int, body: dict[str, object]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _generate(url: str) -> str:
    request = urllib.request.Request(f"{url}/generate", data=b"{}", method="POST")
    with urllib.request.urlopen(request, timeout=5) as answer:
        return str(json.load(answer)["text"])


def main() -> None:
    """Serves until it is stopped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--role", required=True, choices=("prefill", "decode", "router"))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--prefill", default="")
    parser.add_argument("--decode", default="")
    arguments = parser.parse_args()
    Engine.role = arguments.role
    Engine.upstream = tuple(url for url in (arguments.prefill, arguments.decode) if url)
    Engine.ctas = int(os.environ.get(KNOB, DEFAULT))
    ThreadingHTTPServer(("127.0.0.1", arguments.port), Engine).serve_forever()


if __name__ == "__main__":
    main()
