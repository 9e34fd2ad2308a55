"""Where a value is written, and how another value is written there."""

from __future__ import annotations

from typing import Literal, assert_never

from msgspec import Struct

from knobledger.quoting import quote

Style = Literal[
    "bare",
    "single",
    "double",
    "ansi",
    "in-single",
    "in-double",
    "in-ansi",
    "in-default",
    "literal",
    "systemd",
    "systemd-single",
    "systemd-double",
    "unit",
    "unit-single",
    "unit-double",
    "none",
]
"""How the value is quoted. `in-...`: between quotes that hold more than the value; `literal`: no quotes at all."""


class Unsayable(ValueError):
    """The value can't be written at that place."""


class Slot(Struct, frozen=True, gc=False):
    """The way of writing at one place."""

    style: Style
    word: bool = False
    """the value is a word of its own, so an empty one needs quotes"""
    split: bool = False
    """the text is split at blanks afterwards"""
    comma: bool = False
    """commas end the value"""
    dollar: bool = False
    """a unit's command line: `$` is doubled"""
    outer: Literal["", "bare", "single", "double", "ansi", "lost"] = ""
    """the quotes of the string that another shell reads, in which the place stands"""
    spaced: bool = False
    """a bare flag: the value is written behind it, with a blank"""


_ANSI_NAMES = {"\a": "a", "\b": "b", "\x1b": "e", "\f": "f", "\n": "n", "\r": "r", "\t": "t", "\v": "v"}


def write(slot: Slot, value: str) -> str:
    """`value` as it must stand at the place. Raises Unsayable."""
    if "\0" in value:
        raise Unsayable("a NUL byte can't stand in a variable or an argument")
    if slot.comma and "," in value:
        raise Unsayable("a comma parts the names here: this value can't be said in it")
    if slot.split and (not value or any(char in " \t\n*?[\\'\"" for char in value)):
        raise Unsayable("the string is split at blanks: this value can't be said in it")
    text = _styled(slot, value)
    if slot.spaced:
        text = " " + text
    match slot.outer:
        case "":
            return text
        case "bare":
            if quote(value) != value:
                raise Unsayable("the words are joined and read again: this value can't be said in them")
            return text
        case "single":
            if "'" in text and slot.style == "bare":
                text = (" " if slot.spaced else "") + '"' + _in_double(value) + '"'
            return text.replace("'", "'\\''")
        case "double":
            return _in_double(text)
        case "ansi":
            return _in_ansi(text)
        case "lost":
            raise Unsayable("more than one shell reads this text")
        case _:
            assert_never(slot.outer)


def _styled(slot: Slot, value: str) -> str:
    match slot.style:
        case "bare":
            return quote(value) if value or slot.word else ""
        case "single":
            return "'" + value.replace("'", "'\\''") + "'"
        case "double":
            return '"' + _in_double(value) + '"'
        case "ansi":
            return "$'" + _in_ansi(value) + "'"
        case "in-single":
            return value.replace("'", "'\\''")
        case "in-double":
            return _in_double(value)
        case "in-ansi":
            return _in_ansi(value)
        case "in-default":
            if "'" in value:
                raise Unsayable("bash takes no single quote in a default between double quotes")
            return _in_double(value).replace("}", "\\}")
        case "literal":
            if "\n" in value:
                raise Unsayable("a newline can't be said in this kind of file")
            return value
        case "systemd" | "systemd-single" | "systemd-double":
            return _systemd(slot.style, value)
        case "unit" | "unit-single" | "unit-double":
            return _unit(slot, value)
        case "none":
            raise Unsayable("no value can be written here")
        case _:
            assert_never(slot.style)


def _in_double(value: str) -> str:
    return "".join("\\" + char if char in '$`"\\' else char for char in value)


def _in_ansi(value: str) -> str:
    out = []
    for char in value:
        if char in "\\'":
            out.append("\\" + char)
        elif char in _ANSI_NAMES:
            out.append("\\" + _ANSI_NAMES[char])
        elif ord(char) < 32 or ord(char) == 127:
            out.append(f"\\{ord(char):03o}")
        else:
            out.append(char)
    return "".join(out)


def _systemd(style: Style, value: str) -> str:
    """As systemd's EnvironmentFile= reads it: quotes are taken off, and escapes hold between double ones."""
    if style == "systemd-double":
        return '"' + _in_double(value) + '"'
    if style == "systemd-single" and "'" not in value:
        return f"'{value}'"
    plain = value == value.strip() and not any(char in "\n\\\"'" for char in value)
    if style == "systemd" and plain:
        return value
    return '"' + _in_double(value) + '"'


def _unit(slot: Slot, value: str) -> str:
    """As a unit's line reads it: specifiers by %, C escapes, quotes around what has blanks."""
    text = value.replace("\\", "\\\\").replace("%", "%%").replace("\n", "\\n").replace("\t", "\\t")
    if slot.dollar:
        text = text.replace("$", "$$")
    if slot.style == "unit-double":
        return text.replace('"', '\\"')
    if slot.style == "unit-single":
        return text.replace("'", "\\'")
    if any(char in " '\"" for char in text) or (slot.word and (not text or text in (";", "|"))):
        return '"' + text.replace('"', '\\"') + '"'
    return text
