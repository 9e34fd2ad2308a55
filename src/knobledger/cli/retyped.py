"""A flag of a target that was typed as if it were an option of `knob`: the same command as it has to be typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from knobledger.quoting import command_line

NAMES_KNOBS = ("set", "unset", "blame")
"""commands whose words may be flags of a target"""


def retyped(argv: Sequence[str], at: int, options: Mapping[str, bool]) -> str:
    """The whole line with the flags behind `--`; `at` is the command's place in `argv`.

    `options` are those of the command, and whether each takes a value. `--flag VALUE` becomes `--flag=VALUE` for
    `set`; the others take a name alone.
    """
    words, behind = list(argv[at + 1 :]), []
    if "--" in words:
        words, behind = words[: words.index("--")], words[words.index("--") + 1 :]
    kept: list[str] = []
    flags: list[str] = []
    while words:
        word = words.pop(0)
        name, equals, _ = word.partition("=")
        if not word.startswith("-"):
            kept.append(word)
        elif name in options:
            kept.append(word)
            if options[name] and not equals and words:
                kept.append(words.pop(0))
        elif argv[at] != "set":
            flags.append(name)
        elif kept and not equals and words and "=" not in words[0] and not words[0].startswith("-"):
            flags.append(f"{word}={words.pop(0)}")
        else:
            flags.append(word)
    return command_line(["knob", *argv[: at + 1], *kept, "--", *flags, *behind])
