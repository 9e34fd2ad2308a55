"""Blame: which entry brought each line, and every edit of each knob."""

from __future__ import annotations

from collections.abc import Sequence

from knobledger.drafting import Desk
from knobledger.errors import KnobError, Unknown
from knobledger.hosts.config import Target
from knobledger.hosts.host import Host
from knobledger.knobs import Reading
from knobledger.names import EventId, short
from knobledger.report.blame import Blame, KnobHistory, blame_lines, knob_history


def blame(desk: Desk, target: Target, host: Host, names: Sequence[str] = ()) -> Blame:
    """The live lines, each with the entry that brought it; without the host, the last recorded lines.

    With `names`, only the lines of these knobs, and every recorded edit of them. Raises `Unknown` for a knob that
    neither the file nor the ledger has.
    """
    remarks = []
    known = desk.state.files.get(target.name)
    versions: list[tuple[EventId | None, bytes]] = []
    for event, digest in known.history if known else ():
        content = desk.snapshots.get(digest)
        if content is None:
            remarks.append(
                f"the bytes of {short(event)} are not among the snapshots: its lines count as the next entry's"
            )
        else:
            versions.append((event, content))
    try:
        live = host.read(target.path)
        if known is None or live.digest != known.digest:
            versions.append((None, live.content))
            doubts = desk.state.doubts_on(target.name)
            remarks.append(
                f"lines marked `not recorded` may be the work of {short(doubts[0].started.plan)}, whose attempt has no "
                "outcome: `knob recover` finds it out"
                if doubts
                else "lines marked `not recorded` were changed by hand since the last entry"
            )
    except KnobError as error:
        if not versions:
            raise
        remarks.append(f"these are the last recorded lines, the live ones could not be read: {error.message}")
    reading = Reading.of(versions[-1][1], target.dialect)
    shown = [
        line.removesuffix("\r")
        for line in desk.masker.content(reading).decode("utf-8", "surrogateescape").split("\n")
    ]
    if shown and not shown[-1]:
        shown.pop()
    knobs: dict[int, list[str]] = {}
    for item in reading.occurrences:
        if item.file is None:
            knobs.setdefault(item.line, []).append(item.name)
    lines = blame_lines(desk.state, versions, shown, knobs)
    wanted = names or list(dict.fromkeys(item.name for item in reading.occurrences if item.active))
    histories = tuple(_history(desk, target, reading, name) for name in wanted)
    if names:
        lines = tuple(line for line in lines if set(line.knobs) & set(names))
    return Blame(target.name, lines, histories, tuple(remarks), by_knob=bool(names))


def _history(desk: Desk, target: Target, reading: Reading, name: str) -> KnobHistory:
    found = next((item for item in reading.occurrences if item.name == name and item.wins), None)
    edits = desk.state.edits.get((target.name, name), [])
    if found is None and not edits and all(item.name != name for item in reading.occurrences):
        raise Unknown(
            f"no knob {name!r} in {target.name}, now or in the ledger",
            hint=f"`knob status {target.name}` lists them",
        )
    value = None
    if found is not None:
        raw = found.raw if found.value is None else found.value
        value = "" if found.bare else desk.masker.value(name, raw)
    return knob_history(desk.state, name, value, found.line if found else None, edits)
