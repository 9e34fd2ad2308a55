"""The undoing of a change: cases as data, then properties."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from knobledger.knobs import Dialect
from knobledger.undo import Clash, Undone, line_changes, undo

HEAD = b"#!/bin/bash\nexport CUDA_VISIBLE_DEVICES=4\n"
KNOB = b"export K=512\n"
TAIL = b"export NCCL_DEBUG=WARN\nexec srv --port 1\n"
DOG = b"export WATCHDOG=60\n"

KEPT = [
    ("clean", HEAD + TAIL, HEAD + KNOB + TAIL, HEAD + TAIL, HEAD + KNOB + TAIL, True),
    (
        "a later line far away stays",
        HEAD + TAIL,
        HEAD + KNOB + TAIL,
        DOG.join([HEAD + TAIL, b""]),
        None,
        False,
    ),
    (
        "a later line at the same place stays, after",
        HEAD + TAIL,
        HEAD + KNOB + TAIL,
        HEAD + DOG + TAIL,
        HEAD + KNOB + DOG + TAIL,
        False,
    ),
    (
        "a neighbouring line that was changed is no conflict",
        HEAD + TAIL,
        HEAD + KNOB + TAIL,
        HEAD.replace(b"=4", b"=5") + TAIL,
        HEAD.replace(b"=4", b"=5") + KNOB + TAIL,
        False,
    ),
    (
        "two neighbours changed",
        b"export A=1\nexport B=1\n",
        b"export A=0\nexport B=1\n",
        b"export A=1\nexport B=2\n",
        b"export A=0\nexport B=2\n",
        False,
    ),
    (
        "already undone by somebody",
        HEAD + TAIL,
        HEAD + KNOB + TAIL,
        HEAD + KNOB + TAIL,
        HEAD + KNOB + TAIL,
        True,
    ),
    (
        "no newline at the end",
        b"export A=1\nsrv",
        b"export A=2\nsrv",
        b"export A=1\nexport B=1\nsrv",
        b"export A=2\nexport B=1\nsrv",
        False,
    ),
    (
        "a last line without newline comes back in the middle",
        b"x\n",
        b"x\nexport K=1",
        b"x\nexport B=1\n",
        b"x\nexport K=1\nexport B=1\n",
        False,
    ),
    (
        "CRLF stays",
        b"export A=1\r\nsrv\r\n",
        b"export A=2\r\nsrv\r\n",
        b"# c\r\nexport A=1\r\nsrv\r\n",
        b"# c\r\nexport A=2\r\nsrv\r\n",
        False,
    ),
]


@pytest.mark.parametrize(
    ("base", "theirs", "ours", "expected", "clean"), [c[1:] for c in KEPT], ids=[c[0] for c in KEPT]
)
def test_undo_keeps_later_edits(
    base: bytes, theirs: bytes, ours: bytes, expected: bytes | None, clean: bool
) -> None:
    outcome = undo(ours=ours, base=base, theirs=theirs, dialect=Dialect.BASH)
    assert isinstance(outcome, Undone), outcome
    if expected is None:
        expected = HEAD + KNOB + TAIL + DOG
    assert outcome.content == expected
    assert outcome.clean is clean


CLASHES = [
    ("the same line", b"export A=1\nsrv\n", b"export A=0\nsrv\n", b"export A=2\nsrv\n", ("A",)),
    (
        "the same knob on a new line",
        HEAD + TAIL,
        HEAD + KNOB + TAIL,
        b"#!/bin/bash\nexport K=300\nexport CUDA_VISIBLE_DEVICES=4\n" + TAIL,
        ("K",),
    ),
    (
        "another knob on the same line",
        b"export A=1 B=1\nsrv\n",
        b"export A=0 B=1\nsrv\n",
        b"export A=1 B=2\nsrv\n",
        (),
    ),
    ("the line was deleted", b"export A=1\nsrv\n", b"export A=0\nsrv\n", b"srv\n", ("A",)),
    (
        "the same knob put in at the same place",
        HEAD + TAIL,
        HEAD + KNOB + TAIL,
        HEAD + b"export K=7\n" + TAIL,
        ("K",),
    ),
]


@pytest.mark.parametrize(
    ("base", "theirs", "ours", "knobs"), [c[1:] for c in CLASHES], ids=[c[0] for c in CLASHES]
)
def test_undo_refuses_to_guess(base: bytes, theirs: bytes, ours: bytes, knobs: tuple[str, ...]) -> None:
    outcome = undo(ours=ours, base=base, theirs=theirs, dialect=Dialect.BASH)
    assert isinstance(outcome, Clash)
    assert outcome.knobs == knobs
    assert outcome.later == line_changes(base, ours)


_name = st.sampled_from("ABCDEF")
_scripts = st.dictionaries(_name, st.integers(0, 9), max_size=6)


def _script(knobs: dict[str, int]) -> bytes:
    return (
        b"#!/bin/sh\n"
        + b"".join(f"export K{n}={v}\n".encode() for n, v in sorted(knobs.items()))
        + b"exec srv\n"
    )


@given(before=_scripts, after=_scripts)
def test_edit_then_undo_is_the_identity(before: dict[str, int], after: dict[str, int]) -> None:
    outcome = undo(ours=_script(after), base=_script(after), theirs=_script(before), dialect=Dialect.BASH)
    assert isinstance(outcome, Undone)
    assert outcome.content == _script(before)
    assert outcome.clean


@given(
    before=_scripts,
    change=st.dictionaries(_name, st.integers(10, 19), max_size=2),
    later=st.dictionaries(_name, st.integers(20, 29), max_size=2),
)
@example(before={"C": 0}, change={"C": 10, "A": 10}, later={"B": 20})
def test_an_undo_gives_both_or_refuses(
    before: dict[str, int], change: dict[str, int], later: dict[str, int]
) -> None:
    base = before | change
    ours = base | later
    outcome = undo(ours=_script(ours), base=_script(base), theirs=_script(before), dialect=Dialect.BASH)
    if isinstance(outcome, Clash):
        assert set(change) & set(later)
        return
    wanted = {**before, **later}
    assert outcome.content == _script(wanted)


@given(before=_scripts, after=_scripts)
def test_line_changes_name_each_line_that_differs(before: dict[str, int], after: dict[str, int]) -> None:
    changes = line_changes(_script(before), _script(after))
    new = {c.text for c in changes if c.sign == "+"}
    assert {t for t in _script(after).split(b"\n") if t not in _script(before).split(b"\n")} <= new
