"""Every case of tests/shapes: readings and edits as the TOMLs say, and bash as the oracle of both."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from knobledger.errors import KnobRefused
from knobledger.knobs import Dialect, Edited, Reading, Request, edit

SHAPES = Path(__file__).parent.parent / "shapes"


@cache
def oracle() -> ModuleType:
    spec = importlib.util.spec_from_file_location("shapes_oracle", SHAPES / "oracle.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["shapes_oracle"] = module
    spec.loader.exec_module(module)
    return module


def cases() -> list[Path]:
    return sorted(SHAPES.glob("*.toml")) + sorted((SHAPES / "own").glob("*.toml"))


@cache
def case_of(path: Path) -> Any:
    return oracle().Case(path)


def read(case: Any, content: bytes | None = None) -> Reading:
    sides = {name: side for name, side in case.files.items() if name != case.main}
    content = case.files[case.main] if content is None else content
    launch = case.data.get("launch", {}).get("line")
    return Reading.of(content, Dialect(case.data["dialect"]), sources=sides, launch=launch)


def request_of(wanted: dict[str, str]) -> Request:
    if "unset" in wanted:
        return Request(wanted["unset"], None)
    name, _, value = wanted["set"].partition("=")
    return Request(name, value)


def carry_out(case: Any, wanted: dict[str, str]) -> Edited:
    return edit(read(case), [request_of(wanted)])


def edits() -> list[Any]:
    return [
        pytest.param(path, index, id=f"{path.stem}-{index}")
        for path in cases()
        for index in range(len(case_of(path).edits))
    ]


@pytest.mark.parametrize("path", cases(), ids=lambda path: path.stem)
def test_reading(path: Path) -> None:
    case = case_of(path)
    reading = read(case)
    found = []
    for occurrence in reading.occurrences:
        if not occurrence.name.startswith(("K", "--k")):
            continue
        value = occurrence.value
        if value is not None:
            value = value.encode("utf-8", "surrogateescape").decode(case.encoding)
        told = {
            "name": occurrence.name,
            "kind": occurrence.kind,
            "value": value,
            "line": occurrence.line,
            "active": occurrence.active,
            "scope": occurrence.scope.value,
            "dynamic": occurrence.dynamic,
            "bare": occurrence.bare,
            "overridable": occurrence.overridable,
            "depends": occurrence.depends,
            "file": occurrence.file,
        }
        if not occurrence.depends:
            told["wins"] = occurrence.wins
        found.append(told)
    expected = []
    for knob in case.knobs:
        told = {"value": None, "bare": False, "overridable": False, "depends": False, "file": None} | knob
        if told["depends"]:
            del told["wins"]
        expected.append(told)
    assert found == expected
    if "warning" in case.data:
        assert reading.warnings


@pytest.mark.parametrize("path", cases(), ids=lambda path: path.stem)
def test_spans_hold_what_is_told(path: Path) -> None:
    case = case_of(path)
    reading = read(case)
    for occurrence in reading.occurrences:
        content = case.files[occurrence.file or case.main]
        start, end = occurrence.span
        assert content[start:end] == occurrence.raw.encode("utf-8", "surrogateescape")
        if not occurrence.bare:
            assert content.count(b"\n", 0, start) + 1 == occurrence.line
            assert start - (content.rfind(b"\n", 0, start) + 1) + 1 == occurrence.column


@pytest.mark.parametrize(("path", "index"), edits())
def test_edit(path: Path, index: int) -> None:
    case = case_of(path)
    wanted = case.edits[index]
    if wanted["outcome"] == "refused":
        with pytest.raises(KnobRefused) as refused:
            carry_out(case, wanted)
        assert repr(request_of(wanted).name) in refused.value.message
        assert isinstance(refused.value.values["occurrences"], list)
        return
    try:
        edited = carry_out(case, wanted)
    except KnobRefused:
        assert wanted["outcome"] == "either"
        return
    assert oracle().split_lines(edited.content) == oracle().split_lines(oracle().edited(case, wanted))
    request = request_of(wanted)
    changed = [(change.name, change.after) for change in edited.edits]
    assert request.name in [name for name, _ in changed]


@pytest.mark.parametrize("path", cases(), ids=lambda path: path.stem)
def test_bash_agrees(path: Path) -> None:
    """The launch sees what the reading says, before and after each edit that was made."""
    case = case_of(path)
    proof = oracle()
    proof.check_form(case)
    if not case.runs:
        return
    before = proof.run(case, case.files[case.main])
    proof.check_reading(case, before)
    assert before == case.data["run"]["before"]
    first = True
    for wanted in case.edits:
        try:
            edited = carry_out(case, wanted)
        except KnobRefused:
            continue
        after = proof.run(case, edited.content)
        proof.check_edit(case, wanted, before, after)
        if wanted["outcome"] == "ok" and first:
            assert after == case.data["run"]["after"]
            first = False
