"""Who may sign approvals, as it was recorded."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from knobledger.events.approving import SignersTrusted
from knobledger.names import Digest


class SignersReport(Struct, frozen=True):
    """The recorded file."""

    digest: Digest
    at: str
    by: str
    """the actor, and the principal who signed"""
    lines: tuple[str, ...]
    """of the file, without comments"""
    first: bool = False
    """it was believed, since nothing was recorded before"""
    problem: str = ""
    """why it does not count now"""

    @property
    def exit_code(self) -> int:
        """1 while no approval counts."""
        return 1 if self.problem else 0

    def to_json(self) -> dict[str, Any]:
        """The JSON of `signers`."""
        return {
            "digest": self.digest,
            "at": self.at,
            "by": self.by,
            "signers": list(self.lines),
            "first": self.first,
            "problem": self.problem,
        }


def signers_report(event: SignersTrusted, *, first: bool = False, problem: str = "") -> SignersReport:
    """The report of one link of the chain."""
    by = f"{event.actor}, signed by {event.principal}" if event.principal else event.actor
    lines = tuple(line for line in event.content.splitlines() if line.strip() and not line.startswith("#"))
    return SignersReport(event.digest, event.at, by, lines, first, problem)
