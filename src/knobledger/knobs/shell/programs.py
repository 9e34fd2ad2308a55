"""Programs: what their environment holds, which may be the launch, and texts that other shells read."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec.structs import replace

from knobledger.knobs.occurrence import Dialect, Scope
from knobledger.knobs.shell.expansion import Expander
from knobledger.knobs.shell.frame import Frame
from knobledger.knobs.shell.heredocs import foreign_sites
from knobledger.knobs.shell.launches import Candidate, rank_of
from knobledger.knobs.shell.source import Source, decode
from knobledger.knobs.shell.state import State, Variable
from knobledger.knobs.shell.strings import as_source
from knobledger.knobs.shell.syntax import Function, Heredoc, Simple, Word
from knobledger.knobs.shell.unwrapped import Setting, Unwrapped, base_name, text_of
from knobledger.knobs.shell.values import Value, literal_text, slot_of, value_of
from knobledger.knobs.site import Choice, Site
from knobledger.knobs.slot import Slot

CANDIDATES = 500
"""How many commands may look like a launch: a bound on hostile text."""
_SHELLS = frozenset(["bash", "sh", "dash", "zsh", "ksh", "ash"])


class Programs(Expander):
    """Follows programs that a script starts."""

    def __init__(self, dialect: Dialect, sources: Mapping[str, bytes]) -> None:
        super().__init__(dialect, sources)
        self.functions: dict[str, tuple[Function, tuple[int, ...]]] = {}
        """by name, with the arms in which each is defined"""

    def program(self, source: Source, state: State, frame: Frame) -> None:
        """See Walker."""
        raise NotImplementedError

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

    def environment(
        self, unwrapped: Unwrapped, overlay: dict[str, Site], state: State, frame: Frame
    ) -> tuple[dict[str, tuple[Choice, ...]], dict[str, str]]:
        """What may decide each name in the environment of a command, and why some names are not in it."""
        seen: dict[str, tuple[Choice, ...]] = {}
        hidden: dict[str, str] = {}
        variables = state.all()
        self.charge(len(variables) // 4)
        for name, variable in variables.items():
            if variable.exported == "no":
                if _written(variable.choices) or variable.unset:
                    hidden[name] = variable.unset or "not exported: the launch does not see it"
                continue
            choices = variable.choices
            if variable.exported == "maybe" and None not in choices:
                choices = (*choices, None)
            if variable.disturbed or _written(choices):
                seen[name] = choices  # None alone: it has a value, which is written nowhere
            if variable.unset:
                hidden[name] = variable.unset
        seen.update({name: (site,) for name, site in overlay.items()})
        if unwrapped.open:
            for name, choices in seen.items():
                if name not in unwrapped.handed and None not in choices:
                    seen[name] = (*choices, None)
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

    def start(
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
        if unwrapped.detached:
            frame = replace(frame, background=True)
        if unwrapped.told:
            seen, _ = self.environment(unwrapped, overlay, state, frame)
            for args in unwrapped.told:
                self._told([arg.word for arg in args if arg.word is not None], seen, state, frame)
            if not unwrapped.args:
                return
        begins_with_flag = bool(unwrapped.args) and (text_of(unwrapped.args[0]) or "").startswith("-")
        if begins_with_flag and unwrapped.image is None:
            reason = "dead: the command before it ended, and this is a command of its own"
            for _, site in self.flag_sites(
                unwrapped.args, frame, Scope.COMMAND, "flag", source.span(node.start, node.end)
            ):
                site.lost = reason
            return
        rank = rank_of(unwrapped, background=frame.background, functions=self.functions)
        if not rank and not unwrapped.settings and not unwrapped.env_files:
            return
        if len(self.candidates) > CANDIDATES:
            self.gave_up = True
            return
        seen, hidden = self.environment(unwrapped, overlay, state, frame)
        reads = bool(unwrapped.args) and base_name(unwrapped.args[0]) in _SHELLS
        if reads and self._shell(node, unwrapped, seen, state, frame):
            return
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
                frame.called and not state.dead,
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
        candidate.called = candidate.called or (frame.called and not state.dead)
        candidate.words = unwrapped.args
        flags = self.flag_sites(
            unwrapped.args[0 if begins_with_flag else 1 :],
            frame,
            Scope.COMMAND,
            "flag",
            source.span(node.start, node.end),
        )
        known_flags = set(candidate.flags)
        for flag, site in flags:
            if site not in known_flags:
                known_flags.add(site)
                candidate.flags.append(site)
            if not flag.arg.guarded:
                seen[flag.name] = (site,)
            else:
                seen[flag.name] = (*seen.get(flag.name, (None,)), site)
        for name in [*self.names_used(unwrapped.args, words, state), *sorted(frame.uses)]:
            variable = state.get(name)
            if name not in seen and _written(variable.choices):
                seen[name] = variable.choices
        self.charge(len(seen) // 4)
        for name, choices in seen.items():
            known = candidate.seen.get(name)
            if known is None:
                candidate.seen[name] = list(dict.fromkeys(choices))
            else:
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
        for index, arg in enumerate(args):
            text = text_of(arg)
            if text is not None and re.fullmatch(r"-[a-z]*c[a-z]*", text) and index + 1 < len(args):
                word = args[index + 1].word
                self._told([word] if word is not None else [], seen, state, frame)
                return True
            if text is not None and not text.startswith("-"):
                return False
        for redirect in node.redirects:
            for heredoc in redirect.heredoc:
                path = (*frame.path, self.mark(redirect))
                fed = replace(
                    frame, scope=Scope.HEREDOC, path=path, nested=frame.nested + 1, depends=True, ways=None
                )
                self.program(node.source.part(heredoc.start, heredoc.end), self._inner(seen, state), fed)
                return True
        return True

    def _told(
        self, words: list[Word], seen: dict[str, tuple[Choice, ...]], state: State, frame: Frame
    ) -> None:
        """Words that are joined and given to a shell, whose environment is `seen`."""
        if words:
            self.program(
                as_source(self.joined(words, state)),
                self._inner(seen, state),
                replace(
                    frame,
                    scope=Scope.SUBSHELL if frame.scope is None else frame.scope,
                    nested=frame.nested + 1,
                    uses=frozenset(self.names_used([], words, state)),
                    pipeline=False,
                    ways=None,
                ),
            )

    def _inner(self, seen: dict[str, tuple[Choice, ...]], state: State) -> State:
        """The variables of a shell whose environment is `seen`."""
        return State(
            {
                name: Variable(choices, "yes", state.get(name).parts, inherited=False)
                for name, choices in seen.items()
            }
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
            ways=None,
        )
        if re.search(r"^\[(?:Unit|Service|Install)\]", body.text, re.MULTILINE):
            for site in foreign_sites(body.text.encode("latin-1"), source.file, unit=True):
                self.site(_moved(site, body))
            return
        self.program(body, State(), inner)


def _written(choices: tuple[Choice, ...]) -> bool:
    """Whether something in the file is among the choices, each of which is there once."""
    return bool(choices) and choices != (None,)


def _label(unwrapped: Unwrapped, words: list[Word]) -> str:
    """What people call the program: its name, and python's module with it."""
    image = unwrapped.image.word if unwrapped.image else None
    if not unwrapped.args or (image is not None and (text_of(unwrapped.args[0]) or "-").startswith("-")):
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
