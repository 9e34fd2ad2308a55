"""Reports for a person at a terminal. Text from files and hosts is never taken for markup."""

from __future__ import annotations

from functools import singledispatch

from rich.console import Console
from rich.text import Text

from knobledger.names import short
from knobledger.plan import Edit
from knobledger.report.upkeep import Backups, Difference, Founded, Indexed, Plans, Recovered, Verified


@singledispatch
def render(report: object, console: Console) -> None:
    """Prints any report on a console. Raises `TypeError` for a value that is none."""
    raise TypeError(f"no rendering for {type(report).__name__} on {console!r}")


def line(console: Console, text: str = "", style: str = "") -> None:
    """One line, shown as it is; control characters are made visible so that a file can't move the cursor."""
    shown = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    shown = "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode() for c in shown)
    console.print(Text(shown, style=style), soft_wrap=True)


def edit_text(edit: Edit) -> str:
    """`NAME   256 → 512`; an absent side is said in words."""
    before, after = edit.before, edit.after
    if before is None:
        return f"{edit.name}   (absent) → {_value(after)}"
    if after is None:
        return f"{edit.name}   {_value(before)} → (absent)"
    return f"{edit.name}   {_value(before)} → {_value(after)}"


def _value(text: str | None) -> str:
    return repr(text) if text is None or text == "" or text != text.strip() else text


def diff_text(console: Console, diff: str) -> None:
    """A unified difference, coloured as people know it."""
    for text in diff.split("\n")[:-1]:
        match text[:2]:
            case "--" | "++":
                style = "bold"
            case _ if text.startswith("+"):
                style = "green"
            case _ if text.startswith("-"):
                style = "red"
            case _ if text.startswith("@@"):
                style = "cyan"
            case _:
                style = ""
        line(console, text, style)


@render.register
def _(report: Plans, console: Console) -> None:
    if not report.plans:
        line(console, "no plan waits")
    for plan in report.plans:
        planned = plan.planned
        what = "; ".join(edit_text(edit) for edit in planned.files[0].edits)
        more = f" and {len(planned.files) - 1} more" if len(planned.files) > 1 else ""
        line(
            console,
            f"{short(plan.id)}  {plan.status:9} {planned.verb} {planned.files[0].target}{more}  {what}",
        )
        why = f"  {planned.why}" if planned.why else ""
        line(
            console,
            f"          by {planned.actor}, expires {planned.expires[:16].replace('T', ' ')}Z{why}",
            "dim",
        )


@render.register
def _(report: Backups, console: Console) -> None:
    if not report.backups:
        line(console, f"no backups of {report.target}")
    for backup in report.backups:
        style = {"ok": "", "not recorded": "dim"}.get(backup.state, "red")
        change = short(backup.change) if backup.change else "-" * 8
        size = "?" if backup.size is None else str(backup.size)
        line(
            console,
            f"{change}  {backup.at[:19].replace('T', ' ')}Z  {size:>8} B  {backup.state:12} {backup.path}",
            style,
        )


@render.register
def _(report: Difference, console: Console) -> None:
    line(console, f"{report.a}  →  {report.b}", "bold")
    if not report.diff:
        line(console, "no difference")
    for edit in report.edits:
        line(console, f"  {edit_text(edit)}")
    diff_text(console, report.diff)


@render.register
def _(report: Recovered, console: Console) -> None:
    if not report.settled and not report.unsettled:
        line(console, "nothing is in doubt")
    words = {
        "applied": "the change is in the file",
        "unchanged": "the file is as it was before",
        "overwritten": "the file holds neither the bytes before nor those planned",
    }
    for change, target, outcome in report.settled:
        line(console, f"{short(change)}  {target}: settled, {outcome}: {words.get(outcome, '')}")
    for change, target, message, _ in report.unsettled:
        line(console, f"{short(change)}  {target}: still in doubt: {message}", "red")


@render.register
def _(report: Verified, console: Console) -> None:
    for finding in report.findings:
        line(
            console,
            f"{finding.kind}: {finding.message}",
            "yellow" if finding.kind.startswith("warning") else "red",
        )
    line(console, "the ledger verifies" if report.ok else "the ledger does not verify", "bold")
    line(console, report.note, "dim")


@render.register
def _(report: Indexed, console: Console) -> None:
    done = "rebuilt from" if report.rebuilt else "up to date with"
    line(console, f"the index is {done} {report.events} event files")


@render.register
def _(report: Founded, console: Console) -> None:
    line(console, f"workspace {report.directory}", "bold")
    for name in report.made:
        line(console, f"  made {name}")
    if not report.made:
        line(console, "  everything was there already")
    line(console, f"  {report.git}")
    line(console, "next: name your hosts in hosts.toml, then `knob status`")
