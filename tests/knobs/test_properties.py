"""Generated scripts: the reading agrees with the shell, and an edit changes what it says and no other byte."""

from __future__ import annotations

import os
from random import Random

import pytest
from agreement import Trial, back_differs, edit_disagrees, edit_strays, reading_disagrees, trials
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from launches import Seen, is_accepted, run
from serve_scripts import NAMES, Builder

from knobledger.errors import KnobRefused
from knobledger.knobs import Dialect, Reading, Request, changed_knobs, edit

FUZZING = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
"""A long run, for which pytest's limit of time must be off (`-o timeout=0`)."""
BATCH = 250
"""How many scripts one process of the shell runs."""
PURE = settings(max_examples=5000 if FUZZING else 80, deadline=None, suppress_health_check=list(HealthCheck))

RUN = settings(PURE, max_examples=100 if FUZZING else 20, phases=[Phase.explicit, Phase.generate])
"""A batch can not be shrunk."""


@st.composite
def scripts(draw: st.DrawFn, posix: bool = False) -> bytes:
    return Builder(Random(draw(st.integers(0, 2**32))), posix=posix).script()


@pytest.mark.timeout(1800)
@RUN
@given(seed=st.integers(0, 2**32))
def test_the_shell_agrees(seed: int) -> None:
    """20 times 250 scripts: the launches see what is read, before and after an edit, which can be set back."""
    contents = [Builder(Random(seed + index)).script() for index in range(BATCH)]
    befores = run(contents)
    wrong: list[str] = []
    made: list[tuple[Trial, list[Seen]]] = []
    for index, (content, seen) in enumerate(zip(contents, befores, strict=True)):
        if seen is None:
            assert not is_accepted(content, "bash")
            continue
        wrong += reading_disagrees(content, Dialect.BASH, seen)
        for trial in trials(Reading.of(content, Dialect.BASH), Random(seed + index), 1):
            if isinstance(trial, Trial):
                again = Reading.of(trial.after, Dialect.BASH)
                wrong += edit_strays(trial, again) + back_differs(trial, again)
                made.append((trial, seen))
    afters = run([trial.after for trial, _ in made])
    for (trial, seen), after in zip(made, afters, strict=True):
        wrong += edit_disagrees(trial, seen, after)
    assert wrong == []
    assert len(made) > BATCH / 3


@pytest.mark.tool("dash")
@pytest.mark.timeout(1800)
@settings(RUN, max_examples=4)
@given(seed=st.integers(0, 2**32))
def test_dash_agrees(seed: int) -> None:
    contents = [Builder(Random(seed + index), posix=True).script() for index in range(BATCH)]
    wrong = []
    for content, seen in zip(contents, run(contents, "dash"), strict=True):
        if seen is not None:
            wrong += reading_disagrees(content, Dialect.SH, seen)
    assert wrong == []


@pytest.mark.tool("dash")
def test_dash_may_keep_the_mark_of_an_assignment_before_a_command() -> None:
    script = b"set -a\nKA=1 srv --id 1\nset +a\nKA=2\nsrv --id 2\n"
    assert [seen and seen[-1].env for seen in run([script], "dash") + run([script])] == [{b"KA": b"2"}, {}]
    [last] = [one for one in Reading.of(script, Dialect.SH, launch=5).occurrences if one.line == 4]
    assert last.depends


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
