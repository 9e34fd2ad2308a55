"""Serve scripts made at random out of the shapes in which knobs are written."""

from __future__ import annotations

from random import Random

NAMES = ["KA", "KB", "KC", "KD"]
FLAGS = ["--ka", "--kb", "--kc", "--k-d.e"]
_SAFE = "abcXYZ019_@%+=:,./-"
_HARD = " \t$`\"\\'#;&|<>(){}[]*?!~\u00fc"


class Builder:
    """Writes one script. Every choice comes from `random`, so a seed, or hypothesis, decides the script."""

    def __init__(self, random: Random, *, posix: bool = False) -> None:
        self.random = random
        self.posix = posix
        self.functions: list[str] = []
        self.arrays: list[str] = []
        self.strings: list[str] = []
        self.launches = 0
        self.depth = 0
        self.counters = 0
        self.leaves: list[str] = []
        """what may leave the function or the loop that is being written"""

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def text(self, *, plain: bool = False) -> str:
        size = self.random.choice([1, 1, 2, 3, 6])
        alphabet = _SAFE if plain or self.chance(50) else _SAFE + _HARD
        text = "".join(self.random.choice(alphabet) for _ in range(size))
        # A flag's value that begins with a dash would be the next flag.
        return "v" + text

    def word(self, text: str | None = None) -> str:
        """A word that stands for `text`, in some style of quoting."""
        text = self.text() if text is None else text
        styles = ["bare", "single", "double", "glued"] + ([] if self.posix else ["ansi"])
        match self.random.choice(styles):
            case "bare" if all(char in _SAFE for char in text) and text:
                return text
            case "double":
                return '"' + "".join("\\" + c if c in '$`"\\' else c for c in text) + '"'
            case "ansi":
                return "$'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\t", "\\t") + "'"
            case "glued" if len(text) > 1:
                middle = self.random.randrange(1, len(text))
                return "".join(
                    "'" + part.replace("'", "'\\''") + "'" for part in (text[:middle], text[middle:])
                )
            case _:
                return "'" + text.replace("'", "'\\''") + "'"

    def name(self) -> str:
        return self.random.choice(NAMES)

    def condition(self) -> str:
        return self.pick("true", "false", '[ -n "$UNSET" ]', "[ 1 = 1 ]", 'test -z "$UNSET"')

    def assignment(self) -> str:
        name = self.name()
        kinds = (
            ["plain"] * 6 + ["default", "other", "substitution", "empty"] + ([] if self.posix else ["append"])
        )
        match self.random.choice(kinds):
            case "default":
                op = self.pick(":-", "-", ":-")
                plain = self.text(plain=True)
                return self.pick(f"{name}=${{{name}{op}{plain}}}", f'{name}="${{{name}{op}{plain}}}"')
            case "other":
                return f'{name}="$' + self.name() + '"'
            case "substitution":
                return f"{name}=$(echo s)"
            case "empty":
                return f"{name}="
            case "append":
                return f"{name}+={self.word()}"
            case _:
                return f"{name}={self.word()}"

    def simple(self) -> str:
        """One command that may change the environment, on one line."""
        assignment = self.assignment()
        kinds = (
            ["export"] * 6
            + ["plain"] * 3
            + ["later", "unset", "quoted", "echo", "colon", "two", "two plain", "sum"]
        )
        if not self.posix:
            kinds += ["declare", "typeset", "revoke", "read", "printf", "reference"]
        else:
            kinds += ["special"]
        if self.functions:
            kinds += ["call"] * 2
        match self.random.choice(kinds):
            case "plain":
                return assignment
            case "two":
                return f"export {assignment} {self.assignment()}"
            case "two plain":
                return f"{assignment} {self.assignment()}"
            case "later":
                return self.pick(f"export {self.name()}", f"{assignment}; export {self.name()}")
            case "unset":
                return f"unset {self.name()}"
            case "quoted":
                return f'export "{self.name()}={self.text(plain=True)}"'
            case "echo":
                return f"echo {self.name()}={self.text(plain=True)} --ka no > out.txt"
            case "colon":
                name = self.name()
                return f': "${{{name}:={self.text(plain=True)}}}"'
            case "declare":
                return f"declare -x {assignment}"
            case "typeset":
                return f"typeset -x {assignment}"
            case "revoke":
                return f"export -n {self.name()}"
            case "read":
                return f"read -r {self.name()} <<< word"
            case "printf":
                return f"printf -v {self.name()} %s word"
            case "reference":
                return f"declare -n ref={self.name()}; ref={self.word()}; unset -n ref"
            case "special":
                return f"{assignment} {self.pick(':', 'eval :', 'export KD', 'times > /dev/null')}"
            case "call":
                name = self.random.choice(self.functions)
                return self.pick(
                    name, name, f"F={name}; $F", f"f${{UNSET:-{name[1:]}}}", f"for f in {name}; do $f; done"
                )
            case "sum":
                return self.pick(": $(({}=7))", "echo $(({}=8)) > out.txt").format(self.name())
            case _:
                return f"export {assignment}"

    def statement(self) -> list[str]:
        """Some lines of script."""
        kinds = ["simple"] * 10 + [
            "comment",
            "blank",
            "joined",
            "and",
            "or",
            "subshell",
            "group",
            "if",
            "case",
        ]
        kinds += ["for", "heredoc", "function", "continued", "multiline", "pipe", "set -a", "eval"]
        kinds += ["string", "string"] + ([] if self.posix else ["array", "array", "array+"])
        kinds += ["loop", "loop"]
        if self.depth > 2:
            kinds = ["simple", "comment", "joined"]
        if self.leaves:
            kinds += ["leave"] * (len(kinds) // 4)
        match self.random.choice(kinds):
            case "comment":
                return [
                    self.pick("# ", "#", "  # ")
                    + self.pick(f"export {self.assignment()}", "a note", "--ka 3")
                ]
            case "blank":
                return [""]
            case "joined":
                return [self.simple() + self.pick("; ", ";", " ; ") + self.simple()]
            case "and":
                return [f"{self.condition()} && {self.simple_alone()}"]
            case "or":
                return [f"{self.condition()} || {self.simple_alone()}"]
            case "subshell":
                return ["(", *self.body(), ")"]
            case "group":
                return ["{", *self.body(), "}"]
            case "if":
                arms = [f"if {self.condition()}; then", *self.body()]
                if self.chance(30):
                    arms += [f"elif {self.condition()}; then", *self.body()]
                if self.chance(40):
                    arms += ["else", *self.body()]
                return [*arms, "fi"]
            case "case":
                default = ["  *)", *self.body(), "    ;;"] if self.chance(50) else []
                return [
                    f"case {self.pick('a', 'b', '$UNSET')} in",
                    "  a|x)",
                    *self.body(),
                    "    ;;",
                    *default,
                    "esac",
                ]
            case "for":
                return ["for i in 1 2; do", *self.body_left_by("break", "continue"), "done"]
            case "loop":
                return self.loop()
            case "leave":
                return self.leave()
            case "heredoc":
                quote = self.pick("'", "")
                return [
                    f"cat > file.txt <<{quote}EOF{quote}",
                    f"export {self.name()}=heredoc",
                    "--ka 3",
                    "EOF",
                ]
            case "function":
                # Its body is written before its name is known, so no function calls itself.
                outer, self.leaves = self.leaves, []
                body = self.body_left_by("return")
                self.leaves = outer
                name = f"f{len(self.functions)}"
                self.functions.append(name)
                return [f"{name}() {{", *body, "}"]
            case "continued":
                return ["export \\", f"  {self.assignment()} \\", f"  {self.assignment()}"]
            case "multiline":
                return [f'export {self.name()}="one', f"export {self.name()}=inside", 'three"']
            case "pipe":
                return [f"export {self.assignment()} | cat"]
            case "set -a":
                return [self.pick("set -a", "set +a", "set -o allexport", "set +o allexport")]
            case "eval":
                return [f"eval 'export {self.name()}={self.text(plain=True)}'"]
            case "string":
                name = f"STR{len(self.strings)}"
                self.strings.append(name)
                return [f'{name}="{self.string_flag()} {self.string_flag()}"']
            case "array":
                name = f"ARR{len(self.arrays)}"
                self.arrays.append(name)
                return [f"{name}=(", f"  {self.flag()}", "  # --ka 9", f"  {self.flag()}", ")"]
            case "array+" if self.arrays:
                return [f"{self.random.choice(self.arrays)}+=({self.flag()})"]
            case _:
                return [self.simple()]

    def loop(self) -> list[str]:
        """A loop with no, one or some rounds. One that could go on for ever has no `continue` before its `break`."""
        match self.pick("empty", "arguments", "never", "once", "counted", "forever"):
            case "empty":
                return ["for i in $UNSET; do", *self.body_left_by("break", "continue"), "done"]
            case "arguments":
                return [f'for i in {self.pick("$(echo 1 2)", "1", "$KA")} "$@"; do', *self.body(), "done"]
            case "never":
                return [self.pick("while false; do", "until true; do"), *self.body(), "done"]
            case "once":
                head = self.pick("while true; do", "until false; do", "while :; do")
                return [head, *self.body_left_by(), "break", *self.body_left_by(), "done"]
            case "counted":
                self.counters += 1
                n = f"n{self.counters}"
                body = self.body_left_by("break", "continue")
                return [f"{n}=0", f"while [ ${n} -lt 2 ]; do", f"{n}=$(({n}+1))", *body, "done"]
            case _:
                out = f"{self.condition()} && break"
                return [
                    "while true; do",
                    *self.body_left_by("break"),
                    out,
                    *self.body_left_by(),
                    "break",
                    "done",
                ]

    def body_left_by(self, *words: str) -> list[str]:
        """A body that may be left before its end."""
        outer, self.leaves = self.leaves, [*(word for word in self.leaves if word == "return"), *words]
        lines = self.body()
        self.leaves = outer
        return lines

    def leave(self) -> list[str]:
        word = self.random.choice(self.leaves)
        if word == "break" and self.chance(30):
            word = self.pick("break 2", "break ${UNSET:-2}", "break $UNSET")
        match self.pick("and", "or", "if", "now"):
            case "and":
                return [f"{self.condition()} && {word}"]
            case "or":
                return [f"{self.condition()} || {word}"]
            case "if":
                return [f"if {self.condition()}; then", self.simple(), word, "fi"]
            case _:
                return [word]

    def simple_alone(self) -> str:
        text = self.simple()
        whole = any(mark in text for mark in ("'", '"', "for "))
        return f"export {self.name()}=z" if whole else text.partition(";")[0]

    def body(self) -> list[str]:
        self.depth += 1
        indent = self.pick("  ", "\t", "")
        lines = []
        for _ in range(self.random.choice([1, 1, 2])):
            lines += self.statement()
        self.depth -= 1
        # Lines inside quotes and heredocs must stay as they are.
        plain = not any(line.startswith(("cat >", "EOF", "three")) for line in lines)
        lines = [indent + line for line in lines] if plain else lines
        if all(not line.strip() or line.strip().startswith("#") or line.endswith("{") for line in lines):
            lines.append(":")
        return lines

    def flag(self) -> str:
        name = self.random.choice(FLAGS)
        if self.chance(15):
            return name
        joint = self.pick(" ", "=", "  ")
        value = self.word()
        if self.chance(15):
            value = '"$' + self.name() + '"'
        return f"{name}{joint}{value}"

    def string_flag(self) -> str:
        return f"{self.random.choice(FLAGS)}{self.pick(' ', '=')}{'w' + self.text(plain=True)}"

    def launch(self) -> list[str]:
        self.launches += 1
        words: list[str] = []
        for _ in range(self.random.choice([0, 0, 1, 2])):
            words.append(f"{self.name()}={self.word()}")
        wrapper = self.pick(
            "", "", "", "nohup", "env", "env -u " + self.name(), "nice -n 5", "timeout 60", "exec"
        )
        if wrapper == "exec" and self.launches < 2:
            wrapper = ""
        if wrapper:
            words.append(wrapper)
        if wrapper.startswith("env") and self.chance(60):
            words.append(f"{self.name()}={self.word()}")
        words.append(f"srv --id {self.launches}")
        for _ in range(self.random.choice([0, 1, 2, 3])):
            kind = self.pick("flag", "flag", "array", "string", "alternative")
            if kind == "array" and self.arrays:
                words.append('"${' + self.random.choice(self.arrays) + '[@]}"')
            elif kind == "string" and self.strings:
                words.append("$" + self.random.choice(self.strings))
            elif kind == "alternative" and self.chance(30):
                words.append("${UNSET:+--ka 1}")
            else:
                words.append(self.flag())
        joint = self.pick(" ", " ", " \\\n  ")
        line = joint.join(words) + self.pick("", "", " > out.log 2>&1", " # done --ka 4", " &")
        if line.endswith("&"):
            line += "\nwait"
        return line.split("\n")

    def script(self) -> bytes:
        lines = ["#!/bin/sh" if self.posix else "#!/bin/bash"]
        for _ in range(self.random.randrange(1, 7)):
            lines += self.statement()
        lines += self.launch()
        if self.chance(30):
            for _ in range(self.random.randrange(0, 3)):
                lines += self.statement()
            lines += self.launch()
        if self.chance(20):
            lines += [f"export {self.assignment()}"]
        end = "" if self.chance(15) else "\n"
        return ("\n".join(lines) + end).encode()
