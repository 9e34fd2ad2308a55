"""Who types: actor, principal and time zone, from the environment and git's config."""

from __future__ import annotations

import getpass
import os
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from knobledger.author import Author
from knobledger.moment import local_zone


def author(root: Path, env: Mapping[str, str], *, on_behalf_of: str = "", zone: str = "") -> Author:
    """`KNOBLEDGER_ACTOR`, else git's `user.email`, else `login@machine`; strings, fixed when written."""
    return Author(
        actor=env.get("KNOBLEDGER_ACTOR") or _git_email(root) or _login(),
        on_behalf_of=on_behalf_of or env.get("KNOBLEDGER_ON_BEHALF_OF", ""),
        zone=zone or local_zone(env),
    )


def signing_key(root: Path) -> str:
    """git's `user.signingkey`: a file, or a public key written out; empty without one."""
    return _git_config(root, "user.signingkey")


def _git_email(root: Path) -> str:
    return _git_config(root, "user.email")


def _git_config(root: Path, name: str) -> str:
    """One question to git, which knows about includes and work trees; importing GitPython costs 40 times that."""
    try:
        done = subprocess.run(
            ("git", "-C", os.fspath(root), "config", "--get", name),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def _login() -> str:
    try:
        login = getpass.getuser()
    except (OSError, KeyError):
        login = f"uid{os.getuid()}"
    return f"{login}@{socket.gethostname()}"
