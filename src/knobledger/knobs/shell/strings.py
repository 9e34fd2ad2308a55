"""Strings built by a script: their known characters, mapped to the file, and the words they split into."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec.structs import replace

from knobledger.knobs.shell.source import Quoting, Source
from knobledger.knobs.shell.state import PARTS, Arg, Break, Elements, Hole, Part, State, Text, Variable
from knobledger.knobs.shell.syntax import Piece, Word
from knobledger.knobs.shell.values import is_plain

_ARGUMENTS = re.compile(r"arg|opt|flag|extra|[@*]", re.IGNORECASE)
_TOKEN = re.compile(r"[^ \t\n]+")
_UNKNOWN = "$__"


def parts_of(word: Word, state: State) -> tuple[Part, ...]:
    """The stretches of the string that the word stands for, as one string."""
    out: list[Part] = []
    for piece in word.pieces:
        if piece.kind == "double":
            for part in piece.parts:
                out.extend(_piece(word.source, part, "double", state, leading=not out))
        else:
            out.extend(_piece(word.source, piece, "bare", state, leading=not out))
    return tuple(out) if len(out) <= PARTS else (Hole(),)


def _piece(source: Source, piece: Piece, around: Quoting, state: State, *, leading: bool) -> tuple[Part, ...]:
    if source.starts is not None:
        around = "lost"
    match piece.kind:
        case "bare" | "glob":
            return (Text(mapped(source, piece.text, piece.start, around)),)
        case "escape":
            first, last = source.span(piece.start, piece.end)
            return (Text(Source(piece.text, (first,), (last,), ((0, around),), source.file)),)
        case "single":
            around = "lost" if around == "lost" else "single"
            return (Text(mapped(source, piece.text, piece.start + 1, around)),)
        case "ansi":
            around = "lost" if around == "lost" else "ansi"
            if len(piece.text) == piece.end - piece.start - 3:
                return (Text(mapped(source, piece.text, piece.start + 2, around)),)
            first, last = source.span(piece.start, piece.end)
            size = len(piece.text)
            return (Text(Source(piece.text, (first,) * size, (last,) * size, ((0, "lost"),), source.file)),)
        case "param" if piece.op == "" and not piece.parts:
            variable = state.get(piece.text)
            if len(variable.parts) > PARTS or any(isinstance(part, Elements) for part in variable.parts):
                return (Hole(),)
            if variable.inherited and not _ARGUMENTS.search(piece.text):
                return (Hole(value=_expansion(source, piece)),)
            if leading or _is_words(variable):
                return variable.parts
            return (Hole(value=_expansion(source, piece)),)
        case _:
            return (Hole(value=None if _ARGUMENTS.search(piece.text) else _expansion(source, piece)),)


def _expansion(source: Source, piece: Piece) -> Word:
    return Word(source, piece.start, piece.end, (replace(piece, kind="param", op="?", parts=(), script=()),))


def _is_words(variable: Variable) -> bool:
    """Whether a variable holds words of a command, and not one value."""
    text = "".join(part.source.text for part in variable.parts if isinstance(part, Text))
    return not text or text[0] in "- \t\n" or any(char in " \t\n" for char in text)


def mapped(source: Source, text: str, start: int, quoting: Quoting = "bare") -> Source:
    """The characters of `source` that are `text`, from `start` on, as a string of its own."""
    if source.starts is not None and quoting == "bare":
        quoting = "lost"
    end = start + len(text)
    starts = range(start, end) if source.starts is None else source.starts[start:end]
    ends = range(start + 1, end + 1) if source.ends is None else source.ends[start:end]
    return Source(text, starts, ends, ((0, quoting),), source.file)


def as_source(parts: tuple[Part, ...]) -> Source:
    """A string as a program's text; what is unknown stands as an expansion of nothing known."""
    text: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    quotings: list[tuple[int, Quoting]] = []
    size = 0
    file = None
    last = 0
    if any(isinstance(part, Break) for part in parts):
        parts = (Hole(),)
    for part in parts:
        if isinstance(part, Text) and part.source.starts is not None and part.source.ends is not None:
            quotings.append((size, part.source.quotings[0][1]))
            text.append(part.source.text)
            starts.extend(part.source.starts)
            ends.extend(part.source.ends)
            size += len(part.source.text)
            file = part.source.file or file
            last = ends[-1] if ends else last
        else:
            quotings.append((size, "lost"))
            text.append(_UNKNOWN)
            value = part.value if isinstance(part, Hole) else None
            begin, end = value.source.span(value.start, value.end) if value is not None else (last, last)
            starts.extend([begin] * len(_UNKNOWN))
            ends.extend([end] * len(_UNKNOWN))
            size += len(_UNKNOWN)
    return Source("".join(text), starts, ends, tuple(quotings) or ((0, "lost"),), file)


def split(parts: tuple[Part, ...]) -> list[Arg]:
    """The arguments that an unquoted expansion of the string becomes: split at blanks, no quotes taken off."""
    args: list[Arg] = []
    open_word: Word | None = None
    origin: Part = Hole()

    def close() -> None:
        nonlocal open_word
        if open_word is not None:
            alone = isinstance(origin, Hole) and origin.value is None
            alone = alone and len(open_word.pieces) == 1
            scope, path = (origin.scope, origin.path) if isinstance(origin, Text) else (None, ())
            args.append(Arg(None if alone else open_word, origin.guarded, True, scope, path))
            open_word = None

    for part in parts:
        if isinstance(part, Break):
            close()
        elif isinstance(part, Text):
            source = part.source
            text = source.text
            for match in _TOKEN.finditer(text):
                if match.start() > 0 or text[:1] in (" ", "\t", "\n"):
                    close()
                piece = Piece("bare", match.start(), match.end(), match.group())
                if open_word is None:
                    open_word, origin = Word(source, match.start(), match.end(), (piece,)), part
                else:
                    open_word = _glued(open_word)
                if match.end() < len(text):
                    close()
            if text and not text.strip(" \t\n"):
                close()
        else:
            value = part.value if isinstance(part, Hole) else None
            unknown = Word(Source(""), 0, 0, (Piece("param", 0, 0, "?", op="?"),))
            if open_word is None:
                open_word, origin = value or unknown, part
            else:
                open_word = _glued(open_word)
    close()
    return args


def _glued(word: Word) -> Word:
    """The word with something unknown, or from elsewhere, behind it."""
    return replace(word, pieces=(*word.pieces, Piece("param", word.end, word.end, "?", op="?")))


def names_in(pieces: tuple[Piece, ...]) -> set[str]:
    """The parameters that a word expands, those inside operands and quotes included."""
    found: set[str] = set()
    todo = list(pieces)
    while todo:
        piece = todo.pop()
        if piece.kind == "param":
            found.add(piece.text)
        todo.extend(piece.parts)
    return found


def names_of(words: Iterable[Word]) -> set[str]:
    """The parameters that the words expand."""
    return {name for word in words if not is_plain(word) for name in names_in(word.pieces)}


def operand_words(source: Source, parts: tuple[Piece, ...]) -> list[Word]:
    """The words that the operand of an unquoted `${X:+...}` becomes: split at its bare blanks."""
    words: list[Word] = []
    pieces: list[Piece] = []

    def close() -> None:
        if pieces:
            words.append(Word(source, pieces[0].start, pieces[-1].end, tuple(pieces)))
            pieces.clear()

    for piece in parts:
        if piece.kind != "bare":
            pieces.append(piece)
            continue
        at = 0
        for match in _TOKEN.finditer(piece.text):
            if match.start() > at or (match.start() == at == 0 and piece.text[:1].isspace()):
                close()
            start = piece.start + match.start()
            pieces.append(Piece("bare", start, start + len(match.group()), match.group()))
            at = match.end()
            if at < len(piece.text):
                close()
        if piece.text.isspace():
            close()
    close()
    return words
