"""Launch flags among the arguments of a command or the words of an array."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from knobledger.knobs.shell.state import Arg
from knobledger.knobs.shell.values import Value, is_plain, literal_text, prefix_text, slot_of, value_of
from knobledger.knobs.slot import Slot

_FLAG = re.compile(r"--[A-Za-z][A-Za-z0-9_.-]*")
_SHORT = re.compile(r"-[A-Za-z]")
_ARGUMENTS = re.compile(r"arg|opt|flag|extra|@|\*", re.IGNORECASE)
_LONG = 4000
"""Text longer than this is looked at no further for the name of a flag, in bytes."""


class Flag(Struct, frozen=True, gc=False):
    """One flag as written."""

    name: str
    value: Value | None
    """None: bare"""
    slot: Slot
    span: tuple[int, int]
    whole: tuple[int, int]
    arg: Arg
    file: str | None


def flags_of(args: Sequence[Arg]) -> list[Flag]:
    """The `--flags` among `args`, in order. A word behind a flag that is no flag itself is its value."""
    found: list[Flag] = []
    index = 0
    while index < len(args):
        arg = args[index]
        index += 1
        if arg.word is None:
            continue
        word, source = arg.word, arg.word.source
        text = prefix_text(word)
        if not text.startswith("--") or not (match := _FLAG.match(text[:_LONG])):
            continue
        name = match.group()
        flag_span = source.span(word.start, word.end)
        if text.startswith("=", match.end()):
            value = value_of(word, match.end() + 1, assignment=False, expands_braces=True)
            slot = slot_of(source, value, split=arg.split)
            found.append(
                Flag(name, value, slot, source.span(value.start, value.end), flag_span, arg, source.file)
            )
            continue
        if text != name or (not is_plain(word) and literal_text(word) != name):
            continue
        following = args[index] if index < len(args) else None
        if following is not None and following.word is not None and _is_value(following, arg):
            index += 1
            value_word = following.word
            value = value_of(value_word, assignment=False, expands_braces=True)
            span = value_word.source.span(value.start, value.end)
            value_end = value_word.source.span(value_word.start, value_word.end)[1]
            whole = (flag_span[0], value_end) if value_end > flag_span[1] else flag_span
            slot = slot_of(value_word.source, value, word=True, split=following.split)
            found.append(Flag(name, value, slot, span, whole, arg, source.file))
            continue
        slot = Slot("bare", word=True, split=arg.split, outer=source.quoting(word.start), spaced=True)
        end = flag_span[1]
        found.append(Flag(name, None, slot, (end, end), flag_span, arg, source.file))
    return found


def _is_value(arg: Arg, flag: Arg) -> bool:
    word = arg.word
    assert word is not None
    if arg.guarded and not flag.guarded:
        return False
    text = prefix_text(word)
    if text.startswith("-") and (text.startswith("--") or _SHORT.match(text)):
        return False
    if len(word.pieces) == 1 and word.pieces[0].kind == "param":
        # Unquoted: `--flag $EXTRA_ARGS` is a bare flag and more flags, `--port $PORT` a flag and its value.
        piece = word.pieces[0]
        return not (_ARGUMENTS.search(piece.text) and (piece.op in ("", "?") or not piece.parts))
    return True


def looks_like_flags(text: str) -> bool:
    """Whether a string reads as flags, and not as text that mentions some."""
    return bool(_FLAG.match(text.lstrip()))
