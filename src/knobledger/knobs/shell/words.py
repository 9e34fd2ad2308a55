"""Scanning words: quotes, expansions and substitutions, as bash does it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from knobledger.knobs.shell.source import Source
from knobledger.knobs.shell.syntax import Piece, Word

if TYPE_CHECKING:
    from knobledger.knobs.shell.simple import SimpleParser

DEPTH = 40
"""How deep quotes, substitutions and compound commands may stand in each other before a reader gives up."""

_RUN = re.compile(r"[^ \t\n\\'\"`$;&|<>()]+")
_WORD_ENDS = frozenset(["", " ", "\n", "\t", ";", "|", ")"])
_QUOTED = re.compile(r"'[^']*+'|\"(?:[^\"\\$`]*+|\$(?:([A-Za-z_][A-Za-z0-9_]*+)))\"")
"""A quoted word without escapes, and with no expansion but one that it consists of."""
_DEFAULTED = re.compile(
    r"(\"?)\$\{([A-Za-z_][A-Za-z0-9_]*+)(?:(:?[-=+])([^\\'\"`$}]*+))?\}\1(?=[ \t\n;|)]|\Z)"
)
"""A word that is one variable in braces, in quotes or not, with a plain default or none."""
_BRACE_RUN = re.compile(r"[^\\'\"`$}]+")
_BRACE_QUOTED_RUN = re.compile(r"[^\\\"`$}]+")
_DOUBLE_RUN = re.compile(r"[^\\\"`$]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PARAM = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|([0-9@*#?$!-]))")
_BRACED = re.compile(r"\$\{([!#]?)([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-])")
_OPERAND = re.compile(r":?[-=+?]|##?|%%?|//?|\^\^?|,,?|@[A-Za-z]|:")
_ANSI = re.compile(
    r"\\(?:([abeEfnrtv\\'\"?])|x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|c(.))",
    re.DOTALL,
)
_ANSI_STRING = re.compile(r"\$'((?:[^'\\]++|\\.)*+)'", re.DOTALL)
_PARENTHESIS = re.compile(r"[()\n]")
_REACH = 4000
"""How far a closing `))` or `]` is looked for, in bytes: a bound on what hostile text can cost."""
_ANSI_CHARS = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))


class SyntaxFault(Exception):
    """The text is not shell, or is nested too deeply; `position` is where that was noticed."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


def ansi_text(body: str) -> str:
    """What `$'body'` stands for; text after an escaped NUL is dropped, as bash does."""

    def one(match: re.Match[str]) -> str:
        char, hexes, octal, short, long, control = match.groups()
        if char:
            return _ANSI_CHARS[char]
        if control:
            return chr(ord(control) & 0x1F)
        if hexes:
            return chr(int(hexes, 16))
        if octal:
            return chr(int(octal, 8) & 0xFF)
        try:
            return chr(int(short or long, 16)).encode("utf-8", "surrogatepass").decode("latin-1")
        except (ValueError, OverflowError):
            return match.group()

    return _ANSI.sub(one, body).partition("\0")[0]


def whole_piece(start: int, end: int, raw: str) -> tuple[Piece, ...]:
    """The pieces of a word that is one bare or one quoted text, without escapes and expansions."""
    if not raw:
        return ()
    if raw[0] == "'":
        return (Piece("single", start, end, raw[1:-1]),)
    if raw[0] == '"':
        parts = (Piece("bare", start + 1, end - 1, raw[1:-1]),) if len(raw) > 2 else ()
        return (Piece("double", start, end, "", parts),)
    return (Piece("bare", start, end, raw),)


class WordScanner:
    """Scans the words of one source. The parser that owns it reads the programs inside `$( )`."""

    def __init__(self, source: Source, parser: SimpleParser) -> None:
        self.source = source
        self.text = source.text
        self.parser = parser

    def word(self, start: int, depth: int) -> Word:
        """The word that begins at `start`; empty if an operator stands there."""
        self.parser.charge(1)
        # Most words are one bare run; the general way takes three times as long.
        run = _RUN.match(self.text, start)
        if run and self.text[run.end() : run.end() + 1] in _WORD_ENDS:
            return Word(self.source, start, run.end(), (Piece("bare", start, run.end(), run.group()),))
        if (quoted := _QUOTED.match(self.text, start)) and self.text[
            quoted.end() : quoted.end() + 1
        ] in _WORD_ENDS:
            end = quoted.end()
            if quoted[1] is None:
                return Word(self.source, start, end, whole_piece(start, end, quoted.group()))
            name = Piece("param", start + 1, end - 1, quoted[1])
            return Word(self.source, start, end, (Piece("double", start, end, parts=(name,)),))
        if depth < DEPTH - 2 and (braced := _DEFAULTED.match(self.text, start)):
            return self._defaulted(braced)
        pieces, end = self._unquoted(start, depth)
        return Word(self.source, start, end, tuple(pieces))

    def _defaulted(self, match: re.Match[str]) -> Word:
        """The word `${NAME}`, `${NAME:-plain}` or its like, or the same in double quotes."""
        start, end = match.span()
        quoted, name, op, plain = match.groups()
        self.parser.charge(2 if quoted else 1)
        inner = (Piece("bare", match.start(4), match.end(4), plain),) if plain else ()
        param = Piece("param", start + len(quoted), end - len(quoted), name, inner, op or "")
        piece = Piece("double", start, end, "", (param,)) if quoted else param
        return Word(self.source, start, end, (piece,))

    def _unquoted(self, start: int, depth: int) -> tuple[list[Piece], int]:
        text, at, size = self.text, start, len(self.text)
        pieces: list[Piece] = []
        while at < size:
            if run := _RUN.match(text, at):
                end = run.end()
                if text[end - 1] in "@?*+!" and text.startswith("(", end) and text[end + 1 : end + 2] != ")":
                    end = self._balanced(end)
                    pieces.append(Piece("glob", at, end, text[at:end]))
                else:
                    pieces.append(Piece("bare", at, end, run.group()))
                at = end
                continue
            char = text[at]
            if char == "\\":
                if text.startswith("\\\n", at):
                    if not pieces and at == start:
                        break
                    at += 2
                    continue
                if at + 1 >= size:
                    pieces.append(Piece("bare", at, at + 1, "\\"))
                    at += 1
                    continue
                pieces.append(Piece("escape", at, at + 2, text[at + 1]))
                at += 2
            elif char == "'":
                self.parser.charge(1)
                end = self._find("'", at + 1, "single quote")
                pieces.append(Piece("single", at, end + 1, text[at + 1 : end]))
                at = end + 1
            elif char in '"$`':
                piece = self._quoted_or_expanded(at, depth, quoted=False)
                pieces.append(piece)
                at = piece.end
            elif char in "<>" and text.startswith("(", at + 1):
                script, end = self.parser.nested_list(at + 2, ")", depth + 1)
                pieces.append(Piece("command", at, end + 1, script=script))
                at = end + 1
            else:
                break
        return pieces, at

    def _quoted_or_expanded(self, at: int, depth: int, *, quoted: bool) -> Piece:
        """The piece at a `"`, `$` or backtick; `quoted` inside double quotes."""
        if depth > DEPTH:
            raise SyntaxFault("nested too deeply", at)
        self.parser.charge(1)
        match self.text[at]:
            case '"':
                return self.double(at, depth + 1)
            case "`":
                return self._backticks(at, depth, quoted=quoted)
            case _:
                return self._dollar(at, depth, quoted=quoted)

    def double(self, start: int, depth: int) -> Piece:
        """A string in double quotes, from quote to quote."""
        text, at, size = self.text, start + 1, len(self.text)
        parts: list[Piece] = []
        while at < size:
            if run := _DOUBLE_RUN.match(text, at):
                parts.append(Piece("bare", at, run.end(), run.group()))
                at = run.end()
                continue
            char = text[at]
            if char == '"':
                return Piece("double", start, at + 1, parts=tuple(parts))
            if char == "\\":
                at = self._double_escape(at, parts)
            else:
                piece = self._quoted_or_expanded(at, depth, quoted=True)
                parts.append(piece)
                at = piece.end
        raise SyntaxFault("unterminated double quote", start)

    def _double_escape(self, at: int, parts: list[Piece], also: str = "") -> int:
        following = self.text[at + 1 : at + 2]
        if following == "\n":
            return at + 2
        if following and following in '$`"\\' + also:
            parts.append(Piece("escape", at, at + 2, following))
            return at + 2
        parts.append(Piece("bare", at, at + 1, "\\"))
        return at + 1

    def _dollar(self, at: int, depth: int, *, quoted: bool) -> Piece:
        text = self.text
        if match := _PARAM.match(text, at):
            name = match.group(1) or match.group(2)
            return Piece("param", at, match.end(), name, (), "@" if name in "@*" else "")
        following = text[at + 1 : at + 2]
        if following == "(":
            if text.startswith("((", at + 1) and (end := self._arithmetic_end(at + 3)):
                return Piece("arith", at, end, text[at:end])
            script, end = self.parser.nested_list(at + 2, ")", depth + 1)
            return Piece("command", at, end + 1, script=script)
        if following == "{":
            return self._braced(at, depth, quoted=quoted)
        if following == "[" and (end := text.find("]", at, at + _REACH)) > 0:
            return Piece("arith", at, end + 1, text[at : end + 1])
        if not quoted and following == "'":
            closed = _ANSI_STRING.match(text, at)
            if not closed:
                raise SyntaxFault("unterminated single quote", at)
            return Piece("ansi", at, closed.end(), ansi_text(closed.group(1)))
        if not quoted and following == '"':
            piece = self.double(at + 1, depth + 1)
            return replace(piece, start=at)
        return Piece("bare", at, at + 1, "$")

    def _braced(self, at: int, depth: int, *, quoted: bool) -> Piece:
        text = self.text
        match = _BRACED.match(text, at)
        if not match:
            raise SyntaxFault("unreadable expansion", at)
        indirect, name = match.groups()
        position = match.end()
        op = "?" if indirect else ""
        if text.startswith("[", position):
            close = self._find("]", position, "subscript")
            # ${A[@]} is all elements; another subscript is one that a reader can't tell.
            op = "@" if text[position + 1 : close] in ("@", "*") and not indirect else "?"
            position = close + 1
        elif name in "@*" and not indirect:
            op = "@"
        if text.startswith("}", position):
            return Piece("param", at, position + 1, name, op=op)
        operand = _OPERAND.match(text, position)
        if not operand:
            raise SyntaxFault("unreadable expansion", position)
        parts, end = self._operand(operand.end(), depth + 1, quoted=quoted)
        if operand.group() in (":-", "-", ":=", "=", ":+", "+") and op in ("", "@"):
            known = operand.group() if op == "" or operand.group().endswith("+") else "?"
        else:
            known = "?"
        return Piece("param", at, end + 1, name, tuple(parts), known)

    def _operand(self, start: int, depth: int, *, quoted: bool) -> tuple[list[Piece], int]:
        """The pieces up to the closing brace, and where that stands."""
        text, at, size = self.text, start, len(self.text)
        run = _BRACE_QUOTED_RUN if quoted else _BRACE_RUN
        parts: list[Piece] = []
        while at < size:
            if match := run.match(text, at):
                parts.append(Piece("bare", at, match.end(), match.group()))
                at = match.end()
                continue
            char = text[at]
            if char == "}":
                return parts, at
            if char == "\\":
                if quoted:
                    at = self._double_escape(at, parts, "}")
                elif text.startswith("\\\n", at):
                    at += 2
                else:
                    parts.append(Piece("escape", at, at + 2, text[at + 1 : at + 2]))
                    at += 2
            elif char == "'":
                end = self._find("'", at + 1, "single quote")
                parts.append(Piece("single", at, end + 1, text[at + 1 : end]))
                at = end + 1
            else:
                piece = self._quoted_or_expanded(at, depth, quoted=quoted)
                parts.append(piece)
                at = piece.end
        raise SyntaxFault("unterminated expansion", start)

    def _backticks(self, at: int, depth: int, *, quoted: bool) -> Piece:
        text, end = self.text, at + 1
        chars: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        special = '$`\\"' if quoted else "$`\\"
        while True:
            if end >= len(text):
                raise SyntaxFault("unterminated backtick", at)
            if text[end] == "`":
                break
            begin = end
            if text[end] == "\\" and text[end + 1 : end + 2] and text[end + 1] in special:
                end += 1
            chars.append(text[end])
            end += 1
            first, last = self.source.span(begin, end)
            starts.append(first)
            ends.append(last)
        inner = Source("".join(chars), starts, ends, ((0, "lost"),), self.source.file)
        script = self.parser.nested_source(inner, depth + 1)
        return Piece("command", at, end + 1, script=script, source=inner)

    def _find(self, char: str, start: int, what: str) -> int:
        end = self.text.find(char, start)
        if end < 0:
            raise SyntaxFault(f"unterminated {what}", start)
        return end

    def _arithmetic_end(self, start: int) -> int:
        """Behind the `))` that closes what was opened before `start`; 0 if there is none."""
        level = 2
        for match in _PARENTHESIS.finditer(self.text, start, start + _REACH):
            level += {"(": 1, ")": -1, "\n": 0}[match.group()]
            if level == 1 and not self.text.startswith("))", match.start()):
                return 0
            if level == 0:
                return match.end()
        return 0

    def _balanced(self, start: int) -> int:
        level = 0
        for match in _PARENTHESIS.finditer(self.text, start):
            level += {"(": 1, ")": -1, "\n": 0}[match.group()]
            if level == 0:
                return match.end()
        raise SyntaxFault("unterminated pattern", start)
