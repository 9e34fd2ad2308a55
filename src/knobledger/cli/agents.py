"""The command for agents."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from knobledger.cli.session import session


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("mcp")(mcp)


def mcp(
    http: Annotated[
        int | None,
        typer.Option(
            "--http",
            metavar="PORT",
            min=0,
            max=65535,
            help="Speak HTTP on loopback, with a token. Default: stdio.",
        ),
    ] = None,
    address: Annotated[
        str, typer.Option("--address", metavar="ADDRESS", help="A loopback address to listen at.")
    ] = "127.0.0.1",
) -> int:
    """Serve agents by the Model Context Protocol: they look and plan, and apply what a person has signed."""
    from knobledger.finding import workspace_folder

    root = workspace_folder(session.directory, os.environ)
    from knobledger.mcp.server import serve_http, serve_stdio

    if http is None:
        serve_stdio(root, os.environ, session.on_behalf_of)
    else:
        serve_http(root, os.environ, address, http, session.on_behalf_of)
    return 0
