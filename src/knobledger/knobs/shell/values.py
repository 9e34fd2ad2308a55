"""Words to values: what a word stands for, where its value's span is, and how another is written there."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from knobledger.knobs.shell.source import Quoting, Source, decode
from knobledger.knobs.shell.syntax import Piece, Word
from knobledger.knobs.slot import Slot, Style

Quotes = Literal["bare", "single", "double"]
PLAIN_SLOTS: dict[Quotes, Slot] = {"bare": Slot("bare"), "single": Slot("single"), "double": Slot("double")}
"""How another value is written in place of a whole word of the file itself."""
_SPECIAL = re.compile(r"[\r~{*?]")
"""What may be expanded in bare text, or not be a part of the value."""
_SINGLE_IDIOM = re.compile(r"(?:'[^']*'|\\')*")


class Value(Struct, frozen=True, gc=False):
    """The value of (the rest of) a word."""

    text: str | None
    """as the program sees it; None if dynamic"""
    start: int
    end: int
    style: Style
    overridable: bool = False
    default_of: str = ""
    """the parameter whose default it is"""
    default_op: str = ""
    why: str = ""
    """what makes it dynamic"""


def is_plain(word: Word) -> bool:
    """Whether the word has no quotes and no expansions."""
    pieces = word.pieces
    return len(pieces) == 1 and pieces[0].kind == "bare"


def whole_text(word: Word) -> tuple[Piece, Quotes] | None:
    """The one piece that is the word's value, and its style, for a word of the file itself that is nothing but plain
    text, bare or in quotes; None for all others."""
    pieces = word.pieces
    if len(pieces) != 1 or word.source.starts is not None:
        return None
    piece = pieces[0]
    match piece.kind:
        case "bare":
            return None if _SPECIAL.search(piece.text) else (piece, "bare")
        case "single":
            return piece, "single"
        case "double" if len(piece.parts) == 1 and piece.parts[0].kind == "bare":
            return None if word.source.text[piece.start] == "$" else (piece.parts[0], "double")
        case _:
            return None


def literal_text(word: Word) -> str | None:
    """The word's text (Latin-1) if it has no expansions, else None."""
    pieces = word.pieces
    if len(pieces) == 1 and pieces[0].kind == "bare":
        return pieces[0].text
    out = []
    for piece in pieces:
        text = _piece_text(piece)
        if text is None:
            return None
        out.append(text)
    return "".join(out)


def unquoted(word: Word) -> list[Piece]:
    """The pieces of a word, those inside double quotes without these."""
    return [part for piece in word.pieces for part in (piece.parts if piece.kind == "double" else (piece,))]


def prefix_text(word: Word) -> str:
    """The word's text (Latin-1) up to its first expansion."""
    if len(word.pieces) == 1 and word.pieces[0].kind == "bare":
        return word.pieces[0].text
    out: list[str] = []
    for piece in unquoted(word):
        text = _piece_text(piece)
        if text is None:
            break
        out.append(text)
    return "".join(out)


def _piece_text(piece: Piece) -> str | None:
    match piece.kind:
        case "bare" | "escape" | "single" | "ansi" | "glob":
            return piece.text
        case "double":
            texts = [_piece_text(part) for part in piece.parts]
            return None if None in texts else "".join(text for text in texts if text is not None)
        case _:
            return None


def value_of(word: Word, skip: int = 0, *, assignment: bool, expands_braces: bool) -> Value:
    """The value of `word` behind its first `skip` characters of text (a `NAME=` or `--flag=` before it).

    `assignment`: no file names are expanded, and tildes are behind colons too.
    """
    pieces, style = word.pieces, None
    if not skip and len(pieces) == 1 and pieces[0].kind == "bare" and not _SPECIAL.search(pieces[0].text):
        return Value(decode(pieces[0].text), word.start, word.end, "bare")
    if skip:
        pieces, style = _behind(word.pieces, skip)
    if pieces and pieces[-1].kind == "bare" and pieces[-1].text.endswith("\r") and style is None:
        following = word.source.text[word.end : word.end + 1]
        if following in ("", "\n"):
            return _before_return(word, pieces, assignment, expands_braces)
    start = pieces[0].start if pieces else word.end
    if style is not None:
        # Inside quotes that hold more than the value: it ends before the closing quote.
        closing = word.pieces[-1]
        end = closing.end - 1
        return _plain(word, pieces, start if pieces else end, end, style)
    if len(pieces) == 1:
        if found := _default(pieces[0], quoted=False):
            return found
        inner = pieces[0].parts if pieces[0].kind == "double" else ()
        if len(inner) == 1 and (found := _default(inner[0], quoted=True)):
            return found
    value = _plain(word, pieces, start, word.end, _style_of(word.source, pieces))
    if value.text is not None and (reason := _expansion(pieces, assignment, expands_braces)):
        return replace(value, text=None, why=reason)
    return value


def _before_return(word: Word, pieces: tuple[Piece, ...], assignment: bool, expands_braces: bool) -> Value:
    """The value of a word that ends in the CR of a CR LF: the CR is part of it, but stays where it is."""
    last = pieces[-1]
    kept = pieces[:-1]
    if len(last.text) > 1:
        kept = (*kept, replace(last, end=last.end - 1, text=last.text[:-1]))
    start = kept[0].start if kept else word.end - 1
    value = _plain(word, kept, start, word.end - 1, _style_of(word.source, kept))
    if value.text is None:
        return value
    if reason := _expansion(kept, assignment, expands_braces):
        return replace(value, text=None, why=reason)
    return replace(value, text=value.text + "\r")


def _behind(pieces: tuple[Piece, ...], skip: int) -> tuple[tuple[Piece, ...], Style | None]:
    """The pieces behind `skip` characters; with a style if they stand inside the quotes of one piece."""
    for index, piece in enumerate(pieces):
        size = len(_piece_text(piece) or "") if piece.kind != "double" else _double_size(piece)
        if skip == 0:
            return pieces[index:], None
        if skip < size or (skip == size and piece.kind in ("double", "single", "ansi")):
            if piece.kind == "bare":
                rest = replace(piece, start=piece.start + skip, text=piece.text[skip:])
                return (rest, *pieces[index + 1 :]), None
            last = index == len(pieces) - 1
            if skip == size and not last:
                return pieces[index + 1 :], None
            if not last:
                return pieces[index:], "none"
            if piece.kind == "double":
                return _behind(piece.parts, skip)[0], "in-double"
            inner = Piece("bare", piece.start + 1 + skip, piece.end - 1, piece.text[skip:])
            if piece.kind == "single":
                return (inner,), "in-single"
            return (inner,), "none"
        skip -= size
    return (), None


def _double_size(piece: Piece) -> int:
    size = 0
    for part in piece.parts:
        text = _piece_text(part)
        if text is None:
            # Long enough: what is skipped always ends before the first expansion.
            return 1 << 30
        size += len(text)
    return size


def _plain(word: Word, pieces: tuple[Piece, ...], start: int, end: int, style: Style) -> Value:
    out: list[str] = []
    for piece in pieces:
        text = _piece_text(piece)
        if text is None:
            return Value(None, start, end, style, why=_the_value_is(word.source.text[start:end]))
        out.append(text)
    return Value(decode("".join(out)), start, end, style)


def _the_value_is(raw: str) -> str:
    text = decode(" ".join(raw[:200].split()))
    return f"the value is {text if len(text) <= 40 else text[:37] + '...'}"


def _style_of(source: Source, pieces: tuple[Piece, ...]) -> Style:
    if len(pieces) == 1 and pieces[0].kind in ("single", "double", "ansi"):
        piece = pieces[0]
        if piece.kind == "double" and source.text.startswith("$", piece.start):
            return "bare"
        return piece.kind  # type: ignore[return-value]
    # 'it'\''s' is one text in single quotes to a person, and is kept so.
    ends = len(pieces) > 1 and pieces[0].kind == "single" and pieces[-1].kind == "single"
    if ends and _SINGLE_IDIOM.fullmatch(source.text, pieces[0].start, pieces[-1].end):
        return "single"
    return "bare"


def _default(piece: Piece, *, quoted: bool) -> Value | None:
    """The default word of `${X:-d}` and its like, as the value."""
    if piece.kind != "param" or piece.op not in (":-", "-", ":=", "="):
        return None
    start = piece.end - 1
    parts = piece.parts
    if parts:
        start = parts[0].start
    texts = [_piece_text(part) for part in parts]
    style: Style = "in-default" if quoted else "bare"
    if len(parts) == 1 and parts[0].kind == "double":
        style = "double"
    elif len(parts) == 1 and parts[0].kind == "single" and not quoted:
        style = "single"
    elif any(part.kind in ("double", "ansi") for part in parts):
        style = "bare" if not quoted else "none"
    if None in texts:
        return Value(
            None, start, piece.end - 1, style, True, piece.text, piece.op, "the default is made of a variable"
        )
    text = "".join(text for text in texts if text is not None)
    if not quoted and parts and parts[0].kind == "bare" and text.startswith("~"):
        return Value(None, start, piece.end - 1, style, True, piece.text, piece.op, "a tilde is expanded")
    return Value(decode(text), start, piece.end - 1, style, True, piece.text, piece.op)


_BRACES = re.compile(r"\{.*(?:,|\.\.).*\}", re.DOTALL)


def _expansion(pieces: tuple[Piece, ...], assignment: bool, expands_braces: bool) -> str:
    """What in the bare text is expanded: a tilde, braces, or file names."""
    bare = "".join(piece.text if piece.kind in ("bare", "glob") else "x" for piece in pieces)
    if bare.startswith("~") or (assignment and ":~" in bare):
        return "a tilde is expanded"
    if expands_braces and "{" in bare and _BRACES.search(bare):
        return "braces are expanded"
    if not assignment and ("*" in bare or "?" in bare):
        return "file names are expanded"
    return ""


@cache
def _slot(style: Style, word: bool, split: bool, outer: Quoting) -> Slot:
    return Slot(style, word, split, outer=outer)


def slot_of(source: Source, value: Value, *, word: bool = False, split: bool = False) -> Slot:
    """How another value is written at the place of `value`."""
    quotings = source.quotings
    outer = quotings[0][1] if len(quotings) == 1 else source.quoting(value.start)
    return _slot(value.style, word, split, outer)
