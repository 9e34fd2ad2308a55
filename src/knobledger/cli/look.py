"""Commands that only look."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from knobledger.cli.change import Add, Force, Line, assignment, removal
from knobledger.cli.session import session
from knobledger.cli.shared import From, GoAhead
from knobledger.errors import NotApproved, Usage

if TYPE_CHECKING:
    from knobledger.moment import Resolved
    from knobledger.workspace import Workspace

One = Annotated[
    str, typer.Argument(metavar="TARGET", help="HOST/SERVICE, or HOST/SERVICE:NAME for another file of it.")
]
Only = Annotated[str | None, typer.Option("--target", metavar="TARGET", help="Only this target.")]
Since = Annotated[str | None, typer.Option("--since", metavar="WHEN", help="From this moment on.")]
Until = Annotated[str | None, typer.Option("--until", metavar="WHEN", help="Before this moment.")]


def register(app: typer.Typer) -> None:
    """Adds the commands in the order of the help."""
    for command in (status, since, log, show, blame, diff, backups, scan):
        app.command(command.__name__)(command)


def status(
    targets: Annotated[
        list[str] | None, typer.Argument(metavar="TARGET...", help="Targets, globs or groups. Default: all.")
    ] = None,
    recorded: Annotated[bool, typer.Option("--recorded", help="Ask only the ledger, no host.")] = False,
) -> int:
    """Show the knobs of targets: value, who set it, when and why; and what is out of order."""
    with session.workspace() as workspace:
        return session.show(workspace.status(targets or [], recorded=recorded))


def since(
    when: Annotated[
        list[str],
        typer.Argument(
            metavar="WHEN",
            help="noon, 14:14, yesterday 18:00, 2h, 3 days ago, monday, an ISO date or instant.",
        ),
    ],
    until: Until = None,
    target: Only = None,
    live: Annotated[bool, typer.Option("--live", help="Ask the hosts as well, for edits by hand.")] = False,
    from_: From = "files",
) -> int:
    """Show what changed since a moment, oldest first."""
    with session.workspace(from_) as workspace:
        start = said_moment(workspace, " ".join(when), echo=session.json)
        end = said_moment(workspace, until) if until else None
        return session.show(workspace.since(start, end, target, live=live))


def log(
    target: Only = None,
    knob: Annotated[
        str | None, typer.Option("--knob", metavar="NAME", help="Entries about this knob.")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option("--kind", metavar="KIND", help="planned, applied, observed, set, revert, perf, ..."),
    ] = None,
    actor: Annotated[
        str | None, typer.Option("--actor", metavar="NAME", help="Entries by this actor.")
    ] = None,
    since_: Since = None,
    until: Until = None,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="At most so many.")] = None,
    from_: From = "files",
) -> int:
    """Show the ledger's entries, newest first."""
    with session.workspace(from_) as workspace:
        from knobledger.looking import Query

        start = said_moment(workspace, since_) if since_ else None
        end = said_moment(workspace, until) if until else None
        query = Query(
            target=workspace.config.target(target).name if target else None,
            knob=knob,
            kind=kind,
            actor=actor,
            since=start.instant if start else None,
            until=end.instant if end else None,
            limit=limit,
        )
        return session.show(workspace.log(query))


def show(
    entry: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="A plan, a change (@ is the newest, @-1 the one before), or any entry."
        ),
    ],
    from_: From = "files",
) -> int:
    """Show one plan, change or entry in full."""
    with session.workspace(from_) as workspace:
        return session.show(workspace.show(entry))


def blame(
    target: One,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...", help="Only these knobs, with every edit of them (flags after `--`)."
        ),
    ] = None,
    from_: From = "files",
) -> int:
    """Show each line of a target with the entry that brought it; of knobs, their history."""
    with session.workspace(from_) as workspace:
        return session.show(workspace.blame(target, names or ()))


def diff(
    target: One,
    a: Annotated[
        str | None,
        typer.Argument(
            metavar="A", help="A change, a backup, live, or another target. Default: as recorded."
        ),
    ] = None,
    b: Annotated[str | None, typer.Argument(metavar="B", help="The same. Default: live.")] = None,
) -> int:
    """Show the difference of two states of a target, as knobs and as lines."""
    with session.workspace() as workspace:
        return session.show(workspace.diff(target, a, b))


def backups(
    words: Annotated[
        list[str],
        typer.Argument(metavar="[prune] TARGET", help="HOST/SERVICE, or HOST/SERVICE:NAME; `prune` first."),
    ],
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than", metavar="DURATION", help="prune: leave those whose change is younger alone."
        ),
    ] = "30d",
    go_ahead: GoAhead = False,
) -> int:
    """List the backups of a target on its host; with `prune`, remove those that no entry needs any more."""
    match words:
        case [target] if target != "prune":
            with session.workspace() as workspace:
                return session.show(workspace.backups(target))
        case ["prune", target]:
            return _prune(target, older_than, go_ahead)
        case _:
            raise Usage("one target at a time", hint="`knob backups TARGET`, `knob backups prune TARGET`")


def _prune(target: str, older_than: str, go_ahead: bool) -> int:
    from knobledger.moment import duration

    seconds = duration(older_than)
    with session.workspace() as workspace:
        choice = workspace.prunable(target, seconds)
        if not choice.go:
            return session.show(choice)
        if not go_ahead:
            (session.preview if session.can_ask else session.show)(choice)
            if not session.can_ask or not typer.confirm("Remove them?", default=False, err=True):
                raise NotApproved(
                    "no backup was removed: no go-ahead was given",
                    hint=f"`knob backups prune {target} --go-ahead`",
                )
        return session.show(workspace.prune(target, seconds))


def scan(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files on this machine.")],
    dialect: Annotated[
        str | None,
        typer.Option(
            "--dialect",
            metavar="NAME",
            help="bash, sh, env, env-docker, env-systemd, unit. Default: by the file.",
        ),
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Show the edit; flags: --set=--flag=8."),
    ] = None,
    unsets: Annotated[
        list[str] | None, typer.Option("--unset", metavar="NAME", help="Show the edit that takes a knob out.")
    ] = None,
    add: Add = False,
    line: Line = None,
    force: Force = False,
    output: Annotated[
        Path | None, typer.Option("-o", metavar="OUT", help="Write the edited copy here.")
    ] = None,
    beside: Annotated[
        list[Path] | None,
        typer.Option("--with", metavar="FILE", help="A file that these source, or read by EnvironmentFile=."),
    ] = None,
) -> int:
    """List the knobs of files, or show the edit that would be made. No host is needed, FILE is never written."""
    from knobledger.scan import masker, scan, scan_edit

    mask = session.masker = masker(os.environ, session.directory)
    requests = [assignment(text) for text in sets or ()] + [removal(text) for text in unsets or ()]
    if requests:
        return session.show(
            scan_edit(
                files, dialect, requests, mask, beside or (), add=add, line=line, force=force, output=output
            )
        )
    return session.show(scan(files, dialect, mask, beside or ()))


def said_moment(workspace: Workspace, text: str, *, echo: bool = True) -> Resolved:
    """What WHEN means; said on stderr, unless the report begins with it."""
    found = workspace.moment(text)
    for said in ([found.echo()] if echo else []) + list(found.remarks):
        session.say(said)
    return found
