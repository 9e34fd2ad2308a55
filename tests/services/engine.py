"""A service for tests. It reads its environment at its start, and behaves as well or as badly as that says.

    engine.py NAME PORT [UPSTREAM_PORT...]

STARTS_IN_S: /health says 503 until then. STARTS_WHEN: and until there is this file.
CRASH_AFTER_S: it dies. IGNORES_TERM: SIGTERM does nothing.
KEEPS_ON: where its port is taken it stays alive without one. ORDER: a file that gets a line at start and stop.
"""

import json
import os
import signal
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NAME, PORT, UPSTREAM = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
BEGUN = time.monotonic()
RANKS = "".join(f'sglang:num_queue_reqs{{tp_rank="{rank}"}} {float(rank)}\n' for rank in range(4))


def order(what):
    if path := os.environ.get("ORDER"):
        with open(path, "a") as file:
            file.write(f"{what} {NAME}\n")


class Page(BaseHTTPRequestHandler):
    def do_GET(self):
        up = time.monotonic() - BEGUN > float(os.environ.get("STARTS_IN_S", "0"))
        up = up and os.path.exists(os.environ.get("STARTS_WHEN", "/"))
        if self.path == "/health" and not up:
            self.say(503, {"status": "starting"})
        elif self.path == "/metrics":
            self.say(200, "# TYPE sglang:num_queue_reqs gauge\n" + RANKS)
        elif self.path == "/v1/models":
            self.say(200, {"data": [{"id": "m"}]})
        else:
            self.say(200, {"name": NAME, "pid": os.getpid(), "ctas": os.environ.get("CTAS", "")})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            for port in UPSTREAM:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).read()
        except OSError as error:
            self.say(503, {"error": str(error)})
            return
        word = os.environ.get("COMPLETES_WITH", " Paris")
        match self.path:
            case "/generate":
                tokens = asked["sampling_params"]["max_new_tokens"]
                self.say(200, {"text": word * tokens})
            case "/v1/completions":
                assert (asked["model"], asked["max_tokens"]) == ("m", 1)
                assert asked["prompt"]
                self.say(200, {"choices": [{"text": word}]})
            case "/v1/chat/completions":
                assert asked["messages"][0]["content"]
                self.say(200, {"choices": [{"message": {"content": word}}]})

    def say(self, status, body):
        content = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args):
        pass


def end(signum, frame):
    if "IGNORES_TERM" not in os.environ:
        order("stop")
        os._exit(0)


signal.signal(signal.SIGTERM, end)
order("start")
print(f"{NAME} starts", flush=True)
if crash := os.environ.get("CRASH_AFTER_S"):

    def die():
        print(f"{NAME}: CUDA error: out of memory", flush=True)
        os._exit(1)

    threading.Timer(float(crash), die).start()
try:
    server = ThreadingHTTPServer(("127.0.0.1", PORT), Page)
except OSError as error:
    print(f"{NAME}: {error}", flush=True)
    if "KEEPS_ON" not in os.environ:
        raise
    threading.Event().wait()
server.serve_forever()
