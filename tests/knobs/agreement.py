"""Where a reading, or an edit, and the shell disagree; in words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from launches import Seen
from serve_scripts import Builder

from knobledger.errors import KnobRefused
from knobledger.knobs import Dialect, Occurrence, Reading, Request, edit
from knobledger.knobs.slot import Slot, write


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
        setter = re.search(
            rb"(?:read -r |printf -v |declare -n ref=|\$\(\()" + name.encode() + rb"\b", content
        )
        if name not in winners and name not in open_names and not setter and name != "--id":
            wrong.append(f"{name} was seen as {got[name]!r}, and nothing is said to win")
    return wrong


@dataclass(frozen=True)
class Trial:
    """One edit of one script that was carried out."""

    before: bytes
    after: bytes
    reading: Reading
    """of `before`"""
    target: Occurrence
    value: str | None
    """None: it was taken out"""


def value_for(random: Random) -> str:
    """A value to set: plain, or with what a shell could read as code."""
    return Builder(random).text(plain=random.randrange(2) == 0)


def trials(reading: Reading, random: Random, count: int) -> Iterator[Trial | KnobRefused]:
    """Random edits of the script's decided knobs, each made on the script itself, and what was refused."""
    decided = [found for found in reading.decided().values() if found.name.startswith(("K", "--k"))]
    for _ in range(count if decided else 0):
        target = random.choice(decided)
        value = None if random.randrange(4) == 0 else value_for(random)
        try:
            edited = edit(reading, [Request(target.name, value)])
        except KnobRefused as refusal:
            yield refusal
            continue
        yield Trial(reading.content, edited.content, reading, target, value)


def edit_strays(trial: Trial, again: Reading) -> list[str]:
    """What the edit did besides what was asked, as a new reading of its result tells it."""
    wrong = _outside(trial)
    name, value = trial.target.name, trial.value
    found = again.decided().get(name)
    # The CR of a CR LF is part of the value that the shell passes on, and stays.
    wanted = (value, f"{value}\r")
    if value is not None and (found is None or found.value not in wanted or found.line != trial.target.line):
        wrong.append(f"it is read as {found and found.value!r}")
    if value is None and found is not None:
        wrong.append("it is still decided")
    if [launch.command for launch in again.launches] != [launch.command for launch in trial.reading.launches]:
        wrong.append("other launches are read")
    if len(again.faults) != len(trial.reading.faults):
        wrong.append(f"what can't be read is {again.faults}")
    span = trial.target.span
    holders = {found.name for found in trial.reading.occurrences if _holds(found.span, span)}
    olds, news = _others(trial.reading, holders), _others(again, holders)
    if olds != news:
        wrong.append(f"other occurrences were {olds}, and are {news}")
    return [_told(trial, text) for text in wrong]


def _holds(outer: tuple[int, int], inner: tuple[int, int]) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _others(reading: Reading, names: set[str]) -> list[tuple[object, ...]]:
    """All occurrences but those of the edited knob, and of strings that it is a word of."""
    return [
        (
            found.name,
            found.value,
            found.active,
            found.wins,
            found.scope,
            found.form,
            found.dynamic,
            found.bare,
        )
        for found in reading.occurrences
        if found.name not in names
    ]


def edit_disagrees(trial: Trial, before: list[Seen], after: list[Seen] | None) -> list[str]:
    """What the launches saw after the edit that they should not have seen."""
    if after is None:
        return [_told(trial, "the shell does not accept the result")]
    olds, news = seen_by_id(before), seen_by_id(after)
    if set(olds) != set(news):
        return [_told(trial, f"launches {sorted(olds)} became {sorted(news)}")]
    name = trial.target.name
    told = None if trial.value is None else trial.value.encode()
    # What is made of the knob moves with it.
    moving = {name} | {found.name for found in trial.reading.occurrences if found.dynamic}
    wrong = []
    reached, had = False, False
    for number, old in olds.items():
        was, now = _knobs(old), _knobs(news[number])
        for other in {*was, *now} - moving:
            if was.get(other, b"") != now.get(other, b""):
                wrong.append(
                    f"launch {number}: {other} changed from {was.get(other)!r} to {now.get(other)!r}"
                )
        if name in was and name in now and told is None:
            wrong.append(f"launch {number}: it is still there")
        reached = reached or (told is not None and now.get(name) == told)
        had = had or name in was
    if told is not None and had and not reached:
        wrong.append("no launch saw the new value")
    return [_told(trial, text) for text in wrong]


def _knobs(seen: Seen) -> dict[str, bytes | None]:
    found: dict[str, bytes | None] = {name.decode(): value for name, value in seen.env.items()}
    return found | seen.flags()


def _told(trial: Trial, text: str) -> str:
    return (
        f"{trial.target.name} on line {trial.target.line} to {trial.value!r}: {text}\n{trial.before.decode()}"
    )


def _outside(trial: Trial) -> list[str]:
    content, after = trial.before, trial.after
    if trial.value is None:
        return [] if after.count(b"\n") <= content.count(b"\n") else ["lines were added"]
    start, end = trial.target.span
    tail = len(content) - end
    if after[:start] != content[:start] or (tail and after[-tail:] != content[end:]):
        return ["bytes outside the value's span changed"]
    return []


def back_differs(trial: Trial, there: Reading) -> list[str]:
    """Whether setting the old value back does not bring the old bytes back, where docs/shapes.md says that it does."""
    old = trial.target.value
    if trial.value is None or old is None or trial.target.dynamic:
        return []
    try:
        back = edit(there, [Request(trial.target.name, old)])
    except KnobRefused as refusal:
        if "second parser" in refusal.message:
            # Known: docs/shapes.md, "The second parser".
            return []
        return [_told(trial, f"can't be set back: {refusal.message}")]
    slot = _slot(trial.reading, trial.target)
    kept = slot == _slot(there, there.decided()[trial.target.name])
    if back.content != trial.before and kept and trial.target.raw == write(slot, old):
        return [_told(trial, f"set back it is\n{back.content.decode()}")]
    start, end = trial.target.span
    tail = len(trial.before) - end
    if back.content[:start] != trial.before[:start] or (tail and back.content[-tail:] != trial.before[end:]):
        return [_told(trial, "set back, bytes outside the value's span differ")]
    return []


def _slot(reading: Reading, occurrence: Occurrence) -> Slot:
    return reading.sites[reading.occurrences.index(occurrence)].slot
