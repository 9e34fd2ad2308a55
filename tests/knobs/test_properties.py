"""Generated scripts: the reading agrees with the shell, and an edit changes what it says and no other byte."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest
from agreement import edit_disagrees, reading_disagrees
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serve_scripts import NAMES, Builder, lay_tools, run

from knobledger.errors import KnobRefused
from knobledger.knobs import Dialect, Reading, Request, changed_knobs, edit

FUZZING = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
"""A long run, for which pytest's limit of time must be off (`-o timeout=0`)."""
SLOW = settings(max_examples=5000 if FUZZING else 40, deadline=None, suppress_health_check=list(HealthCheck))
PURE = settings(max_examples=5000 if FUZZING else 80, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("launches")
    lay_tools(place / "bin")
    return place


@st.composite
def scripts(draw: st.DrawFn, posix: bool = False) -> bytes:
    return Builder(Random(draw(st.integers(0, 2**32))), posix=posix).script()


@SLOW
@given(content=scripts())
def test_the_reading_is_what_bash_does(folder: Path, content: bytes) -> None:
    seen = run(content, folder)
    if seen is not None:
        assert reading_disagrees(content, Dialect.BASH, seen) == []


@pytest.mark.tool("dash")
@SLOW
@given(content=scripts(posix=True))
def test_the_reading_is_what_dash_does(folder: Path, content: bytes) -> None:
    seen = run(content, folder, ("dash",))
    if seen is not None:
        assert reading_disagrees(content, Dialect.SH, seen) == []


@SLOW
@given(content=scripts(), seed=st.integers(0, 2**32))
def test_bash_sees_an_edit_and_nothing_else(folder: Path, content: bytes, seed: int) -> None:
    before = run(content, folder)
    if before is not None:
        assert not edit_disagrees(content, Dialect.BASH, before, folder, ("bash",), Random(seed))


def editable(reading: Reading) -> list[str]:
    return [
        name
        for name, found in reading.decided().items()
        if not (found.dynamic or found.depends or found.bare)
    ]


@PURE
@given(content=scripts(), seed=st.integers(0, 2**32))
def test_set_then_set_back_is_the_identity(content: bytes, seed: int) -> None:
    """Where the old value was written as an edit would write it; other quoting is written anew."""
    random = Random(seed)
    reading = Reading.of(content, Dialect.BASH)
    for name in editable(reading):
        found = reading.decided()[name]
        plain = found.raw == found.value and "'" not in found.raw
        quoted = found.raw[:1] == "'" == found.raw[-1:] and found.raw.count("'") == 2
        new = Builder(random).text(plain=plain)
        if not (plain or quoted):
            continue
        try:
            there = edit(reading, [Request(name, new)])
        except KnobRefused:
            continue
        back = edit(Reading.of(there.content, Dialect.BASH), [Request(name, found.value)])
        assert back.content == content


@PURE
@given(content=scripts(), name=st.sampled_from([*NAMES, "--ka", "--kb"]))
def test_setting_what_is_there_changes_nothing(content: bytes, name: str) -> None:
    reading = Reading.of(content, Dialect.BASH)
    found = reading.decided().get(name)
    if found is None or found.value is None:
        return
    try:
        edited = edit(reading, [Request(name, found.value)])
    except KnobRefused:
        return
    assert edited.content == content
    assert edited.edits == ()


@PURE
@given(content=scripts(), name=st.sampled_from(["KNEW", "--k-new"]), seed=st.integers(0, 2**32))
def test_what_is_added_is_decided_and_can_be_taken_out(content: bytes, name: str, seed: int) -> None:
    value = Builder(Random(seed)).text()
    reading = Reading.of(content, Dialect.BASH)
    try:
        edited = edit(reading, [Request(name, value)], add=True)
    except KnobRefused:
        return
    after = Reading.of(edited.content, Dialect.BASH)
    assert after.decided()[name].value == value
    assert [(change.name, change.before, change.after) for change in edited.edits] == [(name, None, value)]
    try:
        out = edit(after, [Request(name, None)])
    except KnobRefused as error:
        if "second parser" in error.message:
            # Known: docs/shapes.md, "The second parser".
            return
        raise
    left, right = ([word for word in text.split() if word != b"\\"] for text in (out.content, content))
    assert left == right


@PURE
@given(content=st.binary(max_size=200), dialect=st.sampled_from(list(Dialect)))
def test_any_bytes_are_read(content: bytes, dialect: Dialect) -> None:
    reading = Reading.of(content, dialect)
    assert reading.content == content
    for found in reading.occurrences:
        start, end = found.span
        assert 0 <= start <= end <= len(content)
        assert content[start:end] == found.raw.encode("utf-8", "surrogateescape")
    assert changed_knobs(reading, reading) == ()


PIECES = [
    *(
        "export KA=1",
        "KA=2",
        "\n",
        "\n",
        " ",
        ";",
        "&&",
        "|",
        "&",
        "(",
        ")",
        "{",
        "}",
        "'",
        '"',
        "`",
        "$(",
        "${",
        "$",
        "\\",
        "#",
    ),
    *(
        "if ",
        "then ",
        "fi",
        "do ",
        "done",
        "case x in ",
        "esac",
        ";;",
        "<<EOF\n",
        "EOF\n",
        "srv ",
        "--ka 3 ",
        "=",
        "A=(",
        "\r\n",
    ),
]


@PURE
@given(parts=st.lists(st.sampled_from(PIECES), max_size=40), name=st.sampled_from(["KA", "--ka"]))
def test_broken_scripts_are_read_and_edited_or_refused(parts: list[str], name: str) -> None:
    content = "".join(parts).encode()
    reading = Reading.of(content, Dialect.BASH)
    try:
        edited = edit(reading, [Request(name, "7")])
    except KnobRefused:
        return
    if edited.content != content:
        assert Reading.of(edited.content, Dialect.BASH).decided()[name].value in ("7", "7\r")
