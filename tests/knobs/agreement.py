"""Where a reading, or an edit, and the shell disagree; in words."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

from serve_scripts import Builder, Seen, run

from knobledger.errors import KnobRefused
from knobledger.knobs import Dialect, Occurrence, Reading, Request, edit


def seen_by_id(seen: list[Seen]) -> dict[int, Seen]:
    """The launches by the number that the script gives them; a loop's last round counts."""
    return {int(one.argv[1]): one for one in seen if one.argv[:1] == [b"--id"]}


def reading_disagrees(content: bytes, dialect: Dialect, seen: list[Seen]) -> list[str]:
    """What the reading says of the launches that is not what they saw."""
    reading = Reading.of(content, dialect)
    if reading.faults:
        return [f"not read: {reading.faults}"]
    wrong = []
    lines = [launch.line for launch in reading.launches if launch.command == "srv"]
    for number, one in sorted(seen_by_id(seen).items()):
        if number > len(lines):
            wrong.append(f"launch {number} was not found")
            continue
        view = Reading.of(content, dialect, launch=lines[number - 1])
        wrong += [f"launch {number}: {text}" for text in _differences(view, one, content)]
    return wrong


def _differences(reading: Reading, seen: Seen, content: bytes) -> list[str]:
    got: dict[str, bytes | None] = {name.decode(): value for name, value in seen.env.items()}
    got |= seen.flags()
    open_names = {occurrence.name for occurrence in reading.occurrences if occurrence.depends}
    winners: dict[str, list[Occurrence]] = {}
    for occurrence in reading.occurrences:
        if occurrence.wins and occurrence.name not in open_names and occurrence.name.startswith(("K", "--k")):
            winners.setdefault(occurrence.name, []).append(occurrence)
    wrong = []
    for name, occurrences in winners.items():
        occurrence = occurrences[0]
        if len(occurrences) > 1:
            wrong.append(f"{name} wins on lines {[found.line for found in occurrences]}")
        if name not in got:
            # A variable of the script that the launch's words, or what they are made of, expand also wins.
            if name.startswith("--") or f"${name}".encode() not in content:
                wrong.append(f"{name} is said to win on line {occurrence.line}, and was not seen")
            continue
        if occurrence.dynamic:
            continue
        told = None if occurrence.bare else (occurrence.value or "").encode("utf-8", "surrogateescape")
        if told != got[name]:
            wrong.append(f"{name} is said to be {told!r} on line {occurrence.line}, and was {got[name]!r}")
    for name in got:
        setter = re.search(rb"(?:read -r|printf -v) " + name.encode() + rb"\b", content)
        if name not in winners and name not in open_names and not setter and name != "--id":
            wrong.append(f"{name} was seen as {got[name]!r}, and nothing is said to win")
    return wrong


def edit_disagrees(
    content: bytes, dialect: Dialect, before: list[Seen], folder: Path, shell: tuple[str, ...], random: Random
) -> list[str] | None:
    """What is wrong with one random edit of the script; None if there was nothing to edit, or it was refused."""
    reading = Reading.of(content, dialect)
    decided = [found for found in reading.decided().values() if found.name.startswith(("K", "--k"))]
    if not decided:
        return None
    target = random.choice(decided)
    value = None if random.randrange(4) == 0 else Builder(random).text(plain=random.randrange(2) == 0)
    try:
        edited = edit(reading, [Request(target.name, value)])
    except KnobRefused:
        return None
    wrong = _outside(content, edited.content, target, value)
    after = run(edited.content, folder, shell)
    if after is None:
        return [*wrong, "the shell does not accept the result"]
    olds, news = seen_by_id(before), seen_by_id(after)
    if set(olds) != set(news):
        return [*wrong, f"launches {sorted(olds)} became {sorted(news)}"]
    told = None if value is None else value.encode()
    reached = 0
    for number, old in olds.items():
        new = news[number]
        had = {name.decode(): seen for name, seen in old.env.items()} | old.flags()
        has: dict[str, bytes | None] = {name.decode(): seen for name, seen in new.env.items()}
        has |= new.flags()
        # What is made of the knob moves with it.
        moving = {target.name} | {found.name for found in reading.occurrences if found.dynamic}
        for name in {*had, *has} - moving:
            if had.get(name, b"") != has.get(name, b""):
                wrong.append(f"launch {number}: {name} changed from {had.get(name)!r} to {has.get(name)!r}")
        if target.name in had and target.name in has and value is None:
            wrong.append(f"launch {number}: {target.name} is still there")
        reached += told is not None and has.get(target.name) == told
    if (
        value is not None
        and not reached
        and any(target.name in {k.decode() for k in one.env} | set(one.flags()) for one in olds.values())
    ):
        wrong.append(f"no launch saw the new value of {target.name}")
    return [f"{target.name} on line {target.line} to {value!r}: {text}" for text in wrong]


def _outside(content: bytes, after: bytes, target: Occurrence, value: str | None) -> list[str]:
    if value is None:
        lines = after.split(b"\n")
        return [] if len(lines) <= len(content.split(b"\n")) else ["lines were added"]
    start, end = target.span
    tail = len(content) - end
    if after[:start] != content[:start] or (tail and after[-tail:] != content[end:]):
        return ["bytes outside the value's span changed"]
    return []
