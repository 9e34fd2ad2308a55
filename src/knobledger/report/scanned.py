"""What `scan` says of files on this machine. The JSON is fixed by docs/cli.md."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from knobledger.knobs import Dialect
from knobledger.plan import Edit


class ScannedFile(Struct, frozen=True):
    """One file's knobs and what a reader should know about it."""

    file: str
    dialect: Dialect
    knobs: tuple[dict[str, Any], ...]
    warnings: tuple[tuple[int, str], ...]

    def to_json(self) -> dict[str, Any]:
        """One entry of `files`."""
        return {
            "file": self.file,
            "dialect": self.dialect.value,
            "knobs": list(self.knobs),
            "warnings": [{"line": line, "message": message} for line, message in self.warnings],
        }


class Scan(Struct, frozen=True):
    """The knobs of some files."""

    files: tuple[ScannedFile, ...]

    def to_json(self) -> dict[str, Any]:
        """The JSON of `scan`."""
        return {"files": [file.to_json() for file in self.files]}


class ScannedEdit(Struct, frozen=True):
    """What an edit of a file would make of it."""

    file: str
    edits: tuple[Edit, ...]
    diff: str
    """secrets masked; empty if the bytes would not change"""
    warnings: tuple[str, ...]
    written: str
    """where the edited copy was written; empty: nowhere"""

    def to_json(self) -> dict[str, Any]:
        """The JSON of `scan --set`."""
        return {
            "file": self.file,
            "edits": [item.plain() for item in self.edits],
            "diff": self.diff,
            "warnings": list(self.warnings),
            "written": self.written,
        }
