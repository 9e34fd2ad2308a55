"""A server on loopback whose metrics page is prometheus_client's own, one page after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

RUNNING = "sglang:num_running_reqs"
INFLIGHT = "sglang:num_prefill_inflight_queue_reqs"
FAILED = "sglang:num_transfer_failed_reqs_total"


def page(
    running: dict[str, float] | None = None, inflight: float = 0, failed: dict[str, float] | None = None
) -> bytes:
    """A page as SGLang's: a gauge for each tensor-parallel rank, a queue, a counter, a histogram."""
    registry = CollectorRegistry()
    gauge = Gauge(RUNNING, "Running requests", ["engine_type", "tp_rank"], registry=registry)
    for rank, value in (running or {"0": 0}).items():
        gauge.labels("decode", rank).set(value)
    Gauge(INFLIGHT, "Inflight", registry=registry).set(inflight)
    counter = Counter(FAILED, "Failed transfers", ["tp_rank"], registry=registry)
    for rank, value in (failed or {"0": 0}).items():
        counter.labels(rank).inc(value)
    Histogram("sglang:e2e_request_latency_seconds", "Latency", registry=registry).observe(0.3)
    return generate_latest(registry)


class Metricsd:
    """`pages(n)` is the page for the n-th request, from 0; None: the server stops answering for good."""

    def __init__(self, pages: Callable[[int], bytes | None]) -> None:
        self.pages = pages
        self.served = 0
        outer = self

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = outer.pages(outer.served)
                outer.served += 1
                if body is None:
                    outer.server.socket.close()
                    self.connection.close()
                    return
                self.send_response(200 if self.path == "/metrics" else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/metrics"


@contextmanager
def serving(pages: Callable[[int], bytes | None]) -> Iterator[Metricsd]:
    server = Metricsd(pages)
    threading.Thread(target=lambda: _serve(server), daemon=True).start()
    try:
        yield server
    finally:
        server.server.shutdown()
        server.server.server_close()


def _serve(server: Metricsd) -> None:
    try:
        server.server.serve_forever(poll_interval=0.02)
    except (OSError, ValueError):
        return  # its socket was closed from under it, as wanted
