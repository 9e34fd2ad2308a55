"""Plans: edits bound to exact bytes. Pure; what is stored of a plan lives in its event.

The undoing of a change is in `undo.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from knobledger.names import Digest, EventId, HostPath, TargetName
from knobledger.receipt import Frozen

Verb = Literal["set", "unset", "edit", "revert", "restore", "restart"]
Purpose = Literal["perf", "fix", "mitigation", "other"]
Policy = Literal["confirm", "signed", "two-person"]
Finding = Literal["wrongful suspect", "justified", "under test", "unproven", "unexplained"]
"""what the verdicts mean for a change"""
RestartScope = Literal["none", "service", "dependents", "group"]

_POLICIES: tuple[Policy, ...] = ("confirm", "signed", "two-person")
"""from the weakest to the strictest"""


def strictest(policies: Iterable[Policy]) -> Policy:
    """The one that asks for most."""
    return max(policies, key=_POLICIES.index)


class Edit(Frozen):
    """One knob's value before and after, secrets already masked."""

    name: str
    kind: Literal["env", "flag"]
    before: str | None
    """None means absent; an empty string is a bare flag or an empty value"""
    after: str | None


class LaterEdit(Frozen):
    """A line that somebody changed after the change that is being undone."""

    sign: Literal["+", "-"]
    line: int
    """in the live file for `+`, in the file as the undone change left it for `-`; from 1"""
    text: str
    """secrets masked"""
    change: EventId | None = None
    """the change or observation that brought it; None: unknown, somebody by hand"""
    actor: str = ""
    kept: bool = True
    """False where `--exact` drops it"""


class PlannedFile(Frozen):
    """What a plan does to one target."""

    target: TargetName
    path: HostPath
    resolved: HostPath | None = None
    """the regular file that the path led to, symbolic links followed; it must still do so"""
    dialect: str
    edits: tuple[Edit, ...]
    base: Digest
    """the digest that the live file must have"""
    result: Digest
    """the digest that it will have"""
    diff: str
    """unified, secrets masked, `\\ No newline at end of file` included"""
    lines: tuple[str, ...] = ()
    """fixed strings for `grep -n` afterwards"""
    clean: bool = False
    """an undo after which the file is byte for byte the backup"""
    backup: HostPath | None = None
    """the backup that the outcome is compared with by `diff -q` (an undo)"""
    backup_digest: Digest | None = None
    later_edits: tuple[LaterEdit, ...] = ()
    drifted_from: Digest | None = None
    """the digest last recorded, where the live file had another when the plan was made"""
    way: str = ""
    """how hosts.toml said that the host is reached, such as `fabric root@gpu1.example.org:22`; it must still say so"""


class PlannedService(Frozen):
    """A service that a plan would restart."""

    service: str
    """`HOST/SERVICE`"""
    digest: Digest
    """of its unit's file and drop-ins as they were, or of the commands that start, stop and find it"""


class Ask(Frozen):
    """The knob edits that were asked for, so that another clone can repeat them. Secret values are masks."""

    name: str
    value: str | None
    secret: bool = False
