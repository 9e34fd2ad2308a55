"""systemd units: `Environment=`, `EnvironmentFile=` and the flags on `ExecStart=`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from knobledger.knobs.envfile import read_systemd
from knobledger.knobs.occurrence import Launch, Note, Scope
from knobledger.knobs.shell.source import Source, decode
from knobledger.knobs.site import SITES, Site
from knobledger.knobs.slot import Slot, Style

_SECTION = re.compile(r"\[([^\]\n]*)\][ \t\r]*$")
_KEY = re.compile(r"[ \t]*([A-Za-z]+)[ \t]*=[ \t]*")
_FLAG = re.compile(r"--[A-Za-z][A-Za-z0-9_.-]*")
_SETTING = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
_COMMENTED_KEY = re.compile(r"[#; \t]*(?:Environment[ \t]*=|ExecStart[ \t]*=)?[ \t]*")
_SHELLS = frozenset(["sh", "bash", "dash"])
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "s": " "}


class Token(NamedTuple):
    """One word of a unit's line."""

    text: str
    """unquoted"""
    positions: tuple[int, ...]
    """in the logical line, of each character of `text`"""
    start: int
    end: int
    quote: str
    """the quote that closes at the word's end, if the rest of the word behind `open` is inside it"""
    opened: int
    """how many characters of `text` stand before that quote"""
    dynamic: bool


class UnitFound(Struct):
    """What a unit holds."""

    sites: list[Site] = field(default_factory=list)
    winners: dict[str, Site] = field(default_factory=dict)
    launches: list[Launch] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    sections: bool = False
    environment: dict[str, Site] = field(default_factory=dict)
    files: dict[str, Site] = field(default_factory=dict)
    flags: dict[str, Site] = field(default_factory=dict)


def read_unit(text: str, sources: Mapping[str, bytes], file: str | None = None) -> UnitFound:
    """Read a unit (or drop-in), as Latin-1."""
    found = UnitFound()
    section = ""
    at, number, size = 0, 0, len(text)
    while at < size:
        number += 1
        begin = at
        end = text.find("\n", at)
        end = size if end < 0 else end
        line = text[begin:end].removesuffix("\r")
        at = end + 1
        if line.lstrip(" \t")[:1] in ("#", ";"):
            _comment(found, text, begin, begin + len(line), file)
            continue
        if match := _SECTION.match(line.lstrip(" \t")):
            section = match.group(1)
            found.sections = True
            continue
        if not line.strip():
            continue
        source, at, number, comments = _logical(text, begin, number, file)
        match = _KEY.match(source.text)
        if section == "Service" and match:
            _entry(found, match.group(1), source, match.end(), (begin, min(at, size)), sources, text)
        for start, stop in comments:
            _comment(found, text, start, stop, file)
    if not found.sections:
        found.notes.append(Note(1, "there is no [Service] section: systemd ignores what stands here"))
    found.sites.sort(key=lambda site: site.span[0])
    found.winners = {**found.environment, **found.files, **found.flags}
    return found


def _logical(
    text: str, begin: int, number: int, file: str | None
) -> tuple[Source, int, int, list[tuple[int, int]]]:
    """A line with those that continue it, comments between them left out."""
    chars: list[str] = []
    starts: list[int] = []
    comments: list[tuple[int, int]] = []
    at = begin
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        line = text[at:end].removesuffix("\r")
        if at > begin and line.lstrip(" \t")[:1] in ("#", ";"):
            comments.append((at, at + len(line)))
            at, number = end + 1, number + 1
            continue
        continued = line.endswith("\\") and (len(line) - len(line.rstrip("\\"))) % 2 == 1
        body = line[:-1] if continued else line
        chars.append(body)
        starts.extend(range(at, at + len(body)))
        if continued:
            # The backslash becomes a blank.
            chars.append(" ")
            starts.append(at + len(body))
        at = end + 1
        if not continued:
            break
        number += 1
    ends = [start + 1 for start in starts]
    return Source("".join(chars), starts, ends, file=file), at, number, comments


def tokens(source: Source, at: int, *, command: bool) -> list[Token]:
    """The words of a logical line from `at` on, as systemd's extract_first_word takes them apart."""
    text, size = source.text, len(source.text)
    found: list[Token] = []
    while True:
        while at < size and text[at] in " \t\r":
            at += 1
        if at >= size:
            return found
        start = at
        out: list[str] = []
        positions: list[int] = []
        quote, last, opened, dynamic = "", "", 0, False
        while at < size and (quote or text[at] not in " \t\r"):
            char = text[at]
            if char == quote and quote:
                quote, at = "", at + 1
                continue
            if not quote and char in "'\"":
                quote = last = char
                opened = len(out)
                at += 1
                continue
            last = last if quote else ""
            position = at
            if char == "\\" and at + 1 < size:
                following = text[at + 1]
                char = _ESCAPES.get(following, following if following in "\\'\"" else "\\" + following)
                at += 1
            elif char == "%" and text[at + 1 : at + 2] == "%":
                at += 1
            elif char == "%":
                dynamic = True
            elif command and char == "$":
                if text[at + 1 : at + 2] == "$":
                    at += 1
                else:
                    dynamic = True
            at += 1
            out.append(char[0])
            positions.append(position)
            if len(char) > 1:
                out.append(char[1])
                positions.append(position + 1)
        found.append(Token("".join(out), tuple(positions), start, at, last, opened, dynamic))


def _entry(
    found: UnitFound,
    key: str,
    source: Source,
    at: int,
    whole: tuple[int, int],
    sources: Mapping[str, bytes],
    text: str,
) -> None:
    empty = not source.text[at:].strip()
    line = text.count("\n", 0, whole[0]) + 1
    match key:
        case "Environment":
            if empty:
                for site in found.environment.values():
                    site.lost = f"taken back by the empty Environment= on line {line}"
                found.environment.clear()
                return
            items = tokens(source, at, command=False)
            for item in items:
                if setting := _SETTING.match(item.text):
                    site = _value_site(
                        source,
                        item,
                        setting.end(),
                        decode(setting.group(1)),
                        "env",
                        Scope.UNIT,
                        "Environment=",
                        whole,
                    )
                    site.alone = len(items) == 1
                    found.sites.append(site)
                    found.environment[site.name] = site
        case "EnvironmentFile":
            if empty:
                found.files.clear()
                return
            path = source.text[at:].strip().removeprefix("-")
            name = path if path in sources else path.rpartition("/")[2]
            if name not in sources:
                found.notes.append(
                    Note(line, f"{path!r} is read too, and beats Environment=; it was not given")
                )
                return
            side = read_systemd(sources[name].decode("latin-1"), name)
            found.sites.extend(side.sites)
            found.files.update(side.winners)
        case "UnsetEnvironment":
            for item in tokens(source, at, command=False):
                for table in (found.environment, found.files):
                    gone = table.pop(decode(item.text), None)
                    if gone is not None:
                        gone.lost = f"taken away by UnsetEnvironment= on line {line}"
        case "ExecStart":
            if empty:
                for site in found.flags.values():
                    site.lost = f"taken back by the empty ExecStart= on line {line}"
                found.flags.clear()
                found.launches.clear()
                return
            _exec(found, source, at, whole, line, text)


def _exec(found: UnitFound, source: Source, at: int, whole: tuple[int, int], line: int, text: str) -> None:
    items = tokens(source, at, command=True)
    if not items:
        return
    index = 0
    name = items[0].text.lstrip("@-:+!").rpartition("/")[2]
    if name == "env":
        index = 1
        while index < len(items) and (items[index].text.startswith("-") or _SETTING.match(items[index].text)):
            if setting := _SETTING.match(items[index].text):
                site = _value_site(
                    source,
                    items[index],
                    setting.end(),
                    setting.group(1),
                    "env",
                    Scope.COMMAND,
                    "env",
                    whole,
                    True,
                )
                found.sites.append(site)
                found.flags[site.name] = site
            index += 1
        name = items[index].text.rpartition("/")[2] if index < len(items) else name
    if name in _SHELLS and index + 2 < len(items) and items[index + 1].text == "-c":
        _string(found, source, items[index + 2], text, line)
        return
    found.launches.append(Launch(line, name))
    while index + 1 < len(items):
        index += 1
        item = items[index]
        match = _FLAG.match(item.text)
        if not match:
            continue
        flag = decode(match.group())
        if item.text.startswith("=", match.end()):
            site = _value_site(
                source, item, match.end() + 1, flag, "flag", Scope.COMMAND, "flag=", whole, True
            )
        elif match.end() != len(item.text):
            continue
        elif index + 1 < len(items) and not re.match(r"--|-[A-Za-z]", items[index + 1].text):
            index += 1
            site = _value_site(source, items[index], 0, flag, "flag", Scope.COMMAND, "flag", whole, True)
            site.whole = (source.span(item.start, item.end)[0], site.whole[1])
            site.slot = replace(site.slot, word=True)
        else:
            place = source.span(item.start, item.end)
            slot = Slot("unit", word=True, dollar=True, spaced=True)
            site = Site(
                flag, "flag", None, (place[1], place[1]), place, slot, Scope.COMMAND, "flag", whole, bare=True
            )
        site.alone = False
        found.sites.append(site)
        found.flags[flag] = site


def _string(found: UnitFound, source: Source, token: Token, text: str, line: int) -> None:
    """The knobs in `sh -c '...'`. They are only read: a unit's quoting and a shell's would have to be met at once."""
    # Imported here: the parser is only loaded where a shell reads something.
    from knobledger.knobs.shell.read import read_string

    spans = [source.span(position, position + 1) for position in token.positions]
    inner = Source(
        token.text, [start for start, _ in spans], [end for _, end in spans], ((0, "lost"),), source.file
    )
    shell = read_string(inner, text)
    found.sites.extend(shell.sites)
    command = shell.launches[0].command if shell.launches else "sh"
    found.launches.append(Launch(line, command))
    for name, choices in shell.seen[0].items():
        sites = [choice for choice in choices if choice is not None]
        if len(choices) == 1 and sites:
            found.flags[name] = sites[0]
        for site in sites:
            site.depends = site.depends or len(choices) > 1


def _value_site(
    source: Source,
    token: Token,
    skip: int,
    name: str,
    kind: str,
    scope: Scope,
    form: str,
    whole: tuple[int, int],
    command: bool = False,
) -> Site:
    """The site of what stands behind the first `skip` characters of a word."""
    style: Style = "unit"
    end = token.end
    if token.quote and token.opened <= skip:
        style = "unit-double" if token.quote == '"' else "unit-single"
        end = token.end - 1
        start = token.positions[skip] if skip < len(token.positions) else end
    else:
        start = token.positions[skip] if skip < len(token.positions) else token.end
        if token.quote and skip < len(token.positions):
            # Quotes within the value: it is written anew.
            start = min(start, token.positions[skip])
    value = None if token.dynamic else decode(token.text[skip:])
    return Site(
        name,
        "flag" if kind == "flag" else "env",
        value,
        source.span(start, end),
        source.span(token.start, token.end),
        Slot(style, dollar=command, word=False),
        scope,
        form,
        whole,
        dynamic=value is None,
        file=source.file,
        why_dynamic=f"the value is {decode(source.text[start:end])}" if value is None else "",
    )


def _comment(found: UnitFound, text: str, start: int, end: int, file: str | None) -> None:
    """Commented-out settings and flags."""
    line = text[start:end]
    if len(found.sites) > SITES or end - start > 2_000:
        return
    if "=" not in line and "--" not in line:
        return
    match = _COMMENTED_KEY.match(line)
    begin = start + (match.end() if match else 0)
    source = Source(text[start:end].rstrip("\\ \t"), range(start, end), range(start + 1, end + 1), file=file)
    items = tokens(source, begin - start, command=False)
    index = 0
    whole = (start, end)
    while index < len(items):
        item = items[index]
        index += 1
        site = None
        if setting := _SETTING.match(item.text):
            site = _value_site(
                source, item, setting.end(), setting.group(1), "env", Scope.COMMENT, "comment", whole
            )
        elif flag := _FLAG.match(item.text):
            if item.text.startswith("=", flag.end()):
                site = _value_site(
                    source, item, flag.end() + 1, flag.group(), "flag", Scope.COMMENT, "comment", whole
                )
            elif index < len(items) and not items[index].text.startswith("-"):
                site = _value_site(
                    source, items[index], 0, flag.group(), "flag", Scope.COMMENT, "comment", whole
                )
                index += 1
            else:
                place = source.span(item.start, item.end)
                site = Site(
                    flag.group(), "flag", None, (place[1], place[1]), place, Slot("none"), Scope.COMMENT, "comment",
                    whole, bare=True, file=file,
                )  # fmt: skip
        elif "Environment=" not in line and "ExecStart" not in line:
            return
        if site is not None:
            site.active = False
            found.sites.append(site)
