"""Ways through a script that a person would not think of: what is told for certain is what bash does."""

from __future__ import annotations

import pytest
from launches import run

from knobledger.knobs import Dialect, Reading

_LOOP = "for i in {}; do export KA=1; done"
OPEN = [
    "X=()\n" + _LOOP.format('"${X[@]+"${X[@]}"}"'),
    *(
        _LOOP.format(words)
        for words in ('"${@+x}"', '"${@:2}"', '"${@:1:2}"', '"${@#x}"', '"${@/x/y}"', '"${@@Q}"')
    ),
    "ARR=(a)\n" + _LOOP.format('"${ARR[@]:1}"'),
    "declare -A m\n" + _LOOP.format('"${!m[@]}"'),
    *(_LOOP.format(words) for words in ('"$@""$@"', "{,}", "")),
    "shopt -s nullglob\n" + _LOOP.format("*.nomatch"),
    "X=(a)\nunset 'X[0]'\n" + _LOOP.format('"${X[@]}"'),
    "select x in a b; do export KA=1; done",
    "while ! true; do export KA=1; break; done",
    "until ! false; do export KA=1; break; done",
    "true() { return 1; }\nwhile true; do export KA=1; break; done",
    "i=0\nwhile ((i++ < 0)); do export KA=1; done",
    *(
        f"n=2\nfor i in 1 2; do\n  for j in 1; do break {count}; done\n  export KA=1\ndone"
        for count in ("$n", "${N:-1}", "${N:-2}")
    ),
    "set_x() { export KA=1; }\nfor s in set_x; do $s; done",
    "set_x() { export KA=1; }\n${SETUP:-set_x}",
    'set_x() { export KA=1; }\nS=set_x\n"$S"',
    "set_slow() { export KA=1; }\nset_${MODE:-slow}",
    'main() { export KA=1; }\nset -- main\n"$@"',
    'main() { export KA=1; }\nset -- main\n"$1"',
    'main() { export KA=1; }\n"$@"',
    "CMD=export\n$CMD KA=5",
    'CMD="export KA=5"\n$CMD',
    "for KA in $LIST; do :; done",
    'for KA in "$@"; do :; done',
    ": $((KA+=1))",
    "echo $((++KA))",
    "B=$((KA=7))",
    "((KA=7))",
    "for ((KA=5; KA<6; KA++)); do :; done",
    "let KA=5",
]
"""Behind `export KA=0`: what decides is not told for certain."""
SURE = [
    "for i in 1 2; do\n  while break; do :; done\n  export KA=1\ndone",
    _LOOP.format('"$HOME"'),
    _LOOP.format('"$X" '),
    _LOOP.format("{0..3}"),
    _LOOP.format("gpu$N"),
    'note() { echo note; }\nTOOL=true\n"$TOOL"\nexport KA=1',
]
"""It is the 1."""


def last(body: str) -> tuple[bytes | None, list[str | None], bool]:
    """What the launch saw, what is said to win for certain, and whether something may."""
    script = f"export KA=0\n{body}\nsrv\n".encode()
    [launches] = run([script])
    assert launches, body
    found = [one for one in Reading.of(script, Dialect.BASH).occurrences if one.name == "KA"]
    wins = [one.value for one in found if one.wins and not one.depends]
    return launches[-1].env.get(b"KA"), wins, any(one.depends for one in found)


@pytest.mark.parametrize("body", OPEN)
def test_what_hangs_on_something_is_not_told_for_certain(body: str) -> None:
    _, wins, may = last(body)
    assert (wins, may) == ([], True)


@pytest.mark.parametrize("body", SURE)
def test_what_is_certain_is_told(body: str) -> None:
    assert last(body) == (b"1", ["1"], False)


@pytest.mark.parametrize("source", ['eval "$(cat side)"', "eval $CMD"])
def test_what_eval_runs_may_set_any_name(source: str) -> None:
    reading = Reading.of(f"export KA=0\n{source}\nsrv\n".encode(), Dialect.BASH)
    assert [(note.line, note.message) for note in reading.warnings] == [
        (2, "what eval runs here is not told, and it may set any name")
    ]
