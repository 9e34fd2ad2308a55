"""Git's trees and loose objects, as far as a commit that only adds files needs them.

Written here because six trees, a blob and a commit through git's own commands cost four times a
`git commit`. The format is that of gitformat-index(5)'s sibling pages "Git Internals - Git Objects"
and git's `object-file.c`; git itself reads the old trees (loose, packed, borrowed or fetched).
"""

from __future__ import annotations

import hashlib
import os
import secrets
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

TREE_MODE = b"40000"
FILE_MODE = b"100644"

Tree = dict[bytes, tuple[bytes, bytes]]
"""A folder: name to (mode in octal, object id as raw bytes)."""


class Objects(Struct, frozen=True):
    """Where a repository keeps its loose objects, and how it names them."""

    folder: Path
    """`.git/objects`"""
    hash_name: str
    """`sha1` or `sha256`"""

    def id_of(self, kind: str, body: bytes) -> bytes:
        """The raw id of an object."""
        return hashlib.new(self.hash_name, b"%s %d\0" % (kind.encode(), len(body)) + body).digest()

    def store(self, kind: str, body: bytes) -> bytes:
        """Write an object unless its file is there; returns the raw id. As durable as git's own.

        Raises `OSError`.
        """
        raw = self.id_of(kind, body)
        folder = self.folder / raw.hex()[:2]
        path = folder / raw.hex()[2:]
        if path.exists():
            return raw
        with suppress(FileExistsError):
            folder.mkdir()
            # a repository shared by a group keeps its bits there (core.sharedRepository)
            folder.chmod(self.folder.stat().st_mode & 0o7777)
        # git's own name for such a file, so that `git gc` clears away what a crash leaves
        temporary = folder / f"tmp_obj_{secrets.token_hex(8)}"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
        try:
            with os.fdopen(fd, "wb") as out:
                out.write(zlib.compress(b"%s %d\0" % (kind.encode(), len(body)) + body, 1))
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        return raw

    def graft(self, trees: Mapping[str, Tree], files: Mapping[str, bytes]) -> bytes:
        """The raw id of the top tree with these files added, everything new written.

        `trees` holds each existing folder on the way to a file by its path ("" is the top; what is
        not in it is new); `files` are blobs' raw ids by path. Raises `OSError`.
        """
        changed: dict[str, Tree] = {"": dict(trees.get("", {}))}
        for path, blob in files.items():
            folder, _, name = path.rpartition("/")
            for place in _upwards(folder):
                if place not in changed:
                    changed[place] = dict(trees.get(place, {}))
            changed[folder][os.fsencode(name)] = (FILE_MODE, blob)
        # deepest first, so that a folder's id is known when its parent is written
        for place in sorted((place for place in changed if place), key=lambda place: -place.count("/")):
            parent, _, name = place.rpartition("/")
            changed[parent][os.fsencode(name)] = (TREE_MODE, self.store("tree", body_of(changed[place])))
        return self.store("tree", body_of(changed[""]))

    def tree(self, body: bytes) -> Tree:
        """The entries in a tree's body."""
        size = hashlib.new(self.hash_name).digest_size
        found: Tree = {}
        at = 0
        while at < len(body):
            end = body.index(b"\0", at)
            mode, name = body[at:end].split(b" ", 1)
            found[name] = (mode, body[end + 1 : end + 1 + size])
            at = end + 1 + size
        return found


def body_of(tree: Tree) -> bytes:
    """A tree's body. Git sorts a folder's name as if it ended in a slash."""
    ordered = sorted(tree.items(), key=lambda entry: entry[0] + (b"/" if entry[1][0] == TREE_MODE else b""))
    return b"".join(b"%s %s\0%s" % (mode, name, raw) for name, (mode, raw) in ordered)


def _upwards(folder: str) -> list[str]:
    parts = folder.split("/") if folder else []
    return ["/".join(parts[:n]) for n in range(len(parts) + 1)]
