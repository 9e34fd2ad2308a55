"""The undoing of a change: a three-way merge of lines that is checked knob by knob. Pure.

`base` is the file as the change left it, `theirs` as it was before the change, `ours` as it is
now. What is the same in `base` and `theirs` stays as `ours` has it, so later edits survive. If a
later edit touched the same existing line or the same knob, there is no honest answer: a `Clash`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal

from merge3 import Merge3
from msgspec import Struct

from knobledger.knobs import Dialect, KnobEdit, Reading, changed_knobs


class LineChange(Struct, frozen=True):
    """A line that `ours` has and `base` has not (`+`), or the reverse (`-`)."""

    sign: Literal["+", "-"]
    line: int
    """in `ours` for `+`, in `base` for `-`; from 1"""
    text: bytes
    """without its line ending"""


class Undone(Struct, frozen=True):
    """A merge that worked."""

    content: bytes
    clean: bool
    """`content` is byte for byte `theirs`"""
    edits: tuple[KnobEdit, ...]
    """what it does to the knobs, seen from `ours`"""
    later: tuple[LineChange, ...]
    """what changed since, from `base` to `ours`"""


class Side(Struct, frozen=True):
    """The lines of one disputed place."""

    line: int
    """in `ours`, from 1"""
    base: bytes
    ours: bytes
    theirs: bytes


class Clash(Struct, frozen=True):
    """A merge that would have to guess; nothing may be written."""

    reason: str
    knobs: tuple[str, ...]
    """knobs that both the undoing and a later edit want to change"""
    sides: tuple[Side, ...]
    later: tuple[LineChange, ...]


def undo(*, ours: bytes, base: bytes, theirs: bytes, dialect: Dialect) -> Undone | Clash:
    """Takes back what led from `theirs` to `base`, keeping what led from `base` to `ours`."""
    later = line_changes(base, ours)
    readings = {
        name: Reading.of(text, dialect) for name, text in (("ours", ours), ("base", base), ("theirs", theirs))
    }
    wanted = changed_knobs(readings["base"], readings["theirs"])
    since = changed_knobs(readings["base"], readings["ours"])
    both = sorted({edit.name for edit in wanted} & {edit.name for edit in since})
    content, sides = _merge(_lines(base), _lines(ours), _lines(theirs))
    if sides:
        return Clash("a later edit touched the same lines", tuple(both), tuple(sides), later)
    if both and ours != theirs:
        return Clash("a later edit changed the same knob", tuple(both), (), later)
    merged = Reading.of(content, dialect)
    edits = changed_knobs(readings["ours"], merged)
    if {_target(edit) for edit in edits} != {_target(edit) for edit in wanted} and not both:
        names = tuple(sorted({edit.name for edit in edits} ^ {edit.name for edit in wanted}))
        return Clash("together with the later edits, the lines would mean something else", names, (), later)
    return Undone(content, content == theirs, edits, later)


def taken_away(*, base: bytes, theirs: bytes, dialect: Dialect, names: Iterable[str]) -> bytes | None:
    """`base` with what it lacks of `theirs`: the lines of the named knobs, and lines without any knob.

    Of two states between which several hands may have been at work, this brings back what was taken out and keeps what
    was put in. None: the lines of these knobs can't be told apart from others'.
    """
    wanted = set(names)
    readings = Reading.of(base, dialect), Reading.of(theirs, dialect)
    own = [_knobs_by_line(reading) for reading in readings]
    old, new = _lines(base), _lines(theirs)
    out: list[bytes] = []
    at = 0
    for i1, i2, j1, j2 in _ops(old, new):
        out += old[at:i1]
        # What comes back stands first, as with all undoing; of what was put in, only the named knobs' lines give way.
        out += [new[j] for j in range(j1, j2) if own[1].get(j + 1, set()) <= wanted]
        out += [old[i] for i in range(i1, i2) if not own[0].get(i + 1, set()) & wanted]
        at = i2
    content = b"".join(out + old[at:])
    edits = changed_knobs(readings[0], Reading.of(content, dialect))
    asked = {(edit.name, edit.after) for edit in changed_knobs(*readings) if edit.name in wanted}
    return content if {(edit.name, edit.after) for edit in edits} == asked else None


def _knobs_by_line(reading: Reading) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for item in reading.occurrences:
        if item.file is None and item.active:
            found.setdefault(item.line, set()).add(item.name)
    return found


def line_changes(before: bytes, after: bytes) -> tuple[LineChange, ...]:
    """The lines that differ between two files, in the order of the text."""
    found: list[LineChange] = []
    old, new = _lines(before), _lines(after)
    for i1, i2, j1, j2 in _ops(old, new):
        found += [LineChange("-", i + 1, _text(old[i])) for i in range(i1, i2)]
        found += [LineChange("+", j + 1, _text(new[j])) for j in range(j1, j2)]
    return tuple(found)


def _target(edit: KnobEdit) -> tuple[str, str | None]:
    return edit.name, edit.after


def _lines(content: bytes) -> list[bytes]:
    """Split after each LF only: CR and other separators are bytes of the line."""
    parts = content.split(b"\n")
    lines = [part + b"\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def _text(line: bytes) -> bytes:
    return line.removesuffix(b"\n").removesuffix(b"\r")


def _ops(old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[tuple[int, int, int, int]]:
    # What is the same at both ends is left out: many equal lines make the matcher's time grow with their square.
    head, tail = _same_ends(old, new)
    matcher = SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail], autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag != "equal":
            yield i1 + head, i2 + head, j1 + head, j2 + head


def _same_ends(old: Sequence[bytes], new: Sequence[bytes]) -> tuple[int, int]:
    """How many lines are the same at the beginning and, of the others, at the end."""
    most = min(len(old), len(new))
    head = next((n for n in range(most) if old[n] != new[n]), most)
    return head, next((n for n in range(most - head) if old[-1 - n] != new[-1 - n]), most - head)


def _singly(old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[tuple[int, int, int, int]]:
    """Line by line: so a line that somebody put in between two that change stays where it is.

    A line becomes the one that sets the same thing, where there is one, else the next.
    """
    for i1, i2, j1, j2 in _ops(old, new):
        before, after = [_subject(line) for line in old[i1:i2]], [_subject(line) for line in new[j1:j2]]
        for _, b1, b2, a1, a2 in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
            both = min(b2 - b1, a2 - a1)
            yield from ((i1 + b1 + k, i1 + b1 + k + 1, j1 + a1 + k, j1 + a1 + k + 1) for k in range(both))
            yield from ((i, i + 1, j1 + a2, j1 + a2) for i in range(i1 + b1 + both, i1 + b2))
            if a1 + both < a2:
                yield i1 + b1 + both, i1 + b1 + both, j1 + a1 + both, j1 + a2


def _subject(line: bytes) -> bytes:
    """What a line is about: all before its first `=`."""
    return line.partition(b"=")[0].strip()


def _merge(base: list[bytes], ours: list[bytes], theirs: list[bytes]) -> tuple[bytes, list[Side]]:
    if base == ours:
        return b"".join(theirs), []
    out: list[bytes] = []
    sides: list[Side] = []
    for region in Merge3(base, ours, theirs).merge_regions():
        match region:
            case ("unchanged", start, end):
                out += base[start:end]
            case ("same" | "a", start, end):
                out += ours[start:end]
            case ("b", start, end):
                out += theirs[start:end]
            case ("conflict", z1, z2, a1, a2, b1, b2):
                finer = _apart(base[z1:z2], ours[a1:a2], theirs[b1:b2])
                if finer is None:
                    sides.append(
                        Side(a1 + 1, b"".join(base[z1:z2]), b"".join(ours[a1:a2]), b"".join(theirs[b1:b2]))
                    )
                else:
                    out += finer
    return b"".join(_glued(out)), sides


def _apart(base: list[bytes], ours: list[bytes], theirs: list[bytes]) -> list[bytes] | None:
    """Merges a region that merge3 gave up on because the two sides' edits are neighbours.

    merge3 wants an untouched line between two edits. Here neighbours are no conflict: only one
    and the same existing line is. Lines put in at the same place both stay, those of the undoing
    first, since that is where they stood before. None: a real conflict.
    """
    mine, back = list(_singly(base, ours)), list(_singly(base, theirs))
    for i1, i2, *_ in mine:
        for k1, k2, *_ in back:
            if max(i1, k1) < min(i2, k2):
                return None
    out: list[bytes] = []
    at = 0
    steps = sorted(
        [(i1, i2, 1, ours[j1:j2]) for i1, i2, j1, j2 in mine]
        + [(k1, k2, 0, theirs[l1:l2]) for k1, k2, l1, l2 in back],
        key=lambda step: (step[0], step[1], step[2]),
    )
    for start, end, _, lines in steps:
        out += base[at:start] + lines
        at = end
    return out + base[at:]


def _glued(lines: list[bytes]) -> Iterator[bytes]:
    """A line that was the last of its file, without a newline, gets one if others follow it now."""
    for i, line in enumerate(lines):
        last = i == len(lines) - 1
        yield line if last or line.endswith(b"\n") else line + b"\n"
