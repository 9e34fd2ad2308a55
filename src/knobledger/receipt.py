"""What a host proved: the attributes of a file, and the receipt of one transaction.

These are stored in events, so their fields only ever grow.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from knobledger.names import Digest, HostPath


class Frozen(BaseModel):
    """A stored value. Unknown fields of a newer version are ignored, never an error."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class Manifest(Frozen):
    """A file on a host, as one fresh look found it."""

    path: HostPath
    """as asked for"""
    resolved: HostPath
    """the regular file that the path leads to, symbolic links followed"""
    uid: int
    gid: int
    owner: str = ""
    group: str = ""
    mode: str
    """four or more octal digits, such as `0755`"""
    size: int
    """bytes"""
    mtime: int
    """seconds since 1970 by the host's clock"""
    links: int = 1
    """hard links to the file"""
    mount: bool = False
    """the file itself is a mount point (bind mount): it can't be renamed over"""
    acl: str = ""
    """`getfacl -cE` text where the host has it and the file has more than its mode says"""
    xattrs: str = ""
    """`getfattr -d -m -` text without the path line, where the host has it"""
    label: str = ""
    """SELinux label, empty where there is none"""
    running: tuple[int, ...] = ()
    """process ids of interpreters that have the file open, as far as readable"""


class Step(Frozen):
    """One step of the transaction, in the order in which it happened."""

    step: str
    """`probe resolve lock compare backup stage swap verify rollback`"""
    ok: bool
    detail: str = ""


class GrepLine(Frozen):
    """One line of `grep -n` on the host, read after the swap."""

    line: int
    """from 1"""
    text: str


class Receipt(Frozen):
    """The proof of one transaction, all of it read afresh from the host after the swap."""

    backup: HostPath
    """the backup's path on the host"""
    backup_digest: Digest
    digest: Digest
    """of the live file, after"""
    grep: tuple[GrepLine, ...] = ()
    matches: HostPath | None = None
    """the earlier backup that the live file was compared with by `diff -q`; None: no such comparison was asked for"""
    matches_backup: bool | None = None
    """what that comparison said"""
    steps: tuple[Step, ...] = ()
    clock_offset_s: float = 0.0
    """the host's clock minus this machine's, in seconds, no better than the round trip"""
    manifest: Manifest
    """after the swap"""
    digest_tool: str = ""
    """the command that computed the digests on the host, such as `sha256sum`"""
