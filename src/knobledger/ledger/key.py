"""The workspace's key, which makes the fingerprints of secrets: a change shows, the value doesn't.

32 random bytes in `.knobledger/key`, as hex, 0600, made once. Never in git and never in an event;
clones share it by their own secret channel.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from knobledger.errors import BadConfig
from knobledger.ledger.writing import private_folder, write_once

SIZE = 32
"""bytes"""


def key(root: Path) -> bytes:
    """The key of the workspace, made on first use; two first users get the same one.

    Raises `BadConfig` if the file is not a key, `LedgerUnwritable` if it can't be made.
    """
    path = root / ".knobledger" / "key"
    if not path.exists():
        private_folder(root)
        write_once(path, secrets.token_hex(SIZE).encode() + b"\n", mode=0o600)
    try:
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
        made = bytes.fromhex(path.read_text("ascii"))
    except (OSError, ValueError) as e:
        raise BadConfig(
            f"the key {str(path)!r} can't be read: {e}", hint="`knob key import` brings it back"
        ) from e
    if len(made) != SIZE:
        raise BadConfig(
            f"the key {str(path)!r} has {len(made)} bytes, not {SIZE}",
            hint="`knob key import` brings it back",
        )
    return made
