"""The way to a host: one connection, which another process carries. Cheap to import: ways are begun ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import socket

    from knobledger.hosts import mux


class Way(Protocol):
    """A connection that is being made, or made. An `OSError` of a request means that it is lost."""

    def wait(self) -> None:
        """Returns when it is logged in. Raises what went wrong; may be called again."""

    def session(self, command: str, timeout_s: float) -> mux.Session:
        """Starts a command, with nothing on its stdin yet. Raises `mux.Declined`, `OSError`."""

    def stream(self, address: str, port: int, timeout_s: float) -> socket.socket:
        """A TCP stream opened from the host. Raises `mux.Declined`, `Unreachable` (the far end is silent), `OSError`."""

    def stop(self) -> None:
        """Lets the connection go. May be called twice."""
