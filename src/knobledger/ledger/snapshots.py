"""Snapshots: the bytes of targets, kept by the workspace under their digest and never in git.

They may hold secrets, so the folder is 0700 and each file 0600. A snapshot that is gone can be
fetched again from the host's backup of the same digest.
"""

from __future__ import annotations

import re
from pathlib import Path

from knobledger.ledger.reading import content_of
from knobledger.ledger.writing import private_folder, write_once, write_over
from knobledger.names import Digest, digest_of

_DIGEST = re.compile(r"[0-9a-f]{64}")


class Snapshots:
    """The snapshots of one workspace."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / ".knobledger" / "snapshots"
        self._prefix = str(self.folder)

    def put(self, content: bytes) -> Digest:
        """Keep these bytes; durable when this returns. Twice is once, and mends a damaged file.

        Raises `LedgerUnwritable`.
        """
        digest = digest_of(content)
        if self.get(digest) is None:
            private_folder(self.root)
            if not write_once(self._path(digest), content, mode=0o600, folder_mode=0o700):
                write_over(self._path(digest), content)
        return digest

    def get(self, digest: Digest) -> bytes | None:
        """The bytes with this digest, hashed again now; None if they are missing or damaged."""
        try:
            content = content_of(f"{self._prefix}/{digest[:2]}/{digest}")
        except OSError:
            return None
        return content if digest_of(content) == digest else None

    def damaged(self) -> tuple[Digest, ...]:
        """The snapshots whose bytes are not those of their name, sorted. Reads all of them."""
        return tuple(
            sorted(
                Digest(path.name)
                for path in self.folder.glob("*/*")
                if _DIGEST.fullmatch(path.name) and self.get(Digest(path.name)) is None
            )
        )

    def _path(self, digest: Digest) -> Path:
        return self.folder / digest[:2] / digest
