"""Templates: the workspace's own where it has one of that name, else the package's. Rendered by jinja2.

A variable that a template names and nobody gives is an error that names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from knobledger.errors import BadConfig

_PACKAGE = Path(__file__).parent / "templates"
_MARKUP = (".svg.j2", ".html.j2")
"""in these, text is escaped; all others are plain text"""
_CHECKOUT = Path(__file__).parents[2] / "templates"


def rendered(template: str, variables: Mapping[str, object], *, workspace: Path | None = None) -> str:
    """A template with its variables filled in. Raises `BadConfig` for an unknown variable or a syntax error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError

    folders = [
        folder for folder in (workspace / "templates" if workspace else None, _PACKAGE, _CHECKOUT) if folder
    ]
    environment = Environment(
        loader=FileSystemLoader(folders),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=template.endswith(_MARKUP),
    )
    try:
        return environment.get_template(template).render(**variables).lstrip("\n")
    except TemplateError as error:
        raise BadConfig(
            f"template {template!r}: {error.message}", hint="its head comment lists its variables"
        ) from error
