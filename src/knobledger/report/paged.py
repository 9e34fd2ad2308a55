"""A report as a page: Markdown, or one HTML file that needs nothing else. The words are in `templates/`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from knobledger.templates import rendered

_ESCAPED = str.maketrans({"<": "&lt;", ">": "&gt;", "|": "\\|", "\n": " ", "\r": " "})


class Paged(Struct, frozen=True):
    """A page, written to a file or to be printed."""

    text: str
    form: str
    """`md` or `html`"""
    file: Path | None
    facts: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Where it was written and what it tells."""
        return {"file": str(self.file) if self.file else None, "format": self.form, **self.facts}


def markdown(template: str, facts: Mapping[str, Any], workspace: Path) -> str:
    """A page as Markdown; `md(text)` in the template makes text safe for a table cell."""
    return rendered(f"{template}.md.j2", {**facts, "md": _md}, workspace=workspace)


def html(template: str, facts: Mapping[str, Any], workspace: Path, **drawings: Any) -> str:
    """A page as HTML; drawings are SVG of our own making, which the template puts in as they are."""
    from markupsafe import Markup

    def safe(drawing: Any) -> Any:
        return [Markup(one) for one in drawing] if isinstance(drawing, list) else Markup(drawing)

    given = {name: safe(drawing) for name, drawing in drawings.items()}
    return rendered(f"{template}.html.j2", {**facts, **given}, workspace=workspace)


def _md(text: object) -> str:
    return str(text).translate(_ESCAPED)
