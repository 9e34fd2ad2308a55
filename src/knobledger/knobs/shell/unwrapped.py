"""What is known of a command once the commands that start it are taken off."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct, field

from knobledger.knobs.shell.source import decode
from knobledger.knobs.shell.state import Arg
from knobledger.knobs.shell.values import literal_text, prefix_text

SETTING: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Setting(Struct, frozen=True, gc=False):
    """`NAME=value` among a wrapper's words."""

    arg: Arg
    name: str
    skip: int
    """characters of the word's text before the value"""
    begins: Arg
    """the first word of it, such as `-e`"""
    form: str
    head: bool = False
    stop: int | None = None
    """where the value ends in the word's text, if a comma follows"""


class Unwrapped(Struct):
    """What remains when the wrappers are taken off."""

    args: list[Arg]
    """of the program itself, its name first"""
    wrappers: list[str] = field(default_factory=list)
    settings: list[Setting] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)
    cleared: bool = False
    """nothing of the script's environment is handed on"""
    open: bool = False
    """whether the script's environment is handed on hangs on something else"""
    handed: set[str] = field(default_factory=set)
    """names that are handed on all the same"""
    env_files: list[str] = field(default_factory=list)
    image: Arg | None = None
    """the image of a container"""
    told: list[list[Arg]] = field(default_factory=list)
    """the words that are joined and given to a shell, for each that is started"""
    detached: bool = False
    """that goes on by itself"""
    execs: bool = False

    def forget(self) -> None:
        """What was set or handed on before does not go on from here."""
        self.cleared, self.open = True, False
        self.handed.clear()
        self.removed.clear()
        self.settings = []


def text_of(arg: Arg) -> str | None:
    """The argument's text, if it is known."""
    if arg.word is None:
        return None
    text = literal_text(arg.word)
    return None if text is None else decode(text)


def base_name(arg: Arg) -> str:
    """The last part of a command's path; what is known of it if it begins with an expansion."""
    text = text_of(arg)
    return "" if text is None else text.rpartition("/")[2]


def hand_on(result: Unwrapped, arg: Arg, skip: int, begins: Arg, form: str) -> None:
    """Note `NAME=value`, or `NAME` that is handed on, from character `skip` of a wrapper's word on."""
    if arg.word is None:
        return
    text = prefix_text(arg.word)
    if match := SETTING.match(text, skip):
        result.settings.append(Setting(arg, match.group(1), match.end(), begins, form))
    elif (match := _NAME.fullmatch(text, skip)) and literal_text(arg.word) == text:
        result.handed.add(match.group())


def hand_on_list(result: Unwrapped, arg: Arg, skip: int, begins: Arg, form: str) -> None:
    """The same for several with commas between; `ALL` and `NONE` are not names."""
    for item in (text_of(arg) or "")[skip:].split(","):
        if match := SETTING.match(item):
            result.settings.append(
                Setting(arg, match.group(1), skip + match.end(), begins, form, stop=skip + len(item))
            )
        elif item not in ("ALL", "NONE", "NIL"):
            result.handed.add(item)
        skip += len(item) + 1


def past_options(args: list[Arg], at: int, valued: str) -> int:
    """Where the options from `at` on end. Those of `valued`, parted by blanks, take the next word for their value; a short
    one also behind other letters."""
    taking = frozenset(valued.split())
    while at < len(args):
        text = text_of(args[at])
        if text is None or not text.startswith("-") or text == "-":
            return at
        if text == "--":
            return at + 1
        takes = text in taking or (not text.startswith("--") and f"-{text[-1]}" in taking)
        at += 2 if takes else 1
    return at
