"""A small server that stands for one engine of a disaggregated pair, or for their router.

It reads its knobs from the environment once, when it starts, as the real ones do; its pages have the names, and its
metrics the names and labels, of SGLang. Only the standard library, so that the demo's host needs nothing but python3.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"
DEFAULT = 256
"""the kernel's own, where the variable is unset"""
MODEL = "dsv4"
TOKEN_S = 0.02
"""what decode takes for each token after the first"""


class Engine(BaseHTTPRequestHandler):
    """`GET /health /server_info /metrics /v1/models`, `POST /generate /v1/completions`.

    A request says how long its tokens take by `sampling_params.max_new_tokens`, at `TOKEN_S` each on decode.
    """

    protocol_version = "HTTP/1.1"
    role = "decode"
    upstream: tuple[str, ...] = ()
    ctas = DEFAULT
    started = time.time()
    running = 0
    served = 0
    counting = threading.Lock()

    def do_GET(self) -> None:
        """Health and facts."""
        match self.path:
            case "/health":
                self._answer(200, {"role": self.role, "up_s": round(time.time() - self.started, 3)})
            case "/server_info":
                self._answer(200, {"role": self.role, "pid": os.getpid(), "target_ctas": self.ctas})
            case "/v1/models":
                self._answer(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})
            case "/metrics":
                self._send(200, "text/plain; version=0.0.4", self._metrics().encode())
            case _:
                self._answer(404, {"error": f"no page {self.path}"})

    def do_POST(self) -> None:
        """Tokens: the router asks prefill, then decode; these make them up."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        asked = json.loads(body or b"{}")
        tokens = asked.get("max_tokens") or asked.get("sampling_params", {}).get("max_new_tokens", 1)
        self._count(1)
        try:
            if self.role == "decode":
                time.sleep(TOKEN_S * (tokens - 1))
            words = [_generate(url, tokens) for url in self.upstream] or [self.role]
        except OSError as error:
            self._answer(503, {"error": str(error)})
            return
        finally:
            self._count(-1)
        text = " ".join(words)
        match self.path:
            case "/v1/completions":
                self._answer(200, {"object": "text_completion", "model": MODEL, "choices": [{"text": text}]})
            case "/generate":
                self._answer(200, {"text": text})
            case _:
                self._answer(404, {"error": f"no page {self.path}"})

    def _count(self, by: int) -> None:
        with self.counting:
            Engine.running += by
            Engine.served += by > 0

    def _metrics(self) -> str:
        labels = f'{{engine_type="{self.role}",model_name="{MODEL}",tp_rank="0"}}'
        gauges = {"num_running_reqs": self.running, "num_queue_reqs": 0}
        if self.role == "prefill":
            gauges |= {"num_prefill_bootstrap_queue_reqs": 0, "num_prefill_inflight_queue_reqs": self.running}
        elif self.role == "decode":
            gauges |= {"num_decode_prealloc_queue_reqs": 0, "num_decode_transfer_queue_reqs": 0}
        lines = [
            f"# TYPE sglang:{name} gauge\nsglang:{name}{labels} {value}" for name, value in gauges.items()
        ]
        lines.append(
            f"# TYPE sglang:num_requests_total counter\nsglang:num_requests_total{labels} {self.served}"
        )
        return "\n".join(lines) + "\n"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Quiet: the demo's terminal is for the demo."""

    def _answer(self, status: int, body: dict[str, object]) -> None:
        self._send(status, "application/json", json.dumps(body).encode())

    def _send(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _generate(url: str, tokens: int) -> str:
    body = json.dumps({"sampling_params": {"max_new_tokens": tokens}}).encode()
    request = urllib.request.Request(f"{url}/generate", data=body, method="POST")
    with urllib.request.urlopen(request, timeout=30) as answer:
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
    ThreadingHTTPServer.request_queue_size = 128
    ThreadingHTTPServer(("127.0.0.1", arguments.port), Engine).serve_forever()


if __name__ == "__main__":
    main()
