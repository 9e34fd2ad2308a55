"""The grammar: lists, pipelines, compound commands."""

from __future__ import annotations

import re

from knobledger.knobs.shell.simple import FUNCTION, SimpleParser
from knobledger.knobs.shell.source import Source
from knobledger.knobs.shell.syntax import (
    Assignment,
    Case,
    Command,
    Fault,
    Function,
    Group,
    Heredoc,
    If,
    Loop,
    Piece,
    Pipeline,
    Script,
    Simple,
    Statement,
    Test,
    Word,
)
from knobledger.knobs.shell.words import DEPTH, SyntaxFault, whole_piece

_ARITHMETIC_SET = re.compile(
    r"([A-Za-z_][A-Za-z0-9_]*)\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|([A-Za-z_]\w*)\s*(?:\+\+|--)"
    r"|(?:\+\+|--)\s*([A-Za-z_]\w*)"
)
_SETTING = re.compile(
    r"(export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)="
    r"([^ \t\n\\'\"`$;&|<>()]*+|'[^']*+'|\"[^\"\\$`]*+\")(?=[ \t]*+(?:\n|\Z)|[ \t]++#)"
)
"""A line that only sets a variable, to a value without expansions: the most frequent one by far."""
_ARM_END = re.compile(r";;&|;;|;&")
_CLOSERS = frozenset(["then", "elif", "else", "fi", "do", "done", "esac", "}"])
_RECOVERIES = 20
"""How many statements may be unreadable before the rest of a file is given up: a bound on hostile text."""


class Parser(SimpleParser):
    """Parses one source. Nested programs are parsed by the same parser, or by one of their own source."""

    def script(self) -> Script:
        """The whole text. A statement that can't be read becomes a fault, and reading goes on behind its line."""
        body: list[Statement] = []
        faults: list[Fault] = []
        while True:
            begin = self.at
            try:
                self._list(body, frozenset(), 0)
                if self.at >= len(self.text):
                    return Script(self.source, tuple(body), tuple(self.comments), tuple(faults))
                raise SyntaxFault(f"unexpected {self.text[self.at]!r}", self.at)
            except SyntaxFault as fault:
                start = max(begin, body[-1].end if body else 0)
                end = self.text.find("\n", max(fault.position, start))
                last = fault.message.startswith(("unterminated", "nested")) or len(faults) >= _RECOVERIES
                self.at = len(self.text) if last or end < 0 else end
                faults.append(Fault(start, self.at, fault.message))
                self._pending.clear()

    def nested_list(self, start: int, closer: str, depth: int) -> tuple[tuple[Statement, ...], int]:
        """The statements from `start` to a closing parenthesis, and where that stands."""
        body: list[Statement] = []
        self.at = start
        self._list(body, frozenset([closer]), depth)
        if not self.text.startswith(closer, self.at):
            raise SyntaxFault("unterminated substitution", start)
        return tuple(body), self.at

    def nested_source(self, source: Source, depth: int) -> tuple[Statement, ...]:
        """The statements of a text of its own (backticks)."""
        self.charge(5)
        parser = Parser(source, self.left)
        body: list[Statement] = []
        parser._list(body, frozenset(), depth)
        self.left = parser.left
        if parser.at < len(source.text):
            raise SyntaxFault("unreadable backticks", self.at)
        return tuple(body)

    def _list(self, body: list[Statement], closers: frozenset[str], depth: int) -> None:
        """Statements up to the end of the text, a closer, or a word that closes a compound command."""
        if depth > DEPTH:
            raise SyntaxFault("nested too deeply", self.at)
        text, size = self.text, len(self.text)
        while True:
            self._gap()
            if self.at >= size:
                if self._pending:
                    for redirect in self._pending:
                        redirect.heredoc.append(Heredoc(self.at, self.at, False))
                    self._pending.clear()
                return
            if quick := _SETTING.match(text, self.at):
                body.append(self._setting(quick))
                continue
            char = text[self.at]
            if char in ");" and (char == ")" or text.startswith((";;", ";&"), self.at)):
                if not closers:
                    raise SyntaxFault(f"unexpected {char!r}", self.at)
                return
            if char in "tedf}" and (word := self._reserved()) in _CLOSERS:
                if not closers:
                    raise SyntaxFault(f"unexpected {word!r}", self.at)
                return
            body.append(self._statement(depth))

    def _setting(self, match: re.Match[str]) -> Statement:
        """The statement that is a line `NAME=value` or `export NAME=value`, with a value without expansions."""
        self.charge(5)
        start, (begin, value_start), end = match.start(), (match.start(2), match.start(3)), match.end(3)
        source, text = self.source, match[3]
        value = Word(source, value_start, end, whole_piece(value_start, end, text))
        assignment = Assignment(match[2], begin, end, False, value)
        if match[1]:
            export = Word(source, start, start + 6, (Piece("bare", start, start + 6, "export"),))
            command = Simple(start, end, (), (export, assignment), (), source, False)
        else:
            command = Simple(start, end, (assignment,), (), (), source, False)
        self.at = end
        return Statement(start, end, (Pipeline(start, end, (command,)),), (), False)

    def _statement(self, depth: int) -> Statement:
        start = self.at
        first = self._pipeline(depth)
        if self.text.startswith("\n", self.at):
            # Most statements are one command that ends with its line.
            return Statement(start, first.end, (first,), (), False)
        pipelines = [first]
        ops: list[str] = []
        while True:
            self._blanks()
            op = self.text[self.at : self.at + 2]
            if op not in ("&&", "||"):
                break
            self.at += 2
            ops.append(op)
            self._gap()
            pipelines.append(self._pipeline(depth))
        end = pipelines[-1].end
        background = False
        self._blanks()
        if self.text.startswith("&", self.at) and not self.text.startswith("&&", self.at):
            background = True
            self.at += 1
        elif self.text.startswith(";", self.at) and self.text[self.at : self.at + 2] not in (";;", ";&"):
            self.at += 1
        elif self.at < len(self.text) and self.text[self.at] not in "\n#)" and self.text[self.at] != ";":
            raise SyntaxFault(f"unexpected {self.text[self.at]!r}", self.at)
        return Statement(start, end, tuple(pipelines), tuple(ops), background)

    def _pipeline(self, depth: int) -> Pipeline:
        start = self.at
        while self.text.startswith(("!", "time"), self.at) and (word := self._reserved()) in ("!", "time"):
            self.at += len(word)
            self._blanks()
            if self.text.startswith("-p ", self.at):
                self.at += 3
                self._blanks()
        first = self._command(depth)
        if self.text.startswith("\n", self.at):
            return Pipeline(start, first.end, (first,))
        commands = [first]
        while True:
            self._blanks()
            if not self.text.startswith("|", self.at) or self.text.startswith("||", self.at):
                break
            self.at += 2 if self.text.startswith("|&", self.at) else 1
            self._gap()
            commands.append(self._command(depth))
        return Pipeline(start, commands[-1].end, tuple(commands))

    def _command(self, depth: int) -> Command:
        self.charge(3)
        if depth > DEPTH:
            raise SyntaxFault("nested too deeply", self.at)
        start = self.at
        if self.text.startswith("((", start) and (end := self.words._arithmetic_end(start + 2)):
            self.at = end
            self._redirects(depth)
            return Test(start, self.at, set_by(self.text[start:end]))
        if self.text.startswith("(", start):
            body, end = self.nested_list(start + 1, ")", depth + 1)
            if not body:
                raise SyntaxFault("empty subshell", start)
            self.at = end + 1
            redirects = self._redirects(depth)
            return Group(start, self.at, body, True, redirects)
        match self._reserved():
            case "{":
                self.at += 1
                body = self._body("}", depth)
                redirects = self._redirects(depth)
                return Group(start, self.at, body, False, redirects)
            case "if":
                return self._if(start, depth)
            case "while" | "until" as word:
                self.at += len(word)
                test = self._body("do", depth)
                body = self._body("done", depth)
                redirects = self._redirects(depth)
                return Loop(start, self.at, "", (), test, body, redirects, word)
            case "for" | "select" as word:
                self.at += len(word)
                return self._for(start, depth, word)
            case "case":
                return self._case(start, depth)
            case "function":
                self.at += len("function")
                self._blanks()
                name = self.words.word(self.at, depth)
                self.at = name.end
                if parentheses := FUNCTION.match(self.text, self.at):
                    self.at = parentheses.end()
                return self._function(start, self.text[name.start : name.end], depth)
            case "[[":
                return self._test(start, depth)
            case "coproc":
                self.at += len("coproc")
                self._blanks()
                return Group(start, self.at, (_alone(self._command(depth + 1)),), True)
            case "" | "in":
                return self._simple(depth)
            case word:
                raise SyntaxFault(f"unexpected {word!r}", start)

    def _body(self, closer: str, depth: int) -> tuple[Statement, ...]:
        """Statements up to the reserved word `closer`, and over it. Empty ones are a fault, as in bash."""
        start = self.at
        body: list[Statement] = []
        self._list(body, frozenset([closer]), depth + 1)
        if self._reserved() != closer or not body:
            what = "unterminated compound command" if self.at >= len(self.text) else f"expected {closer!r}"
            raise SyntaxFault(what, start)
        self.at += len(closer)
        return tuple(body)

    def _if(self, start: int, depth: int) -> If:
        tests: list[tuple[Statement, ...]] = []
        arms: list[tuple[Statement, ...]] = []
        self.at += len("if")
        while True:
            tests.append(self._body("then", depth))
            body: list[Statement] = []
            self._list(body, frozenset(["fi"]), depth + 1)
            word = self._reserved()
            if not body or word not in ("elif", "else", "fi"):
                what = "unterminated compound command" if self.at >= len(self.text) else "expected 'fi'"
                raise SyntaxFault(what, start)
            arms.append(tuple(body))
            self.at += len(word)
            if word == "else":
                arms.append(self._body("fi", depth))
            if word != "elif":
                break
        self._redirects(depth)
        return If(start, self.at, tuple(tests), tuple(arms))

    def _for(self, start: int, depth: int, keyword: str) -> Loop:
        self._blanks()
        name, words = "", []
        test: tuple[Statement, ...] = ()
        if self.text.startswith("((", self.at):
            end = self.words._arithmetic_end(self.at + 2)
            if not end:
                raise SyntaxFault("unterminated for", start)
            test = (_alone(Test(self.at, end, set_by(self.text[self.at : end]))),)
            self.at = end
        else:
            variable = self.words.word(self.at, depth)
            name = self.text[variable.start : variable.end]
            self.at = variable.end
            self._gap()
            if self._reserved() == "in":
                self.at += 2
                while True:
                    self._blanks()
                    word = self.words.word(self.at, depth)
                    if word.end == self.at:
                        break
                    words.append(word)
                    self.at = word.end
        self._blanks()
        if self.text.startswith(";", self.at):
            self.at += 1
        self._gap()
        if self._reserved() == "{":
            self.at += 1
            body = self._body("}", depth)
        elif self._reserved() == "do":
            self.at += 2
            body = self._body("done", depth)
        else:
            raise SyntaxFault("expected 'do'", self.at)
        redirects = self._redirects(depth)
        return Loop(start, self.at, name, tuple(words), test, body, redirects, keyword)

    def _case(self, start: int, depth: int) -> Case:
        self.at += len("case")
        self._blanks()
        self.at = self.words.word(self.at, depth).end
        self._gap()
        if self._reserved() != "in":
            raise SyntaxFault("expected 'in'", self.at)
        self.at += 2
        arms: list[tuple[Statement, ...]] = []
        total = False
        while True:
            self._gap()
            if self._reserved() == "esac":
                self.at += len("esac")
                break
            if self.text.startswith("(", self.at):
                self.at += 1
            patterns = []
            while True:
                self._blanks()
                pattern = self.words.word(self.at, depth)
                if pattern.end == self.at:
                    what = "unterminated case" if self.at >= len(self.text) else "expected a pattern"
                    raise SyntaxFault(what, self.at)
                patterns.append(self.text[pattern.start : pattern.end])
                self.at = pattern.end
                self._blanks()
                if not self.text.startswith("|", self.at):
                    break
                self.at += 1
            if not self.text.startswith(")", self.at):
                raise SyntaxFault("expected ')'", self.at)
            self.at += 1
            body: list[Statement] = []
            self._list(body, frozenset(["esac"]), depth + 1)
            arms.append(tuple(body))
            total = total or "*" in patterns
            ending = _ARM_END.match(self.text, self.at)
            if ending:
                self.at = ending.end()
            elif self._reserved() != "esac":
                raise SyntaxFault("unterminated case", start)
        self._redirects(depth)
        return Case(start, self.at, tuple(arms), total)

    def _function(self, start: int, name: str, depth: int) -> Function:
        self._gap()
        command = self._command(depth + 1)
        if isinstance(command, Simple):
            raise SyntaxFault("expected a function's body", command.start)
        body: tuple[Statement, ...]
        if isinstance(command, Group) and not command.subshell:
            body = command.body
        else:
            body = (_alone(command),)
        return Function(start, self.at, name, body, self.source)

    def _test(self, start: int, depth: int) -> Test:
        self.at += 2
        words = []
        while True:
            self._gap()
            if self.at >= len(self.text):
                raise SyntaxFault("unterminated [[", start)
            word = self.words.word(self.at, depth)
            if word.end == self.at:
                self.at += 1
                continue
            self.at = word.end
            if self.text[word.start : word.end] == "]]":
                break
            words.append(word)
        self._redirects(depth)
        return Test(start, self.at, (), tuple(words))


def _alone(command: Command) -> Statement:
    """The statement that is one command."""
    start, end = command.start, command.end
    return Statement(start, end, (Pipeline(start, end, (command,)),), (), False)


def set_by(sums: str) -> tuple[str, ...]:
    """The variables that arithmetic assigns."""
    return tuple("".join(names) for names in _ARITHMETIC_SET.findall(sums))


def parse_within(source: Source, work: int) -> tuple[Script, int]:
    """The syntax tree, and what is left of the work that reading it may be."""
    parser = Parser(source, work)
    return parser.script(), parser.left


def parse(source: Source) -> Script:
    """The syntax tree of a program. Faulty text becomes a `Fault`, never an exception."""
    return Parser(source).script()
