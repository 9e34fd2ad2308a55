"""A load for the demo's router: clients that each ask again as soon as they have their answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.request import Request, urlopen

_ANSWER_S = 30.0


@contextmanager
def load(url: str, clients: int, tokens: int) -> Iterator[None]:
    """Asks for `tokens` tokens, by `clients` at a time, while it is open; then waits for the answers under way."""
    over = threading.Event()
    body = json.dumps({"sampling_params": {"max_new_tokens": tokens}}).encode()

    def ask() -> None:
        while not over.is_set():
            with suppress(OSError):
                urlopen(Request(f"{url}/generate", data=body, method="POST"), timeout=_ANSWER_S).read()

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(_ANSWER_S)
