"""Documents against the record, and the addendum of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct

from knobledger.events.asking import StaleLine


class Stale(Struct, frozen=True):
    """The documents that were looked at, with the lines that contradict the record."""

    documents: tuple[tuple[str, tuple[StaleLine, ...]], ...]
    differs_code: int = 0
    """the exit code where something contradicts: 0, or 10 with `--exit-code`"""

    @property
    def exit_code(self) -> int:
        """0 where all agree."""
        return self.differs_code if any(lines for _, lines in self.documents) else 0

    def to_json(self) -> dict[str, Any]:
        """The JSON of `docs stale`."""
        return {
            "documents": [
                {"document": name, "stale": [line.plain() for line in lines]}
                for name, lines in self.documents
            ]
        }


class Correction(Struct, frozen=True):
    """An addendum to a document; not written before somebody gives the go-ahead."""

    document: str
    path: Path
    slug: str
    verdict: str
    before: bytes
    addendum: str
    """with its marks; empty where the document has it already"""
    in_git: bool
    written: bool = False
    commit: str = ""

    def to_json(self) -> dict[str, Any]:
        """The JSON of `docs correct`."""
        return {
            "document": self.document,
            "hypothesis": self.slug,
            "verdict": self.verdict,
            "addendum": self.addendum,
            "changed": self.written,
            "commit": self.commit or None,
        }
