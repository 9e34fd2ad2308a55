"""Commands that look after the workspace itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from knobledger.cli.session import session
from knobledger.cli.shared import From
from knobledger.errors import Usage


def register(app: typer.Typer) -> None:
    """Adds the commands in the order of the help."""
    for command in (init, demo, verify, recover, index, note):
        app.command(command.__name__)(command)


def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The folder; made if missing.")] = Path(),
) -> int:
    """Make a folder a workspace; what is there already stays as it is."""
    from knobledger.founding import found

    return session.show(found(directory))


def demo(
    directory: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="Where the workspace is left. Default: a new folder.")
    ] = None,
    host: Annotated[
        bool, typer.Option("--host", help="Only wake the host of an earlier demo in DIR, until Ctrl-C.")
    ] = False,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Draw the restore as a picture.")
    ] = None,
) -> int:
    """Live through the incident on this machine: real processes, a real SSH server, the real commands."""
    from knobledger.demo.play import host_again, play

    if host and directory is None:
        raise Usage("--host needs the folder of an earlier demo", hint="`knob demo --host DIR`")
    return host_again(directory) if host and directory else play(directory, svg)


def verify(
    hosts: Annotated[
        bool, typer.Option("--hosts", help="Compare the live files and backups on the hosts, too.")
    ] = False,
) -> int:
    """Check that the ledger's files, snapshots and git history are what was written."""
    with session.workspace() as workspace:
        return session.show(workspace.verify(hosts=hosts))


def recover(
    finish: Annotated[
        bool, typer.Option("--finish", help="Restart what a restart left in the middle has not proven.")
    ] = False,
    roll_back: Annotated[
        bool, typer.Option("--roll-back", help="Take the change of such a restart back, then restart.")
    ] = False,
) -> int:
    """Settle attempts whose outcome is not recorded, by a fresh look; say how restarts stand that have no end."""
    if finish and roll_back:
        raise Usage("--finish and --roll-back exclude each other", hint="`knob recover` alone only looks")
    with session.workspace() as workspace:
        return session.show(workspace.recover("finish" if finish else "roll back" if roll_back else "look"))


def index(
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Make it anew from the event files.")] = False,
    from_: From = "files",
) -> int:
    """Look after the SQL index, which is a cache of the ledger. `--from replica` first makes missing event files anew."""
    with session.workspace(from_) as workspace:
        return session.show(workspace.index(rebuild=rebuild))


def note(
    text: Annotated[str, typer.Argument(metavar="TEXT")],
    on: Annotated[
        str | None, typer.Option("--on", metavar="ID", help="The change or entry that it is about.")
    ] = None,
) -> int:
    """Write free text into the ledger."""
    with session.workspace() as workspace:
        return session.show(workspace.note(text, on))
