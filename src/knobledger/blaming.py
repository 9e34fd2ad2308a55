"""Blame: which entry brought each line, and every edit of each knob."""

from __future__ import annotations

from collections.abc import Sequence

from knobledger.drafting import Desk
from knobledger.errors import KnobError, Unknown
from knobledger.folds.edits import File
from knobledger.hosts.config import Target
from knobledger.hosts.host import Host
from knobledger.knobs import Reading
from knobledger.names import EventId, digest_of, short
from knobledger.report.blame import Blame, KnobHistory, blame_lines, knob_history


def blame(desk: Desk, target: Target, host: Host, names: Sequence[str] = ()) -> Blame:
    """The live lines, each with the entry that brought it; without the host, the last recorded lines.

    With `names`, only the lines of these knobs, and every recorded edit of them. Raises `Unknown` for a knob that
    neither the file nor the ledger has.
    """
    remarks, missing = [], []
    looked = True
    known = desk.state.files.get(target.name)
    versions: list[tuple[EventId | None, bytes]] = []
    for event, digest in known.history if known else ():
        content = desk.snapshots.get(digest)
        if content is None:
            missing.append(event)
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
        elif not versions or digest_of(versions[-1][1]) != live.digest:
            versions.append((known.event, live.content))  # another clone recorded it and kept the bytes
    except KnobError as error:
        if not versions:
            raise
        looked = False
        remarks.append(f"{_how_old(known, versions[-1])}; the live ones could not be read: {error.message}")
    remarks += [
        f"the bytes of {short(event)} are not among the snapshots: its lines count as the next entry's"
        for event in missing
        if event != versions[-1][0]
    ]
    behind = not looked and known is not None and digest_of(versions[-1][1]) != known.digest
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
    histories = tuple(_history(desk, target, reading, name, looked=looked, behind=behind) for name in wanted)
    if names:
        # Of a state that others followed, a line may hold a value that is long gone: what is recorded is in the history.
        lines = tuple(line for line in lines if set(line.knobs) & set(names) and not behind)
    return Blame(target.name, lines, histories, tuple(remarks), by_knob=bool(names))


def _how_old(known: File | None, shown: tuple[EventId | None, bytes]) -> str:
    """Which recorded state the shown lines are of."""
    entry, content = shown
    if known is None or entry is None or digest_of(content) == known.digest:
        return "these are the last recorded lines"
    return (
        f"these are the lines as of {short(entry)}, not the last recorded ones: the bytes of {short(known.event)} are "
        "not in this clone, only what its entry tells of the knobs"
    )


def _history(
    desk: Desk, target: Target, reading: Reading, name: str, *, looked: bool, behind: bool
) -> KnobHistory:
    """What is recorded of a knob with its value in the reading; `behind`: with that of its newest entry, if it has one."""
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
    line = found.line if found else None
    if behind:
        value, line = edits[-1].edit.after if edits else value, None
    return knob_history(desk.state, name, value, line, edits, live=looked)
