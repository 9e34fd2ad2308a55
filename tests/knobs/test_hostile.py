"""Input that is meant to hurt ends soon, with a reading or a refusal."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from knobledger.errors import KnobRefused
from knobledger.knobs import Dialect, Masker, Reading, Request, edit
from knobledger.knobs.shell.registry import WORK
from knobledger.knobs.shell.tokens import READS

HOSTILE = [
    *(
        '"',
        "'",
        "`",
        "$(",
        "$((",
        "${a:-",
        "(",
        "{ ",
        "if ",
        "a=(",
        "<<A\n",
        "@(",
        "$[",
        "${a[",
        "case x in a)",
        ")\n",
        "a b;",
    ),
    *(
        "f(){ ",
        "\\\n",
        "a=$a$a;",
        "eval '",
        "x\n",
        "#--k=1\n",
        "export K=1;",
        "$'",
        "<(",
        "[[ ",
        "&& ",
        "|",
        "--k ",
        "K=1 ",
    ),
    *('bash -c "', "\0", "\xff", "while :;do ", 'a="$a --k 1"\n', "A+=(--k 1)\n", "f(){ g; g; };"),
]
# Each makes a reader that looks again at what it knows take quadratic time, or memory.
AGAIN = [
    *("if [ a ];then K=1;fi\n", "case x in a)K=1;;esac\n", "[[ -n $x ]] && K=$K:1\n", 'K="${K:-$K}"\n'),
    *('x=("${x[@]}" a)\n', 'set -- "$@" --k 1\n', 'A+=" --k 1"\nsrv $A\n', 'bash -c "srv --k 1"\n'),
    *("export K_%d=$K\n", "export A%d=%d\nif x; then B%d=1; fi\nsrv%d\n", "X%d=1 srv%d --k 1\n"),
    *("if x; then A+=(--k 1); else A+=(--k 2); fi\n", "cat > x <<E\nK=1\nE\n", "f(){ K=1; };f\n", "\\a"),
]
# And these inside something that joins the ways through it.
JOINED = [
    ("f() {\n", "export K%d=1\n[ x ] && return\n", "}\nf\nsrv\n"),
    ("f() {\n", "K=%d\n[ x ] && return\n", "}\nf\nsrv $K\n"),
    ("for i in $x; do\n", "export K=%d\n[ x ] && break\n", "done\nsrv\n"),
    ("for i in 1 2; do\n", "K%d=1\n[ x ] && continue\n", "done\nsrv\n"),
    ("case $x in\n", "%d) K=%d;;\n", "esac\nsrv $K\n"),
    ("", "while [ x ]; do K=%d; done\n", "srv $K\n"),
    ("f() { K=1; [ x ] && return; J=2; }\n", "A%d=1; f\n", "srv\n"),
    ("f() { K=1; }\n", 'f%d() { K=%d; }\n"$@"\n', "srv $K\n"),
    ("f() { K=1; }\n", "for s in f%d; do f$s; done\n", "srv $K\n"),
    ("for s in \\\n", "f%d \\\n", "f; do $s; f${s}x; done\n"),
    ("", "echo $((K%d=1))\n", "srv $K\n"),
    ("tmux ", "new -d 'K=%d srv' \\; ", "\n"),
]
LIMIT_S = 2.0
pytestmark = pytest.mark.timeout(900)


MOST = READS + WORK + 20_000
"""The last piece of work is counted before it is refused."""
CASES = [(Dialect.BASH, piece) for piece in HOSTILE]
CASES += [
    (dialect, piece)
    for dialect in (Dialect.UNIT, Dialect.ENV_SYSTEMD)
    for piece in ("x\n", "\\\n", "#--k=1\n")
]


@pytest.mark.parametrize(("dialect", "piece"), CASES, ids=repr)
def test_half_a_megabyte(dialect: Dialect, piece: str) -> None:
    """The longest that is read at all."""
    content = piece.encode("latin-1") * (499_000 // len(piece))
    begin = time.process_time()
    reading = Reading.of(content, dialect)
    with suppress(KnobRefused):
        edit(reading, [Request("K", "2")])
    assert reading.work <= MOST
    # The machine that runs the tests may be slow, and busy with other things; the work is what is bounded.
    assert time.process_time() - begin < 10 * LIMIT_S


@pytest.mark.parametrize("piece", AGAIN, ids=repr)
def test_what_is_looked_at_again_and_again(piece: str) -> None:
    pieces = [piece.replace("%d", str(number)) for number in range(499_000 // (len(piece) + 4))]
    content = "".join(pieces)[:499_000].encode()
    begin = time.process_time()
    reading = Reading.of(content, Dialect.BASH)
    with suppress(KnobRefused):
        edit(reading, [Request("K", "2")])
    assert 0 < reading.work <= MOST
    assert time.process_time() - begin < 10 * LIMIT_S


@pytest.mark.parametrize("count", [1_000, 4_000, 12_000])
@pytest.mark.parametrize(("head", "piece", "tail"), JOINED, ids=repr)
def test_many_ways_that_are_joined(head: str, piece: str, tail: str, count: int) -> None:
    """In numbers that are still followed, and in numbers that are not."""
    pieces = [piece.replace("%d", str(number)) for number in range(count)]
    begin = time.process_time()
    reading = Reading.of(f"{head}{''.join(pieces)}{tail}".encode(), Dialect.BASH)
    with suppress(KnobRefused):
        edit(reading, [Request("K", "2")])
    assert 0 < reading.work <= MOST
    assert time.process_time() - begin < 10 * LIMIT_S


@pytest.mark.parametrize("piece", HOSTILE, ids=repr)
def test_masking(piece: str) -> None:
    begin = time.process_time()
    Masker(b"k").text((piece * (200_000 // len(piece))) + " hf_abcdefghijk")
    assert time.process_time() - begin < LIMIT_S


def test_functions_that_call_each_other() -> None:
    calls = "\n".join(f"f{i}() {{ f{i + 1}; f{i + 1}; }}" for i in range(60))
    begin = time.process_time()
    Reading.of(f"f60() {{ export K=1; }}\n{calls}\nf0\nsrv\n".encode(), Dialect.BASH)
    Reading.of(b"f() { f; }\nf\nsrv\n", Dialect.BASH)
    assert time.process_time() - begin < LIMIT_S


def test_longer_than_any_script() -> None:
    reading = Reading.of(b"export K=1\n" * 200_000, Dialect.BASH)
    assert reading.warnings
    with pytest.raises(KnobRefused):
        edit(reading, [Request("K", "2")])
