"""Commands about documents and reports."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from knobledger.cli.look import said_moment
from knobledger.cli.session import session
from knobledger.errors import NotApproved


def register(app: typer.Typer) -> None:
    """Adds the commands in the order of the help."""
    docs = typer.Typer(help="Keep documents in line with the record.", no_args_is_help=True)
    docs.command("stale")(stale)
    docs.command("correct")(correct)
    app.add_typer(docs, name="docs")
    report = typer.Typer(help="Write reports as Markdown or as one HTML file.", no_args_is_help=True)
    report.command("postmortem")(postmortem)
    report.command("since")(since)
    app.add_typer(report, name="report")


def stale(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Documents, or folders with Markdown.")
    ],
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 10 if a document contradicts the record.")
    ] = False,
) -> int:
    """List lines of documents that name a refuted hypothesis, blame a wrongful suspect, or give a value that is not live."""
    with session.workspace() as workspace:
        return session.show(workspace.docs_stale(paths, exit_code=exit_code))


def correct(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The document.")],
    hypothesis: Annotated[str, typer.Option("--hypothesis", metavar="SLUG", help="What it is wrong about.")],
    go_ahead: Annotated[
        bool, typer.Option("--go-ahead", help="This is the go-ahead: append without asking.")
    ] = False,
) -> int:
    """Append a dated addendum with the verdict to a document, and commit that one file if it is in git."""
    with session.workspace() as workspace:
        draft = workspace.draft_correction(file, hypothesis)
        if draft.addendum and not go_ahead:
            if not session.can_ask:
                if not session.json:
                    session.show(draft)
                raise NotApproved(
                    "not appended: there is no terminal to ask at",
                    hint=f"`knob docs correct {file} --hypothesis {hypothesis} --go-ahead`",
                    **({"report": draft.to_json()} if session.json else {}),
                )
            session.preview(draft)
            if not typer.confirm("Append it?", default=False, err=True):
                raise NotApproved("not appended: no go-ahead was given")
        return session.show(workspace.correct(draft))


def postmortem(
    hypothesis: Annotated[
        str | None, typer.Option("--hypothesis", metavar="SLUG", help="Only this one. Default: all.")
    ] = None,
    since_: Annotated[
        str | None, typer.Option("--since", metavar="WHEN", help="Leave out what was before.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", metavar="FILE", help="FILE.md or FILE.html. Default: Markdown on stdout."),
    ] = None,
) -> int:
    """Tell what was believed when and on what evidence, what it cost, what was kept and what is still owed."""
    with session.workspace() as workspace:
        start = said_moment(workspace, since_) if since_ else None
        return session.show(workspace.postmortem(hypothesis, start, output))


def since(
    when: Annotated[list[str], typer.Argument(metavar="WHEN", help="noon, 14:14, 2h, 3 days ago, ...")],
    output: Annotated[Path, typer.Option("-o", metavar="FILE", help="FILE.md or FILE.html.")],
) -> int:
    """Write what changed since a moment."""
    with session.workspace() as workspace:
        return session.show(workspace.report_since(said_moment(workspace, " ".join(when)), output))
