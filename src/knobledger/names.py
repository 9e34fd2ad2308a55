"""The distinct types of ids, digests and places, and the two ways to make a digest."""

from __future__ import annotations

import hashlib
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
