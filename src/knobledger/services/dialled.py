"""HTTP to a service through its host's own network, over `Host.dial`: no port is exposed, nothing installed."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from knobledger.hosts.host import Host

MAX_BODY = 8 << 20
"""bytes that are read of a page: a metrics page of many ranks has some hundred KiB"""


class NoAnswer(Exception):
    """Nobody listens, or what came back is no HTTP; the message says which."""


class Page(Struct, frozen=True):
    """One answer."""

    status: int
    body: bytes

    @property
    def text(self) -> str:
        """The body, with what is no UTF-8 replaced."""
        return self.body.decode("utf-8", "replace")


def fetch(host: Host, url: str, *, timeout_s: float, json_body: Any = None) -> Page:
    """A GET, or with `json_body` a POST of it. Redirects are not followed. Raises `NoAnswer`, `Unreachable`."""
    parts = urlsplit(url)
    headers = {"Host": parts.netloc.rpartition("@")[2], "Connection": "close", "User-Agent": "knobledger"}
    body = None
    if json_body is not None:
        body = json.dumps(json_body).encode()
        headers["Content-Type"] = "application/json"
    connection = _Dialled(host, parts, timeout_s)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("POST" if body is not None else "GET", path, body, headers)
        answer = connection.getresponse()
        return Page(answer.status, answer.read(MAX_BODY))
    except ConnectionRefusedError:
        raise NoAnswer("connection refused") from None
    except TimeoutError:
        raise NoAnswer(f"no answer within {timeout_s:.0f} s") from None
    except (http.client.HTTPException, OSError) as error:
        raise NoAnswer(f"no answer: {type(error).__name__} {error}".strip()) from None
    finally:
        connection.close()


def connects(host: Host, address: str, port: int, *, timeout_s: float) -> None:
    """Opens a TCP stream and closes it. Raises `NoAnswer`, `Unreachable`."""
    try:
        host.dial(address, port, timeout_s=timeout_s).close()
    except ConnectionRefusedError:
        raise NoAnswer("connection refused") from None
    except OSError as error:
        raise NoAnswer(str(error)) from None


def address_of(url: str) -> tuple[str, int]:
    """Whom a URL leads to."""
    parts = urlsplit(url)
    return parts.hostname or "127.0.0.1", parts.port or (443 if parts.scheme == "https" else 80)


class _Dialled(http.client.HTTPConnection):
    """An HTTP connection over a stream that the host opens."""

    def __init__(self, host: Host, url: SplitResult, timeout_s: float) -> None:
        address, port = address_of(url.geturl())
        super().__init__(address, port, timeout=timeout_s)
        self._from = host
        self._wait_s = timeout_s
        self._tls = url.scheme == "https"

    def connect(self) -> None:
        """Dials from the host."""
        stream: socket.socket = self._from.dial(self.host, self.port, timeout_s=self._wait_s)
        stream.settimeout(self._wait_s)
        if self._tls:
            import ssl

            stream = ssl.create_default_context().wrap_socket(stream, server_hostname=self.host)
        self.sock = stream
