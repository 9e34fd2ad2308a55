"""Input that is meant to hurt ends soon, with a reading or a refusal."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from knobledger.errors import KnobRefused
from knobledger.knobs import Dialect, Masker, Reading, Request, edit

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
LIMIT_S = 2.0


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
    # The machine that runs the tests may be half as fast as the one that the promise is about.
    assert time.process_time() - begin < 2 * LIMIT_S


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
