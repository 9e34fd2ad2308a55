"""The server over stdio, and over HTTP on loopback with a token."""

from __future__ import annotations

import hmac
import ipaddress
import os
import secrets
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

from knobledger.errors import Refused
from knobledger.ledger.writing import private_folder, write_once
from knobledger.mcp import prompts, tools
from knobledger.mcp.desk import AgentDesk

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


def server(root: Path, env: Mapping[str, str], on_behalf_of: str = "") -> MCPServer[Any]:
    """The server of one workspace, not yet speaking to anybody."""
    made: MCPServer[Any] = MCPServer(
        "knobledger",
        title="knobledger",
        version=version("knobledger"),
        instructions=prompts.INSTRUCTIONS,
        log_level="ERROR",
    )
    desk = AgentDesk(root, env, on_behalf_of)
    tools.register(made, desk)
    prompts.register(made, desk)
    return made


def serve_stdio(root: Path, env: Mapping[str, str], on_behalf_of: str = "") -> None:
    """Speaks on stdin and stdout until stdin ends."""
    server(root, env, on_behalf_of).run("stdio")


def serve_http(root: Path, env: Mapping[str, str], address: str, port: int, on_behalf_of: str = "") -> None:
    """Speaks at `http://ADDRESS:PORT/mcp` until Ctrl-C; port 0 takes a free one. Raises `Refused`."""
    listening = _listen(address, port)
    port = listening.getsockname()[1]
    name = f"[{address}]" if ":" in address else address
    places = [f"{host}:{port}" for host in (name, "localhost")]
    app = server(root, env, on_behalf_of).streamable_http_app(
        # A web page that the browser opens may not speak to it, whatever name it gives this machine.
        transport_security=TransportSecuritySettings(allowed_hosts=places, allowed_origins=[]),
        host=address,
    )
    path, token = _token(root)
    print(
        f"listening at http://{name}:{port}/mcp; the bearer token is in {path}", file=sys.stderr, flush=True
    )
    config = uvicorn.Config(_guarded(app, token), log_level="error", access_log=False)
    uvicorn.Server(config).run(sockets=[listening])


def _listen(address: str, port: int) -> socket.socket:
    try:
        loopback = ipaddress.ip_address(address).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise Refused(
            f"{address!r} is no loopback address: the server is for this machine alone",
            hint="from another machine: `ssh -L 8765:127.0.0.1:8765 HOST`, or stdio over ssh",
        )
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((address, port))
        listening.listen(64)  # before anybody is told where
    except (OSError, OverflowError) as error:
        listening.close()
        raise Refused(
            f"can't listen at {address}, port {port}: {error}", hint="`--http 0` takes a free port"
        ) from error
    return listening


def _token(root: Path) -> tuple[Path, str]:
    """The token of this workspace, made at first use; only its owner may read the file. Raises `Refused`."""
    private_folder(root)
    path = root / ".knobledger" / "mcp-token"
    write_once(path, f"{secrets.token_urlsafe(32)}\n".encode(), mode=0o600, folder_mode=0o700)
    token = path.read_text("ascii").strip()
    if path.stat().st_mode & 0o077 or path.stat().st_uid != os.geteuid():
        raise Refused(
            f"{str(path)!r} can be read by others, so its token is no secret",
            hint="remove it: a new one is made at the next start",
        )
    if len(token) < 32:
        raise Refused(f"{str(path)!r} holds no token", hint="remove it: a new one is made at the next start")
    return path, token


def _guarded(app: App, token: str) -> App:
    """Nobody without the token gets as far as the protocol."""
    wanted = f"Bearer {token}".encode()

    async def guard(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, wanted):
                headers = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")]
                await send({"type": "http.response.start", "status": 401, "headers": headers})
                await send({"type": "http.response.body", "body": b""})
                return
        elif scope["type"] != "lifespan":
            return
        await app(scope, receive, send)

    return guard
