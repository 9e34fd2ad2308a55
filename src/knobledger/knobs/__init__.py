"""Pure: bytes to occurrences, edits to bytes, secrets.

Names are loaded when they are first used, so that a command that only looks at the ledger does not pay for a parser.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from knobledger.knobs.changed import changed_knobs
    from knobledger.knobs.editing import SyntaxCheck, edit
    from knobledger.knobs.occurrence import (
        Dialect,
        Edited,
        KnobEdit,
        Launch,
        Note,
        Occurrence,
        Request,
        Scope,
    )
    from knobledger.knobs.reading import Reading, dialect_of
    from knobledger.knobs.secrets import Masker

__all__ = [
    "Dialect",
    "Edited",
    "KnobEdit",
    "Launch",
    "Masker",
    "Note",
    "Occurrence",
    "Reading",
    "Request",
    "Scope",
    "SyntaxCheck",
    "changed_knobs",
    "dialect_of",
    "edit",
]

_HOMES = {
    "Dialect": "occurrence",
    "Edited": "occurrence",
    "KnobEdit": "occurrence",
    "Launch": "occurrence",
    "Masker": "secrets",
    "Note": "occurrence",
    "Occurrence": "occurrence",
    "Reading": "reading",
    "Request": "occurrence",
    "Scope": "occurrence",
    "SyntaxCheck": "editing",
    "changed_knobs": "changed",
    "dialect_of": "reading",
    "edit": "editing",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
