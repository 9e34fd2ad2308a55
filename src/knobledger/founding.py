"""`knob init`: makes a folder a workspace, adding only what is missing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from knobledger.errors import Refused
from knobledger.report.upkeep import Founded
from knobledger.templates import rendered

_FILES = {
    "hosts.toml": "hosts.toml.j2",
    "ledger/README.md": "ledger-readme.md.j2",
    "templates/README.md": "templates-readme.md.j2",
}
_RULES = {".gitignore": "/.knobledger/", ".gitattributes": "/ledger/events/** -text -filter -ident"}
"""the workspace's private files never enter git; git must never change a byte of an event"""


def found(directory: Path) -> Founded:
    """Makes `hosts.toml`, `ledger/`, `templates/` and the ignore rule; a second run changes nothing.

    Raises `Refused` if the folder can't be written.
    """
    root = directory.resolve()
    made: list[str] = []
    try:
        root.mkdir(parents=True, exist_ok=True)
        for name, template in _FILES.items():
            if not (root / name).exists():
                (root / name).parent.mkdir(exist_ok=True)
                (root / name).write_text(rendered(template, {"name": root.name}), encoding="utf-8")
                made.append(name)
        for name, rule in _RULES.items():
            if _ruled(root / name, rule):
                made.append(name)
    except OSError as error:
        raise Refused(
            f"{os.fspath(root)!r} can't be made a workspace: {error.strerror}", hint="name another folder"
        ) from error
    return Founded(os.fspath(root), tuple(made), _git(root))


def _ruled(path: Path, rule: str) -> bool:
    """Whether the rule had to be added."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    if rule in lines:
        return False
    path.write_text("\n".join([*lines, rule]) + "\n", encoding="utf-8")
    return True


def _git(root: Path) -> str:
    if shutil.which("git") is None:
        return "git is not installed: the ledger works without it, but has no history of its own"
    from git import InvalidGitRepositoryError, Repo

    try:
        found = Repo(root, search_parent_directories=True)
    except InvalidGitRepositoryError:
        Repo.init(root, initial_branch="main").close()
        return "made a git repository; the ledger commits its own files to it, one commit per command"
    with found:
        return f"the ledger commits its own files to the git repository {found.working_dir}"
