"""The distinct types of ids, digests and places, and the two ways to make a digest."""

from __future__ import annotations

import hashlib
import re
from typing import NewType

Digest = NewType("Digest", str)
"""SHA-256 of a file's bytes, 64 lower-case hex digits."""

EventId = NewType("EventId", str)
"""SHA-256 of an event's canonical bytes, 64 lower-case hex digits. A change's id is its plan event's."""

HostPath = NewType("HostPath", str)
"""A path on a host. Bytes that are not UTF-8 are carried as surrogate escapes (PEP 383)."""

TargetName = NewType("TargetName", str)
"""`HOST/SERVICE` (the service's script) or `HOST/SERVICE:NAME` (another file of it)."""


def digest_of(content: bytes) -> Digest:
    """The digest of a file's content."""
    return Digest(hashlib.sha256(content).hexdigest())


def short(id_: str) -> str:
    """The eight hex digits that people are shown."""
    return id_[:8]


def steps_back(text: str) -> int | None:
    """How many changes before the newest `@`, `@-1` or `@-` (the same), `@-2` or `@--` are; None: it is none of these."""
    numbered = re.fullmatch(r"@-([0-9]{1,9})", text)
    if numbered:
        return int(numbered[1])
    return len(text) - 1 if re.fullmatch(r"@-*", text) else None
