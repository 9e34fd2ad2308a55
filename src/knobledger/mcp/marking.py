"""What an agent gets to read: text that others wrote is marked as data, long texts are cut, long lists come in pages.

Pure. Which text is marked goes by the key that it stands under, so that the form of a result does not depend on what
somebody wrote into a script.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from knobledger.errors import Usage

OWN = frozenset(
    (
        *("plan", "change", "id", "by", "event", "attempt", "undoes"),
        *("base", "result", "digest", "expected", "found"),
        *("at", "from", "until", "expires", "deadline", "ended_at", "zone"),
        *("verb", "kind", "purpose", "status", "outcome", "finding", "fate", "state", "policy", "restart"),
        *("dialect", "scope", "form", "sign", "target", "targets", "next_cursor"),
    )
)
"""keys whose values are words, ids, moments and names of knobledger's own; all other text is somebody's"""
_OWN_SHAPE = re.compile(r"[A-Za-z0-9_.:/+-]{0,80}( [A-Za-z]{1,8})?", re.ASCII)
"""no sentence has it, so that not even a forged event gets one through"""

LONGEST_TEXT = 16_000
"""characters of one text"""
LARGEST_PAGE = 60_000
"""characters of the JSON of the entries on one page"""
MOST_ENTRIES = 200


def marked(value: Any, key: str = "") -> Any:
    """The same value with each text of others as `{"untrusted_text": ...}`."""
    match value:
        case str():
            return value if key in OWN and _OWN_SHAPE.fullmatch(value) else quoted(value)
        case Mapping():
            return {str(name): marked(item, str(name)) for name, item in value.items()}
        case list() | tuple():
            return [marked(item, key) for item in value]
        case _:
            return value


def quoted(text: str) -> dict[str, Any]:
    """One text as data; `cut` and `characters` where it was too long."""
    clean = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if len(clean) <= LONGEST_TEXT:
        return {"untrusted_text": clean}
    return {"untrusted_text": clean[:LONGEST_TEXT], "cut": True, "characters": len(clean)}


def page(
    entries: Sequence[Any], cursor: str, limit: int, anchor: Callable[[Any], str] | None = None
) -> tuple[list[Any], str | None]:
    """The entries after a cursor, and the cursor of the next page; None after the last one.

    With an `anchor` (an entry's own name) a cursor stays true while entries are added at the front. Raises `Usage`.
    """
    start = _start(entries, cursor, anchor)
    found: list[Any] = []
    size = 0
    for entry in entries[start : start + max(1, min(limit, MOST_ENTRIES))]:
        size += len(json.dumps(marked(entry), default=str))
        if found and size > LARGEST_PAGE:
            break
        found.append(entry)
    end = start + len(found)
    if end >= len(entries):
        return found, None
    return found, anchor(found[-1]) if anchor else str(end)


def _start(entries: Sequence[Any], cursor: str, anchor: Callable[[Any], str] | None) -> int:
    if not cursor:
        return 0
    if anchor is not None:
        for index, entry in enumerate(entries):
            if anchor(entry) == cursor:
                return index + 1
    elif cursor.isascii() and cursor.isdigit() and len(cursor) < 10:
        return int(cursor)
    raise Usage(f"{cursor!r} is no cursor of this list", hint="call it without a cursor for the first page")
