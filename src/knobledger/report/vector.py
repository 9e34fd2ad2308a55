"""What all plots share: numbers and text fit for SVG, drawing by a template, and PNG of the same drawing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import wrap

from knobledger.errors import Refused
from knobledger.templates import rendered


def wrapped(text: str, width: int, most: int = 3) -> tuple[str, ...]:
    """Text in at most `most` lines of about `width` characters; what does not fit ends in an ellipsis."""
    return tuple(wrap(plain(text), width, max_lines=most, placeholder=" …"))


def shortened(text: str, width: int) -> str:
    """Text of at most `width` characters, with an ellipsis where it is cut."""
    text = plain(text)
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"


def plain(text: str) -> str:
    """Text without what XML forbids; control characters and broken bytes are shown as a replacement."""
    return "".join(one if one.isprintable() else " " if one.isspace() else "\ufffd" for one in text)


def number(value: float) -> str:
    """A length to a tenth of a pixel, always the same text for the same number."""
    return f"{value:.1f}".removesuffix(".0")


def drawn(template: str, variables: Mapping[str, object], workspace: Path | None) -> str:
    """The SVG of a template; the workspace's own template goes before ours."""
    return rendered(template, variables, workspace=workspace)


def png_of(svg: str, *, zoom: float = 2.0) -> bytes:
    """A drawing as PNG, in its light colours, `zoom` pixels per pixel of the SVG.

    Raises `Refused` where the optional package is not installed.
    """
    try:
        import resvg_py
    except ImportError as error:
        raise Refused(
            "PNG needs the package resvg-py, which is not installed",
            hint="pip install 'knobledger[png]', or write an .svg",
        ) from error
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=zoom, background="#ffffff"))
