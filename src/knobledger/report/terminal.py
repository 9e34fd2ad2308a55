"""Reports for a person at a terminal. Text from files and hosts is never taken for markup."""

from __future__ import annotations

from functools import singledispatch

from knobledger.plan import Edit
from knobledger.report.paper import Paper


@singledispatch
def render(report: object, page: Paper) -> None:
    """Writes any report on a page. Raises `TypeError` for a value that is none."""
    raise TypeError(f"no rendering for {type(report).__name__} on {page!r}")


def line(page: Paper, text: str = "", style: str = "") -> None:
    """One line, shown as it is; control characters are made visible so that a file can't move the cursor."""
    page.write(text if text.isprintable() else _visible(text), style)


def _visible(text: str) -> str:
    shown = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode() for c in shown)


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


def diff_text(page: Paper, diff: str) -> None:
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
        line(page, text, style)


def length(seconds: float) -> str:
    """`2 d 3 h`, `3 h 15 min`, `40 s`: the two largest units."""
    left = round(seconds)
    parts = []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"
