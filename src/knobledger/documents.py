"""Documents against the record: lines that name a dead cause or a value that is not the live one. Pure.

A document is plain text; Markdown's own structure counts only as far as a table row, a list item and a heading
stand for themselves. What its author wrote is never changed: an addendum between two marks is appended.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

_BLAME = re.compile(
    r"\b(?:caus\w+|culprit|fault\w*|blam\w+|due to|because of|hang\w*|hung|deadlock\w*|stall\w*|regress\w*|"
    r"broke\w*|break\w*|suspect\w*|revert\w*|to be avoided|root cause|fix(?:es|ed)?)\b",
    re.IGNORECASE,
)
_CLEARED = re.compile(
    r"\b(?:not the cause|exonerat\w+|innocent|wrongful\w*|wrongly|refuted|was not at fault|did not cause|"
    r"does not cause|had nothing to do|restored)\b",
    re.IGNORECASE,
)
_RESTART = re.compile(
    r"\b(?:co-?)?restart\w*\b.{0,80}\b(?:fix\w*|solv\w+|cur(?:e|ed|es)|resolv\w+)\b"
    r"|\b(?:fix\w*|solv\w+|cur(?:e|ed|es)|resolv\w+|solution)\b.{0,80}\b(?:co-?)?restart\w*\b",
    re.IGNORECASE,
)
_OPEN = re.compile(r"<!-- knobledger addendum (\S+) ([0-9a-f]{8,64}) -->")
_CLOSE = "<!-- end of knobledger addendum -->"


class Case(Struct, frozen=True):
    """A hypothesis that was judged, as far as documents can be wrong about it."""

    slug: str
    verdict: str
    """the id of the verdict in effect"""
    refuted: bool
    cause: str
    knobs: tuple[str, ...]
    """those of its wrongful suspects"""
    changes: tuple[str, ...]
    """ids of its wrongful suspects"""


class Contradiction(Struct, frozen=True):
    """A line that contradicts the record, and why."""

    line: int
    """from 1"""
    text: str
    why: str
    hypothesis: str | None = None


def mark(slug: str, verdict: str) -> str:
    """The line that an addendum begins with; by it a second run knows that there is one."""
    return f"<!-- knobledger addendum {slug} {verdict[:8]} -->"


def marked(text: str) -> list[tuple[int, str, str]]:
    """The addenda in a document: (line, slug, the verdict's short id)."""
    return [
        (number, found[1], found[2])
        for number, line in enumerate(text.splitlines(), 1)
        if (found := _OPEN.search(line))
    ]


def appended(text: str, addendum: str) -> str:
    """A document with an addendum (its own marks included) below it, in the document's line endings."""
    end = "\r\n" if "\r\n" in text else "\n"
    body = addendum.strip("\n").replace("\r\n", "\n").replace("\n", end)
    gap = "" if not text else end if text.endswith(("\n", "\r")) else end * 2
    return f"{text}{gap}{body}{end}"


def enclosed(slug: str, verdict: str, body: str) -> str:
    """An addendum's text between its marks."""
    return f"{mark(slug, verdict)}\n{body.strip()}\n{_CLOSE}\n"


def named_values(text: str, names: Iterable[str]) -> dict[str, tuple[int, str]]:
    """The last value that a document gives to each knob, with its line: `NAME=VALUE`, `--flag VALUE`."""
    known = set(names)
    found: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        for match in _VALUE.finditer(line):
            if match["name"] in known:
                found[match["name"]] = (number, match["value"].rstrip(".,:)"))
    return found


_VALUE = re.compile(
    r"(?<![\w-])(?P<name>(?P<flag>--[A-Za-z][\w.-]*)|[A-Za-z_]\w*)`?(?: ?= ?|(?(flag) (?=[\w\"'`])|(?!)))"
    r"[\"'`]?(?P<value>[^\s\"'`|;,]+)"
)


def contradictions(
    text: str, cases: Sequence[Case], live: Mapping[str, Mapping[str, str | None]]
) -> tuple[Contradiction, ...]:
    """What of a document the record contradicts, in the order of its lines.

    `live` holds per knob and target the value that is in the file now; None: the knob is not there.
    """
    lines = text.splitlines()
    addenda = marked(text)
    told = {(slug, verdict) for _, slug, verdict in addenda}
    current = {case.slug: case.verdict[:8] for case in cases}
    found: list[Contradiction] = []
    for number, slug, verdict in addenda:
        if slug in current and verdict[:8] != current[slug] and (slug, current[slug]) not in told:
            why = f"the verdict that this addendum tells was superseded by {current[slug]}"
            found.append(Contradiction(number, lines[number - 1], why, slug))
    for case in cases:
        if case.refuted and (case.slug, case.verdict[:8]) not in told:
            found += _dead(lines, case)
    for name, (number, value) in named_values(text, live).items():
        there = live[name]
        if value not in there.values() and not _is_mask(there.values()):
            now = ", ".join(f"{shown or 'not set'} on {target}" for target, shown in sorted(there.items()))
            found.append(Contradiction(number, lines[number - 1], f"says {name} is {value}; it is {now}"))
    return tuple(sorted(found, key=lambda item: (item.line, item.why)))


def _is_mask(values: Iterable[str | None]) -> bool:
    return any(value and value.startswith("<secret ") for value in values)


def _dead(lines: Sequence[str], case: Case) -> list[Contradiction]:
    """Lines that name the dead hypothesis, blame what it suspected, or call a restart what fixed it."""
    truth = f"; the cause was {case.cause}" if case.cause else ""
    names = _mentions(case.knobs)
    concerned = names is not None and any(names.search(line) for line in lines)
    found = []
    for paragraph in _paragraphs(lines):
        whole = " ".join(lines[number] for number in paragraph)
        if _CLEARED.search(whole):
            continue
        for number in paragraph:
            line = lines[number]
            why = ""
            if re.search(rf"(?<![\w-]){re.escape(case.slug)}(?![\w-])", line):
                why = f"names the hypothesis {case.slug}, which is refuted{truth}"
            elif any(change[:8] in line for change in case.changes):
                why = f"names a wrongful suspect of {case.slug}{truth}"
            elif names and (match := names.search(line)) and _BLAME.search(whole):
                why = f"blames {match.group()}, a wrongful suspect of {case.slug}{truth}"
            elif concerned and _RESTART.search(line):
                why = f"calls a restart the fix of what {case.slug} explained wrongly{truth}"
            if why:
                found.append(Contradiction(number + 1, line, why, case.slug))
    return found


def _mentions(knobs: Sequence[str]) -> re.Pattern[str] | None:
    """A knob by its name, or by the end of it as people shorten it: at least two words of it."""
    forms = set()
    for knob in knobs:
        words = knob.split("_")
        forms |= {knob} | {"_".join(words[start:]) for start in range(1, len(words) - 1)}
    if not forms:
        return None
    ordered = sorted(map(re.escape, forms), key=len, reverse=True)
    return re.compile(rf"(?<![A-Za-z0-9-])(?:{'|'.join(ordered)})(?![\w-])")


def _paragraphs(lines: Sequence[str]) -> list[list[int]]:
    """Numbers (from 0) of the lines that belong together, addenda left out."""
    found: list[list[int]] = [[]]
    inside = False
    for number, line in enumerate(lines):
        inside = inside or bool(_OPEN.search(line))
        bare = line.strip()
        alone = bare.startswith(("|", "#", "- ", "* ", "+ ")) or re.match(r"\d+[.)] ", bare)
        if inside or not bare:
            found.append([])
        elif alone:
            found.append([number])
        else:
            found[-1].append(number)
        inside = inside and _CLOSE not in line
        if bare.startswith(("|", "#")):
            found.append([])
    return [paragraph for paragraph in found if paragraph]
