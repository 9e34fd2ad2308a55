"""Commands around what was changed by hand."""

from __future__ import annotations

from typing import Annotated

import typer

from knobledger.cli.session import session
from knobledger.cli.shared import GoAhead
from knobledger.errors import NotApproved
from knobledger.quoting import command_line


def register(app: typer.Typer) -> None:
    """Adds the commands in the order of the help."""
    for command in (drift, adopt):
        app.command(command.__name__)(command)


def drift(
    targets: Annotated[
        list[str] | None, typer.Argument(metavar="TARGET...", help="Targets, globs or groups. Default: all.")
    ] = None,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 10 if a target was changed by hand.")
    ] = False,
) -> int:
    """Compare targets with their last recorded bytes: what was changed by hand, when, and hints at who it was."""
    with session.workspace() as workspace:
        return session.show(workspace.drift(targets or [], strict=exit_code))


def adopt(
    targets: Annotated[list[str], typer.Argument(metavar="TARGET...", help="Targets, globs or groups.")],
    backups: Annotated[
        bool,
        typer.Option(
            "--backups",
            help="Reconstruct earlier changes from copies beside the file, and from a git history there.",
        ),
    ] = False,
    go_ahead: GoAhead = False,
) -> int:
    """Record what was done by hand as observed. Nothing on a host is changed, and nobody is credited with it."""
    with session.workspace() as workspace:
        if not go_ahead:
            found = workspace.adopt(targets, backups=backups, record=False)
            if not found.new:
                return session.show(found)
            if not session.json:
                session.preview(found)
            if not session.can_ask or not typer.confirm("Record this?", default=False, err=True):
                words = ("knob", "adopt", *targets, *(["--backups"] if backups else []), "--go-ahead")
                raise NotApproved(
                    "nothing was recorded: no go-ahead was given",
                    hint=f"`{command_line(words)}`",
                    **found.to_json(),
                )
        return session.show(workspace.adopt(targets, backups=backups))
