"""What a host proved: the attributes of a file, and the receipt of one transaction.

These are stored in events, so their fields only ever grow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self, dataclass_transform

import msgspec

from knobledger.names import Digest, HostPath


class _Stored(msgspec.StructMeta):
    """Makes `kw_only` hold for subclasses too, whose new fields may then stand anywhere."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> Any:
        return super().__new__(mcls, name, bases, namespace, **options, kw_only=True)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
class Frozen(msgspec.Struct, metaclass=_Stored, frozen=True):
    """A stored value, its fields given by name. Unknown fields of a newer version are ignored, never an error."""

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Self:
        """The value of these plain fields, checked. Raises `ValueError`, naming the field."""
        return msgspec.convert(plain, cls)

    def plain(self, *names: str) -> dict[str, Any]:
        """Its fields, or those named, in their order, down to what JSON knows."""
        fields = self.__struct_fields__
        return {name: plainly(getattr(self, name)) for name in fields if not names or name in names}

    def but(self, **fields: Any) -> Self:
        """The same with other values of these fields, not checked."""
        return msgspec.structs.replace(self, **fields)


def plainly(value: Any, text: Callable[[str], str] = str) -> Any:
    """A stored value, or a part of one, down to what JSON knows; each text as `text` gives it back."""
    match value:
        case str():
            return text(value)
        case Frozen():
            return {name: plainly(getattr(value, name), text) for name in value.__struct_fields__}
        case dict():
            return {key: plainly(item, text) for key, item in value.items()}
        case list() | tuple():
            return [plainly(item, text) for item in value]
        case _:
            return value


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
    """process ids of interpreters that have the file open, as far as readable; none if a read did not look"""


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
