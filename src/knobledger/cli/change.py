"""Commands that change something: each makes a plan, asks, applies it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from knobledger.cli.session import session
from knobledger.cli.shared import Shared, Why, planning
from knobledger.errors import NotApproved, Refused, Usage
from knobledger.quoting import quote

if TYPE_CHECKING:
    from knobledger.drafting import Options
    from knobledger.knobs import Request
    from knobledger.report.plans import NothingToDo, PlanReport
    from knobledger.workspace import Workspace

Target = Annotated[
    str, typer.Argument(metavar="TARGET", help="HOST/SERVICE, or HOST/SERVICE:NAME for another file of it.")
]
Targets = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="HOST/SERVICE, HOST/SERVICE:NAME for another file of it, a group, or a glob: gpu*/decode. More may follow.",
    ),
]
Change = Annotated[
    str,
    typer.Argument(
        metavar="CHANGE", help="An id or a prefix of it; @ is the newest change, @-1 the one before."
    ),
]
PlanId = Annotated[str, typer.Argument(metavar="PLAN", help="A plan's id, or a prefix of it.")]
Add = Annotated[bool, typer.Option("--add", help="Put the knob in where the file does not have it.")]
Line = Annotated[
    int | None, typer.Option("--line", metavar="N", help="The occurrence on this line is meant.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace a dynamic or conditional value, too.")]


def register(app: typer.Typer) -> None:
    """Adds the commands in the order of the help."""
    app.command("set")(set_)
    for command in (unset, edit, revert, restore, plans, approve, reject, apply):
        app.command(command.__name__)(command)


@planning
def set_(
    target: Targets,
    assignments: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE...", help="Knobs and their values; flags after `--`."),
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="The same, also for flags: --set=--flag=8."),
    ] = None,
    unsets: Annotated[
        list[str] | None, typer.Option("--unset", metavar="NAME", help="Take a knob out; may repeat.")
    ] = None,
    add: Add = False,
    line: Line = None,
    force: Force = False,
    *,
    shared: Shared,
) -> int:
    """Give knobs of a target new values."""
    options = _options(shared, add=add, line=line, force=force)
    with session.workspace() as workspace:
        more, words = _leading_targets(workspace, assignments or ())
        requests = [assignment(text) for text in (*words, *(sets or ()))]
        requests += [removal(text) for text in unsets or ()]
        return _carried_out(workspace, workspace.set([target, *more], requests, options), shared)


@planning
def unset(
    target: Targets,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="Knobs; flags after `--`.")
    ] = None,
    unsets: Annotated[
        list[str] | None,
        typer.Option("--unset", metavar="NAME", help="The same, also for flags: --unset=--flag."),
    ] = None,
    line: Line = None,
    force: Force = False,
    *,
    shared: Shared,
) -> int:
    """Take knobs of a target out."""
    options = _options(shared, line=line, force=force)
    with session.workspace() as workspace:
        more, words = _leading_targets(workspace, names or ())
        requests = [removal(text) for text in (*words, *(unsets or ()))]
        return _carried_out(workspace, workspace.set([target, *more], requests, options), shared)


@planning
def edit(
    target: Target,
    *,
    shared: Shared,
) -> int:
    """Open a copy of a target in $EDITOR, and plan what was made of it."""
    options = _options(shared)
    editor = partial(_edited, _editor(target))
    with session.workspace() as workspace:
        return _carried_out(workspace, workspace.edit(target, editor, options), shared)


@planning
def revert(
    change: Change,
    exact: Annotated[
        bool, typer.Option("--exact", help="Bring the whole backup back, dropping later edits.")
    ] = False,
    *,
    shared: Shared,
) -> int:
    """Undo one change, keeping all later ones."""
    options = _options(shared, exact=exact)
    with session.workspace() as workspace:
        return _carried_out(workspace, workspace.revert(change, options), shared)


@planning
def restore(
    change: Annotated[
        str,
        typer.Argument(
            metavar="CHANGE", help="The revert, or the change that it took back, or a backup's name."
        ),
    ],
    exact: Annotated[
        bool, typer.Option("--exact", help="Bring the whole backup back, dropping later edits.")
    ] = False,
    *,
    shared: Shared,
) -> int:
    """Undo a revert: bring back what it took away, with a proof."""
    options = _options(shared, exact=exact)
    with session.workspace() as workspace:
        return _carried_out(workspace, workspace.restore(change, options), shared)


def plans(
    spent: Annotated[bool, typer.Option("--all", help="Used, rejected and expired ones as well.")] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Ask the hosts which of them are stale: made for other bytes.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on until Ctrl-C; without a terminal, print what changes.")
    ] = False,
) -> int:
    """List the plans that wait for a go-ahead or for being applied."""
    if watch:
        from knobledger.cli.watched import watch_plans

        return watch_plans(spent=spent, live=live)
    with session.workspace() as workspace:
        return session.show(workspace.plans(spent=spent, live=live))


def approve(
    plan: PlanId,
    key: Annotated[
        str,
        typer.Option(
            "--key", metavar="FILE", help="Sign with this key. Default: git's user.signingkey, by ssh-agent."
        ),
    ] = "",
    break_glass: Annotated[
        str,
        typer.Option(
            "--break-glass",
            metavar="TEXT",
            help="An emergency: your signature alone is enough, if hosts.toml names you. Stays on `status` "
            "until somebody else has signed for it.",
        ),
    ] = "",
) -> int:
    """Give one plan the go-ahead; `apply` then carries it out. Where the policy asks for it, this signs the plan."""
    source = "confirm at a terminal" if session.can_ask else "no terminal"
    with session.workspace() as workspace:
        return session.show(workspace.approve(plan, source, key=key, break_glass=break_glass))


def reject(plan: PlanId, why: Why = "") -> int:
    """Turn a plan down, for good."""
    with session.workspace() as workspace:
        return session.show(workspace.reject(plan, why))


def apply(plan: PlanId) -> int:
    """Carry out an approved plan, once, on exactly the bytes it was made for."""
    with session.workspace() as workspace:
        return session.show(workspace.apply(plan))


def _leading_targets(workspace: Workspace, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words up to the first that is no target, and the rest: `gpu1/decode gpu2/decode NAME=VALUE`."""
    count = 0
    while count < len(words) and "=" not in words[count] and workspace.config.is_target(words[count]):
        count += 1
    return list(words[:count]), list(words[count:])


def assignment(text: str) -> Request:
    """`NAME=VALUE` or `--flag=VALUE`; a flag without `=` is a bare one. Raises `Usage`."""
    from knobledger.asking import knob_name
    from knobledger.knobs import Request

    name, equals, value = text.partition("=")
    if not equals and not name.startswith("-"):
        raise Usage(f"{text!r} has no '='", hint=f"`{name}=VALUE`, or to take it out: `--unset {name}`")
    return Request(knob_name(name), value)


def removal(text: str) -> Request:
    """The name of a knob that is to go. Raises `Usage`."""
    from knobledger.asking import knob_name
    from knobledger.knobs import Request

    return Request(knob_name(text), None)


def _options(
    shared: Shared,
    *,
    add: bool = False,
    line: int | None = None,
    force: bool = False,
    exact: bool = False,
) -> Options:
    from knobledger.asking import label, window
    from knobledger.drafting import Options

    if shared.roll_back and shared.restart == "none":
        raise Usage("--roll-back-on-failure needs a restart to fail", hint="add `--restart service`")
    return Options(
        add=add,
        line=line,
        force=force,
        in_place=shared.in_place,
        exact=exact,
        why=shared.why,
        hypotheses=tuple(shared.hypotheses or ()),
        purpose=shared.kind,
        label=label(shared.label),
        despite=shared.despite,
        restart=shared.restart,
        roll_back_on_failure=shared.roll_back,
        confirm_within_s=window(shared.confirm_within),
        batches=tuple(word.strip() for word in shared.batch.split(",")) if shared.batch else (),
        max_failures=shared.max_failures,
        skip_unreachable=shared.skip_unreachable,
    )


def _carried_out(workspace: Workspace, report: PlanReport | NothingToDo, shared: Shared) -> int:
    return carry_out(workspace, report, plan=shared.plan, go_ahead=shared.go_ahead)


def carry_out(workspace: Workspace, report: PlanReport | NothingToDo, *, plan: bool, go_ahead: bool) -> int:
    """Shows a plan, asks for the go-ahead unless it was given, applies it. Raises `NotApproved`."""
    from knobledger.report.plans import NothingToDo

    if isinstance(report, NothingToDo) or plan:
        return session.show(report)
    name = report.id[:8]
    if go_ahead:
        source = "flag"
        for remark in report.remarks:
            session.say(f"note: {remark}")
    elif session.can_ask:
        session.preview(report)
        source = "confirm at a terminal"
        if not typer.confirm("Go ahead?", default=False, err=True):
            raise NotApproved(
                "not applied: no go-ahead was given",
                hint=f"the plan stays open: `knob approve {name}`, `knob reject {name}`",
            )
    else:
        if not session.json:
            session.show(report)
        raise NotApproved(
            f"not applied: plan {name} waits for a go-ahead, and there is no terminal to ask at",
            hint=f"`knob approve {name}`, then `knob apply {name}`",
            plan=report.id,
            **({"report": report.to_json()} if session.json else {}),
        )
    workspace.approve(report.id, source)
    return session.show(workspace.apply(report.id))


def _editor(target: str) -> str:
    """The editor's command. Raises `Refused` where none is set and `vi` would have no terminal."""
    import os

    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    if not command and not sys.stdin.isatty():
        raise Refused(
            "there is no terminal to edit at, and $EDITOR names no editor that needs none",
            hint=f"`knob set {quote(target)} NAME=VALUE`, or `EDITOR=COMMAND knob edit {quote(target)}`",
        )
    return command or "vi"


def _edited(command: str, content: bytes, name: str) -> bytes:
    """Lets a person edit a private copy; raises `Refused` if the editor fails."""
    import os
    import shlex
    import subprocess
    import tempfile

    with tempfile.TemporaryDirectory(prefix="knob-edit-") as folder:
        copy = Path(folder) / name
        copy.write_bytes(content)
        copy.chmod(0o600)
        try:
            done = subprocess.run([*shlex.split(command), os.fspath(copy)], check=False, stdin=sys.stdin)
        except OSError as error:
            raise Refused(
                f"the editor {command!r} can't be started: {error.strerror}", hint="set $EDITOR"
            ) from error
        if done.returncode:
            raise Refused(
                f"the editor {command!r} ended with exit code {done.returncode}; nothing was planned"
            )
        return copy.read_bytes()
