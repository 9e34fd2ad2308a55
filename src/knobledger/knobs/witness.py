"""A second opinion on an edit of a shell file: tree-sitter's grammar of bash, which shares no code with our reader.

It errs in known ways (docs/shapes.md), so it is not asked what a file means. It must see an assignment where our
reader does, and an edit must bring it no new error.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

from knobledger.knobs.site import Site

LIMIT = 200_000
"""Longer files are not shown to it, in bytes: some inputs take it quadratic time."""
_ASSIGNED = frozenset(["export", "declare", "typeset", "readonly", "local", "assignment", "prefix", "append"])


@lru_cache(maxsize=2)
def _root(content: bytes) -> Any:
    # Kept for the next request: what one edit has left is what the next one begins with.
    return parser().parse(content).root_node


@cache
def parser() -> Any:
    """Tree-sitter's, for bash."""
    # Imported here: only an edit of a shell file needs it.
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def objection(before: bytes, after: bytes, site: Site | None) -> str:
    """What the second reader holds against the step from `before` to `after`, made at `site`; "" if nothing."""
    if max(len(before), len(after)) > LIMIT:
        return ""
    old = _root(before)
    if not old.has_error:
        if site is not None and not _sees(old, before, site):
            return f"a second parser finds no assignment to {site.name!r} there"
        if _root(after).has_error:
            return "a second parser finds an error that was not there before"
    return ""


def _sees(root: Any, content: bytes, site: Site) -> bool:
    name = site.name.encode("utf-8", "surrogateescape")
    start = site.whole[0]
    if site.form not in _ASSIGNED or site.slot.outer or not content.startswith(name, start):
        # Words in quotes and in other programs' arguments are no assignments to it.
        return True
    node = root.descendant_for_byte_range(start, start + len(name))
    while node is not None and node.end_byte <= site.whole[1]:
        if node.type == "variable_assignment":
            return True
        node = node.parent
    return node is not None and node.type in ("heredoc_body", "comment", "variable_assignment")
