"""Texts inside a script that other programs read."""

from __future__ import annotations

from knobledger.knobs.envfile import read_docker
from knobledger.knobs.site import Site
from knobledger.knobs.unit import read_unit


def foreign_sites(content: bytes, file: str | None, *, unit: bool = False) -> list[Site]:
    """The sites of a docker environment file, or of a unit."""
    text = content.decode("latin-1")
    return read_unit(text, {}, file).sites if unit else list(read_docker(text, file).sites)
