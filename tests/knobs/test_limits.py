"""The false readings and false refusals that docs/shapes.md names are still there, and they are what it says.

Whoever mends one takes its line out of the page. Bash runs each script, so that none is blamed on it.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from launches import run

from knobledger.errors import KnobRefused
from knobledger.knobs import Dialect, Reading, Request, edit

PAGE = (Path(__file__).parents[2] / "docs/shapes.md").read_text("utf-8")


class Limit(NamedTuple):
    """What bash hands to the launch as K (or `--k`), and what the reading says wins."""

    said: str
    """in the page"""
    script: bytes
    truth: str | None
    reading: str | None
    shell: str = "bash"


READINGS = [
    Limit("is started with `&` is taken for one", b"K=1 prepare &\nwait\nsrv\n", None, "1"),
    Limit("`trap`, `set -e`", b"export K=1\ntrap 'export K=2; srv' EXIT\nexit 0\n", "2", "1"),
    Limit(
        "A loop's third round is taken to leave behind what the second does",
        b"C= B= A=\nfor i in 1 2 3; do\n  C=$B; B=$A; A='--k 2'\n  srv $C\ndone\n",
        "2",
        None,
    ),
    Limit(
        "Aliases are not followed",
        b"shopt -s expand_aliases\nalias e='export K=2'\nexport K=1\ne\nsrv\n",
        "2",
        "1",
    ),
    Limit(
        "an element of an associative array is a value that is not told",
        b"declare -A m\nm[a]=5\nexport K=${m[a]}\nsrv\n",
        "5",
        None,
    ),
    Limit("counts as dynamic", b"srv --k a*b\n", "a*b", None),
    Limit("one with `[...]` as literal", b": > ab\nsrv --k [a]b\n", "ab", "[a]b"),
]


@pytest.mark.parametrize("limit", READINGS, ids=[one.said for one in READINGS])
def test_a_known_false_reading(limit: Limit) -> None:
    assert limit.said in PAGE
    [launches] = run([limit.script], limit.shell)
    assert launches, limit.script
    seen = launches[-1]
    value = seen.argv[1] if seen.argv else seen.env.get(b"K")
    assert (value.decode() if value is not None else None) == limit.truth
    reading = Reading.of(limit.script, Dialect.SH if limit.shell == "dash" else Dialect.BASH)
    winner = reading.decided().get("--k" if seen.argv else "K")
    assert (winner.value if winner else None) == limit.reading


def test_what_may_end_a_script_early_is_taken_not_to() -> None:
    assert "`set -e` and failing commands are not followed" in PAGE
    script = b"set -e\nfalse\nexport K=2\nsrv\n"
    assert run([script]) == [[]]
    assert Reading.of(script, Dialect.BASH).decided()["K"].value == "2"


@pytest.mark.parametrize("line", [b". ./side.sh", b"export $(cat side.env)"])
def test_what_may_set_any_name_is_warned_of_and_decides_nothing(line: bytes) -> None:
    assert "may set any name; all are warned of" in PAGE
    reading = Reading.of(b"export K=1\n" + line + b"\nsrv\n", Dialect.BASH)
    assert reading.decided()["K"].value == "1"
    assert [warning.line for warning in reading.warnings] == [2]


REFUSED: list[tuple[str, bytes, Dialect, Request, bool]] = [
    ("inside a string", b"bash -c 'srv --a 1'\n", Dialect.BASH, Request("--k", "1"), True),
    ("ends in the CR of a CR LF", b"srv --a 1\r\n", Dialect.BASH, Request("--k", "1"), True),
    (
        "A value with a single quote can't be said in a default between double quotes",
        b'export K="${K:-d}"\nsrv\n',
        Dialect.BASH,
        Request("K", "it's"),
        False,
    ),
    (
        "the string is read, and not edited",
        b"[Service]\nExecStart=/bin/sh -c 'K=1 srv --k 2'\n",
        Dialect.UNIT,
        Request("--k", "3"),
        False,
    ),
    (
        "Values that need quotes inside unquoted words of `eval`",
        b"eval srv --k 1\n",
        Dialect.BASH,
        Request("--k", "a b"),
        False,
    ),
    (
        "more than 500,000 bytes",
        b"export K=1\nsrv\n" + b"#\n" * 250_000,
        Dialect.BASH,
        Request("K", "2"),
        False,
    ),
]


@pytest.mark.parametrize(
    ("said", "script", "dialect", "request_", "add"), REFUSED, ids=[one[0] for one in REFUSED]
)
def test_a_known_false_refusal(
    said: str, script: bytes, dialect: Dialect, request_: Request, add: bool
) -> None:
    assert said in PAGE
    with pytest.raises(KnobRefused):
        edit(Reading.of(script, dialect), [request_], add=add)
