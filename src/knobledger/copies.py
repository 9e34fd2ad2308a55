"""Copies that are asked for by name: which of several is meant, and how a file differs from one that no undo leads to."""

from __future__ import annotations

from collections.abc import Mapping

from knobledger.drafting import Desk, masked_edits
from knobledger.errors import Refused
from knobledger.hosts.config import Target
from knobledger.hosts.host import Host
from knobledger.knobs import KnobEdit, changed_knobs
from knobledger.names import EventId, HostPath, TargetName, short
from knobledger.quoting import quote


def several(name: str, copies: Mapping[tuple[TargetName, HostPath], EventId]) -> Refused:
    """Nobody can tell which of them is meant: each is listed with the command that takes it."""
    paths = [path for _, path in copies]
    lines = [f"{path} of {target}, from before {short(id_)}" for (target, path), id_ in copies.items()]
    words = [
        f"`knob restore {quote(path) if paths.count(path) == 1 else short(id_)}`"
        for (_, path), id_ in copies.items()
    ]
    return Refused(
        f"{len(copies)} copies have the name {name!r}: {'; '.join(lines)}; nothing was planned",
        hint=f"name one: {' or '.join(dict.fromkeys(words))}",
    )


def differing(desk: Desk, target: Target, host: Host, by_hand: EventId, path: HostPath) -> Refused | None:
    """The edit that followed a copy is undone already: the knobs that differ from it all the same; None: none does.

    Raises as `Host.read` does.
    """
    live = desk.reading(host.read(target.path).content, target.dialect)
    copy = desk.reading(host.read(path).content, target.dialect)
    edits = changed_knobs(live, copy)
    if not edits:
        return None
    shown = masked_edits(desk.masker, edits)
    told = "; ".join(f"{one.name} is {_said(one.before)}, in the copy {_said(one.after)}" for one in shown)
    words = [
        _command(target.name, edit) for edit, one in zip(edits, shown, strict=True) if edit.after == one.after
    ]
    hint = "; ".join(f"`{word}`" for word in words)
    secret = [one.name for edit, one in zip(edits, shown, strict=True) if edit.after != one.after]
    if secret:
        hint = "; ".join(
            [*([hint] if hint else []), f"{', '.join(secret)}: the value is a secret, see {path}"]
        )
    return Refused(
        f"what was changed by hand after {path} ({short(by_hand)}) is undone already; the file differs from the copy "
        f"by other edits: {told}; nothing was planned",
        hint=f"to give each the copy's value: {hint}",
    )


def _said(value: str | None) -> str:
    return "absent" if value is None else repr(value)


def _command(target: TargetName, edit: KnobEdit) -> str:
    """What gives a knob the copy's value; a flag's name could be taken for an option, so it stands behind a `=`."""
    if edit.after is None:
        word = f"--unset={edit.name}" if edit.kind == "flag" else edit.name
        return f"knob unset {target} {quote(word)}"
    word = quote(f"{edit.name}={edit.after}")
    add = " --add" if edit.before is None else ""
    return f"knob set {target} {'--set=' if edit.kind == 'flag' else ''}{word}{add}"
