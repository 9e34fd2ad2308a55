"""Simple commands: expansion of their words, builtins, nested programs, and launches."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from knobledger.knobs.occurrence import Dialect, Scope
from knobledger.knobs.shell.assign import Assigner
from knobledger.knobs.shell.frame import Frame
from knobledger.knobs.shell.heredocs import foreign_sites
from knobledger.knobs.shell.launches import Candidate, rank_of
from knobledger.knobs.shell.parse import DECLARERS
from knobledger.knobs.shell.source import Source, decode
from knobledger.knobs.shell.state import Arg, Elements, Hole, Part, State, Text, Variable
from knobledger.knobs.shell.strings import as_source, names_in, operand_words, parts_of, split
from knobledger.knobs.shell.syntax import Assignment, Function, Heredoc, Piece, Simple, Statement, Word
from knobledger.knobs.shell.values import Value, literal_text, prefix_text, slot_of, value_of
from knobledger.knobs.shell.wrappers import Setting, Unwrapped, base_name, text_of, unwrap
from knobledger.knobs.site import Choice, Site
from knobledger.knobs.slot import Slot

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHELLS = frozenset(["bash", "sh", "dash", "zsh", "ksh", "ash"])
_SETTERS = frozenset(["read", "mapfile", "readarray", "getopts", "let"])


class Commands(Assigner):
    """Follows simple commands."""

    def __init__(self, dialect: Dialect, sources: Mapping[str, bytes]) -> None:
        super().__init__(dialect, sources)
        self.functions: dict[str, Function] = {}

    def statements(self, body: tuple[Statement, ...], state: State, frame: Frame) -> None:
        """See Walker."""
        raise NotImplementedError

    def call(self, name: str, arguments: tuple[Arg, ...], state: State, frame: Frame) -> bool:
        """See Walker."""
        raise NotImplementedError

    def program(self, source: Source, state: State, frame: Frame) -> None:
        """See Walker."""
        raise NotImplementedError

    # Words

    def arguments(self, words: Sequence[Word], state: State, frame: Frame) -> list[Arg]:
        """The arguments that words become when they are expanded."""
        args: list[Arg] = []
        for word in words:
            pieces = word.pieces
            if len(pieces) != 1:
                if not all(piece.kind == "command" and not piece.script for piece in pieces):
                    args.append(Arg(word))
                continue
            piece, quoted = pieces[0], False
            if piece.kind == "double" and len(piece.parts) == 1:
                piece, quoted = piece.parts[0], True
            if piece.kind == "command" and not piece.script and not quoted:
                continue
            if piece.kind == "param":
                args.extend(self._parameter(word, piece, quoted, state, frame))
            else:
                args.append(Arg(word))
        return args

    def _parameter(self, word: Word, piece: Piece, quoted: bool, state: State, frame: Frame) -> list[Arg]:
        if piece.op == "@":
            return self._all_of("@" if piece.text == "*" else piece.text, state)
        if piece.op in (":+", "+"):
            return self._alternative(word, piece, quoted, state, frame)
        if piece.op == "" and not quoted:
            variable = state.get(piece.text)
            if any(isinstance(part, Elements) for part in variable.parts):
                return [Arg(word)]
            args = split(variable.parts)
            if not args and not variable.inherited:
                return []
            plain = (
                len(args) == 1 and args[0].word is not None and not prefix_text(args[0].word).startswith("-")
            )
            if plain or all(arg.word is None for arg in args):
                return [Arg(word)]
            return args
        return [Arg(word)]

    def _all_of(self, name: str, state: State) -> list[Arg]:
        variable = state.get(name)
        args: list[Arg] = []
        for part in variable.parts:
            if isinstance(part, Elements):
                args.extend(arg._replace(guarded=arg.guarded or part.guarded) for arg in part.args)
            else:
                args.append(Arg(None, part.guarded))
        return args

    def _alternative(self, word: Word, piece: Piece, quoted: bool, state: State, frame: Frame) -> list[Arg]:
        """`${X:+words}`: the words, if X is set."""
        if quoted:
            return [Arg(word)]
        words = operand_words(word.source, piece.parts)
        args = self.arguments(words, state, frame)
        variable = state.get(piece.text)
        if not variable.inherited and any(isinstance(part, Elements) for part in variable.parts):
            # ${A[@]+"${A[@]}"} only keeps old shells quiet about an empty array.
            return args
        path = (*frame.path, self.mark(piece))
        return [
            arg._replace(guarded=True)
            if arg.scope is not None
            else arg._replace(guarded=True, scope=Scope.CONDITIONAL, path=path)
            for arg in args
        ]

    def substitutions(self, word: Word, state: State, frame: Frame) -> None:
        """Follow the commands inside `$( )` and backticks, which change nothing outside."""
        todo = list(word.pieces)
        while todo:
            piece = todo.pop(0)
            todo.extend(piece.parts)
            if piece.script:
                inner = replace(frame, scope=Scope.SUBSHELL, background=False, pipeline=False)
                outer, self.source = self.source, piece.source or word.source
                self.statements(piece.script, state.copy(), inner)
                self.source = outer

    def names_used(self, args: Sequence[Arg], words: Sequence[Word], state: State) -> list[str]:
        """The variables that the words expand, and those that these are made of."""
        todo = sorted({name for word in words for name in names_in(word.pieces)})
        todo += sorted({name for arg in args if arg.word for name in names_in(arg.word.pieces)})
        found: dict[str, None] = {}
        while todo:
            name = todo.pop()
            if name not in found:
                found[name] = None
                todo.extend(sorted(state.get(name).reads))
        return list(found)

    # Simple commands

    def simple(self, node: Simple, state: State, frame: Frame) -> None:
        """Follow one simple command."""
        statement = node.source.span(node.start, node.end)
        for assignment in node.assignments:
            for word in assignment.array or (assignment.value,):
                self.substitutions(word, state, frame)
        for item in node.words:
            for word in (item.array or (item.value,)) if isinstance(item, Assignment) else (item,):
                self.substitutions(word, state, frame)
        if not node.words:
            alone = len(node.assignments) == 1 and not node.redirects
            for index, assignment in enumerate(node.assignments):
                self.assign(assignment, state, frame, statement=statement, head=index == 0, alone=alone)
            return
        first = node.words[0]
        command = literal_text(first) if isinstance(first, Word) else None
        if command in DECLARERS:
            self.declare(node, command, state, frame)
            return
        words = [word for word in node.words if isinstance(word, Word)]
        for word in words:
            alone = command == ":" and len(words) == 2 and not node.redirects and not node.assignments
            self.defaults(word, state, frame, statement, alone)
        overlay = self._prefixes(node, frame, statement)
        args = self.arguments(words, state, frame)
        if not args:
            return
        unwrapped = unwrap(args)
        name = base_name(unwrapped.args[0]) if unwrapped.args else ""
        if self._builtin(name, unwrapped, node, words, state, frame):
            return
        for redirect in node.redirects:
            for heredoc in redirect.heredoc:
                self.heredoc(node.source, heredoc, node, frame)
        if name and not unwrapped.wrappers:
            before = {key: state.get(key) for key in overlay}
            for key, site in overlay.items():
                state.variables[key] = Variable((site,), "yes", (Hole(),), inherited=False)
            called = self.call(name, tuple(unwrapped.args[1:]), state, frame)
            state.variables.update(before)
            if called:
                return
        self._program(node, words, unwrapped, overlay, state, frame)
        if unwrapped.execs and unwrapped.args:
            state.dead = True

    def _prefixes(self, node: Simple, frame: Frame, statement: tuple[int, int]) -> dict[str, Site]:
        """The assignments before a command, which only that command sees."""
        overlay: dict[str, Site] = {}
        for index, assignment in enumerate(node.assignments):
            if assignment.array is not None or assignment.subscript:
                continue
            source = assignment.value.source
            value = value_of(assignment.value, assignment=True, expands_braces=False)
            dynamic = value.text is None or assignment.append
            why = value.why or "it adds to what was there"
            overlay[assignment.name] = self.site(
                Site(
                    assignment.name,
                    "env",
                    None if dynamic else value.text,
                    source.span(value.start, value.end),
                    source.span(assignment.start, assignment.end),
                    slot_of(source, value),
                    frame.scope or Scope.COMMAND,
                    "prefix",
                    statement,
                    head=index == 0,
                    alone=False,
                    dynamic=dynamic,
                    overridable=value.overridable,
                    depends=frame.depends,
                    file=source.file,
                    path=frame.path,
                    why_dynamic=why if dynamic else "",
                )
            )
        return overlay

    def _builtin(
        self, name: str, unwrapped: Unwrapped, node: Simple, words: list[Word], state: State, frame: Frame
    ) -> bool:
        """Follow a builtin that matters; False if it is none."""
        args = unwrapped.args[1:]
        line = self.line(node.source, node.start)
        match name:
            case "unset":
                for arg in args:
                    text = text_of(arg)
                    if text and _NAME.fullmatch(text):
                        self.unset(text, state, f"unset on line {line}")
            case "set":
                self._set(args, node, state, frame)
            case "shift":
                state.variables["@"] = Variable((), "no", (Hole(),), inherited=False)
            case "read" | "mapfile" | "readarray" | "getopts" | "let":
                for arg in args:
                    text = (text_of(arg) or "").partition("=")[0]
                    if _NAME.fullmatch(text):
                        self.disturb(text, state, f"{name} gives it a value on line {line}")
            case "printf" if args and text_of(args[0]) == "-v" and len(args) > 1:
                self.disturb(text_of(args[1]) or "", state, f"printf gives it a value on line {line}")
            case "source" | ".":
                self._source(args, line, state, frame)
            case "eval":
                self._eval(words, state, frame)
            case "exit":
                state.dead = True
            case "return" if not frame.calls:
                state.dead = True
            case _:
                return False
        return True

    def _set(self, args: list[Arg], node: Simple, state: State, frame: Frame) -> None:
        at = 0
        while at < len(args):
            text = text_of(args[at])
            if text is None or not text.startswith(("-", "+")) or text == "-":
                break
            at += 1
            if text == "--":
                break
            if text in ("-o", "+o") and at < len(args):
                if text_of(args[at]) == "allexport":
                    state.allexport = "yes" if text == "-o" else "no"
                at += 1
            elif "a" in text[1:] and not text.startswith("--"):
                state.allexport = "yes" if text.startswith("-") else "no"
        else:
            if not any(text_of(arg) == "--" for arg in args):
                return
        statement = node.source.span(node.start, node.end)
        scope = self.scope_here(frame, False)
        elements = tuple(
            arg if arg.scope is not None else arg._replace(scope=scope, path=frame.path) for arg in args[at:]
        )
        self.flag_sites(elements, frame, scope, "set", statement)
        state.variables["@"] = Variable((), "no", (Elements(elements),), inherited=False)

    def _source(self, args: list[Arg], line: int, state: State, frame: Frame) -> None:
        path = text_of(args[0]) if args else None
        key = self.find_source(path)
        if key is None:
            shown = path if path is not None else "a file whose name is not told"
            self.note(line, f"{shown!r} is read here and may set any name; it was not given")
            return
        if frame.sources >= 4:
            return
        self.program(
            Source(self.sources[key].decode("latin-1"), file=key),
            state,
            replace(frame, sources=frame.sources + 1),
        )

    def find_source(self, path: str | None) -> str | None:
        """The key of a side file that a script names as `path`."""
        if path is None:
            return None
        if path in self.sources:
            return path
        plain = path.removeprefix("./")
        for key in self.sources:
            if key.removeprefix("./") == plain:
                return key
        ending = path.rpartition("/")[2]
        return ending if ending in self.sources else None

    def _eval(self, words: list[Word], state: State, frame: Frame) -> None:
        parts = self._joined(words[1:], state)
        names = frozenset(self.names_used([], words[1:], state))
        scope = frame.scope
        if names and scope is None:
            scope = Scope.SHELL
        self.program(
            as_source(parts),
            state,
            replace(frame, scope=scope, nested=frame.nested + 1, uses=frame.uses | names),
        )

    def _joined(self, words: Sequence[Word], state: State) -> tuple[Part, ...]:
        parts: list[Part] = []
        for index, word in enumerate(words):
            if index:
                at = word.source.span(word.start, word.start)[0]
                parts.append(Text(Source(" ", (at - 1,), (at,), ((0, "lost"),))))
            parts.extend(parts_of(word, state))
        return tuple(parts)

    # Programs

    def environment(
        self, unwrapped: Unwrapped, overlay: dict[str, Site], state: State, frame: Frame
    ) -> tuple[dict[str, tuple[Choice, ...]], dict[str, str]]:
        """What may decide each name in the environment of a command, and why some names are not in it."""
        seen: dict[str, tuple[Choice, ...]] = {}
        hidden: dict[str, str] = {}
        for name, variable in state.variables.items():
            if variable.exported == "no":
                if any(choice is not None for choice in variable.choices) or variable.unset:
                    hidden[name] = variable.unset or "not exported: the launch does not see it"
                continue
            choices = variable.choices
            if variable.exported == "maybe" and None not in choices:
                choices = (*choices, None)
            if any(choice is not None for choice in choices):
                seen[name] = choices
            if variable.unset:
                hidden[name] = variable.unset
        seen.update({name: (site,) for name, site in overlay.items()})
        if unwrapped.cleared:
            who = unwrapped.wrappers[-1] if unwrapped.wrappers else "the command"
            for name in list(seen):
                if name not in unwrapped.handed:
                    hidden[name] = f"the launch does not see it: {who} does not hand it on"
                    del seen[name]
        for name in unwrapped.removed:
            seen.pop(name, None)
            hidden[name] = "the launch does not see it: env -u takes it away"
        for path in unwrapped.env_files:
            key = self.find_source(path)
            if key is not None:
                for site in foreign_sites(self.sources[key], key):
                    seen[site.name] = (self.site(site),)
        for setting in unwrapped.settings:
            seen[setting.name] = (self._setting(setting, frame),)
        return seen, hidden

    def _setting(self, setting: Setting, frame: Frame) -> Site:
        """The site of `NAME=value` among a wrapper's words."""
        word = setting.arg.word
        assert word is not None
        source = word.source
        begins = setting.begins.word or word
        value = value_of(word, setting.skip, assignment=False, expands_braces=True)
        comma = setting.stop is not None
        if setting.stop is not None:
            value = self._slice(word, setting.skip, setting.stop)
        slot = slot_of(source, value, split=setting.arg.split)
        if comma:
            slot = replace(slot, comma=True)
        whole = (source.span(begins.start, begins.end)[0], source.span(word.start, word.end)[1])
        return self.site(
            Site(
                setting.name,
                "env",
                value.text,
                source.span(value.start, value.end),
                source.span(value.start, value.end) if comma else whole,
                slot,
                setting.arg.scope or frame.scope or Scope.COMMAND,
                setting.form,
                source.span(word.start, word.end),
                alone=False,
                dynamic=value.text is None,
                overridable=value.overridable,
                depends=frame.depends,
                file=source.file,
                path=frame.path,
                why_dynamic=value.why,
            )
        )

    def _slice(self, word: Word, start: int, stop: int) -> Value:
        """One value among several that commas part, in a word of one piece."""
        if len(word.pieces) == 1 and word.pieces[0].kind in ("bare", "single"):
            piece = word.pieces[0]
            inner = piece.start + (piece.kind == "single")
            style = "bare" if piece.kind == "bare" else "in-single"
        elif (
            len(word.pieces) == 1
            and len(word.pieces[0].parts) == 1
            and word.pieces[0].parts[0].kind == "bare"
        ):
            piece, style = word.pieces[0].parts[0], "in-double"
            inner = piece.start
        else:
            return Value(None, word.start, word.end, "none", why="the list is made of several pieces")
        return Value(decode(piece.text[start:stop]), inner + start, inner + stop, style)  # type: ignore[arg-type]

    def _program(
        self,
        node: Simple,
        words: list[Word],
        unwrapped: Unwrapped,
        overlay: dict[str, Site],
        state: State,
        frame: Frame,
    ) -> None:
        """Follow a program: one that reads another text as a script, or one that may be the launch."""
        source = node.source
        if unwrapped.remote is not None:
            self.environment(unwrapped, overlay, state, frame)
            self._remote(unwrapped.remote, state, frame)
            return
        if unwrapped.args and (text_of(unwrapped.args[0]) or "").startswith("--"):
            reason = "dead: the command before it ended, and this is a command of its own"
            for _, site in self.flag_sites(
                unwrapped.args, frame, Scope.COMMAND, "flag", source.span(node.start, node.end)
            ):
                site.lost = reason
            return
        seen, hidden = self.environment(unwrapped, overlay, state, frame)
        reads = bool(unwrapped.args) and base_name(unwrapped.args[0]) in _SHELLS
        if reads and self._shell(node, unwrapped, seen, state, frame):
            return
        rank = rank_of(unwrapped, background=frame.background, functions=self.functions)
        if not rank:
            return
        begin = (
            unwrapped.args[0].word if unwrapped.args else unwrapped.image.word if unwrapped.image else None
        )
        position = source.span(node.start, node.end)[0]
        if begin is not None and begin.source is source and not unwrapped.wrappers and not overlay:
            position = source.span(begin.start, begin.end)[0]
        candidate = self.candidates.get((source.file, position))
        if candidate is None:
            candidate = Candidate(
                position,
                _label(unwrapped, words),
                rank,
                frame.called,
                frame.path,
                (frame.scope or Scope.COMMAND).value,
                node,
                cleared=unwrapped.cleared,
                file=source.file,
                nested=frame.nested > 0,
            )
            image = unwrapped.image.word if unwrapped.image else None
            candidate.image = image.source.span(image.start, image.end)[0] if image else None
            self.candidates[(source.file, position)] = candidate
            if self.top is not None:
                self.tops[(source.file, position)] = self.top
        candidate.called = candidate.called or frame.called
        candidate.words = unwrapped.args
        flags = self.flag_sites(
            unwrapped.args[1:], frame, Scope.COMMAND, "flag", source.span(node.start, node.end)
        )
        for flag, site in flags:
            if site not in candidate.flags:
                candidate.flags.append(site)
            if not flag.arg.guarded:
                seen[flag.name] = (site,)
            else:
                seen[flag.name] = (*seen.get(flag.name, (None,)), site)
        for name in [*self.names_used(unwrapped.args, words, state), *sorted(frame.uses)]:
            variable = state.get(name)
            if name not in seen and any(choice is not None for choice in variable.choices):
                seen[name] = variable.choices
        for name, choices in seen.items():
            known = candidate.seen.setdefault(name, [])
            known.extend(choice for choice in choices if choice not in known)
        candidate.hidden.update(hidden)

    def _shell(
        self,
        node: Simple,
        unwrapped: Unwrapped,
        seen: dict[str, tuple[Choice, ...]],
        state: State,
        frame: Frame,
    ) -> bool:
        """A shell that reads a string or a heredoc; False if it reads a file."""
        args = unwrapped.args[1:]
        inner = State()
        for name, choices in seen.items():
            inner.variables[name] = Variable(choices, "yes", state.get(name).parts, inherited=False)
        for index, arg in enumerate(args):
            text = text_of(arg)
            if text is not None and re.fullmatch(r"-[a-z]*c[a-z]*", text) and index + 1 < len(args):
                word = args[index + 1].word
                if word is None:
                    return True
                names = frozenset(self.names_used([], [word], state))
                scope = Scope.SUBSHELL if frame.scope is None else frame.scope
                self.program(
                    as_source(parts_of(word, state)),
                    inner,
                    replace(frame, scope=scope, nested=frame.nested + 1, uses=names, pipeline=False),
                )
                return True
            if text is not None and not text.startswith("-"):
                return False
        for redirect in node.redirects:
            for heredoc in redirect.heredoc:
                path = (*frame.path, self.mark(redirect))
                fed = replace(frame, scope=Scope.HEREDOC, path=path, nested=frame.nested + 1, depends=True)
                self.program(node.source.part(heredoc.start, heredoc.end), inner, fed)
                return True
        return True

    def _remote(self, args: list[Arg], state: State, frame: Frame) -> None:
        """`ssh host words`: the words are joined and given to a shell with an environment of its own."""
        words = [arg.word for arg in args if arg.word is not None]
        if not words:
            return
        scope = Scope.SUBSHELL if frame.scope is None else frame.scope
        self.program(
            as_source(self._joined(words, state)),
            State(),
            replace(frame, scope=scope, nested=frame.nested + 1, pipeline=False),
        )

    def heredoc(self, source: Source, heredoc: Heredoc, node: Simple | None, frame: Frame) -> None:
        """List the knobs in a heredoc that becomes another file."""
        if node is not None:
            names = [literal_text(word) for word in node.words[:1] if isinstance(word, Word)]
            name = (names[0] or "") if names else ""
            if name in _SHELLS or name not in ("cat", "tee", "sudo", "dd", "sed", "envsubst"):
                return
            prints = name == "cat" and not any(
                redirect.op in (">", ">>", ">|", "&>") for redirect in node.redirects
            )
            if prints and not frame.pipeline:
                return
        body = source.part(heredoc.start, heredoc.end)
        if "=" not in body.text and "--" not in body.text:
            return
        line = self.line(source, heredoc.start)
        self.note(line - 1, "this heredoc writes another file: what it sets is not seen here")
        inner = replace(
            frame,
            scope=Scope.HEREDOC,
            path=(*frame.path, self.mark(heredoc)),
            called=False,
            calls=99,
            nested=frame.nested + 1,
        )
        if re.search(r"^\[(?:Unit|Service|Install)\]", body.text, re.MULTILINE):
            for site in foreign_sites(body.text.encode("latin-1"), source.file, unit=True):
                self.site(_moved(site, body))
            return
        self.program(body, State(), inner)


def _label(unwrapped: Unwrapped, words: list[Word]) -> str:
    """What people call the program: its name, and python's module with it."""
    if not unwrapped.args:
        image = unwrapped.image.word if unwrapped.image else None
        word = image or words[0]
        return decode(word.source.text[word.start : word.end])
    name = base_name(unwrapped.args[0])
    if not name:
        first = unwrapped.args[0].word or words[0]
        return decode(first.source.text[first.start : first.end])
    if name.startswith("python"):
        texts = [text_of(arg) or "" for arg in unwrapped.args[1:6]]
        if "-m" in texts[:-1]:
            return f"{name} -m {texts[texts.index('-m') + 1]}"
        script = next((text for text in texts if text.endswith(".py")), "")
        return f"{name} {script}".strip()
    return name


def _moved(site: Site, body: Source) -> Site:
    """A site of a unit that stands in a heredoc."""
    return replace(
        site,
        span=body.span(*site.span),
        whole=body.span(*site.whole),
        statement=body.span(*site.statement),
        scope=site.scope if site.scope is Scope.COMMENT else Scope.HEREDOC,
        slot=Slot("none"),
        lost="",
    )
