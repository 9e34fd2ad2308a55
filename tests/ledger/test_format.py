"""docs/ledger-format.md against the models: every kind, every field, its type, and the examples."""

from __future__ import annotations

import json
import re
import subprocess
import types
import typing
from pathlib import Path

import pytest
from ledgers import git, note

from knobledger.event import KINDS, class_of, decode, encode, id_of
from knobledger.events.asking import ProbeRun, StaleLine
from knobledger.events.entry import Event
from knobledger.events.notes import PrunedFile
from knobledger.events.serving import Before, GateSeen, SeenRunning
from knobledger.events.watching import SeenKnob, SeenProcess, SeenValue
from knobledger.ledger.finding import FindingKind
from knobledger.ledger.history import commit
from knobledger.ledger.index import Index
from knobledger.ledger.store import Ledger
from knobledger.ledger.verify import TAIL_NOTE, verify
from knobledger.measured import Measure, Run
from knobledger.plan import Ask, Edit, LaterEdit, PlannedFile, PlannedService
from knobledger.receipt import Frozen, GrepLine, Manifest, Receipt, Step

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "ledger-format.md").read_text("utf-8")

_WORDS = {str: "text", int: "integer", float: "number", bool: "true or false"}
_NAMES = {"EventId": "id", "Digest": "digest", "HostPath": "path", "TargetName": "target"}
_PARTS: tuple[type[Frozen], ...] = (
    *(Edit, Ask, PlannedFile, PlannedService, PrunedFile, LaterEdit),
    *(Manifest, Receipt, Step, GrepLine),
    *(Before, SeenRunning, GateSeen),
    *(SeenProcess, SeenValue, SeenKnob),
    *(ProbeRun, StaleLine, Run, Measure),
)
_KINDS: dict[type[Frozen], str] = {class_of(kind): kind for kind in KINDS}


def heading_of(model: type[Frozen]) -> str:
    return f"`{_KINDS[model]}`" if model in _KINDS else model.__name__


def type_word(hint: object) -> str:
    """A field's type, in the words of the page."""
    if isinstance(hint, typing.NewType):
        return _NAMES[hint.__name__]
    match typing.get_origin(hint):
        case typing.Literal:
            return " or ".join(f"`{value}`" for value in typing.get_args(hint))
        case types.UnionType | typing.Union:
            return " or ".join(
                "null" if one is type(None) else type_word(one) for one in typing.get_args(hint)
            )
        case origin if origin is tuple:
            return f"list of {type_word(typing.get_args(hint)[0])}"
    if isinstance(hint, type) and issubclass(hint, Frozen):
        return f"[{hint.__name__}](#{hint.__name__.lower()})"
    return _WORDS[hint]  # type: ignore[index]


def fields(model: type[Frozen]) -> dict[str, str]:
    """The fields of a model that the page lists under it: the common ones stand under `Event` alone."""
    hints = typing.get_type_hints(model)
    common = (
        set() if model is Event else {*Event.__struct_fields__, "kind"} if issubclass(model, Event) else set()
    )
    return {name: type_word(hints[name]) for name in model.__struct_fields__ if name not in common}


def table(heading: str) -> dict[str, tuple[str, str]]:
    """Field to (type, meaning), from the table under that heading."""
    found = re.search(rf"^###? {re.escape(heading)}\n(.*?)(?=^##|\Z)", PAGE, re.M | re.S)
    assert found, f"no heading {heading!r}"
    rows = (re.split(r"(?<!\\)\|", line)[1:-1] for line in found[1].splitlines() if line.startswith("| `"))
    return {name.strip(" `"): (kind.strip(), meaning.strip()) for name, kind, meaning in rows}


@pytest.mark.parametrize("model", [*_KINDS, *_PARTS], ids=lambda model: model.__name__)
def test_every_field_is_described(model: type[Frozen]) -> None:
    described = table(heading_of(model))
    assert {name: kind for name, (kind, _) in described.items()} == fields(model)
    assert all(meaning for _, meaning in described.values())


def test_the_common_fields_are_described() -> None:
    described = table("What every event says")
    assert {name: kind for name, (kind, _) in described.items()} == {**fields(Event), "kind": "text"}


def test_every_kind_and_every_part_is_on_the_page() -> None:
    listed = set(re.findall(r"^### `(\w+)`$", PAGE, re.M))
    assert listed == set(KINDS)
    reached = set(_KINDS)
    while new := {part for model in reached for part in _models_in(model)} - reached:
        reached |= new
    assert reached - set(_KINDS) == set(_PARTS)


def _models_in(model: type[Frozen]) -> set[type[Frozen]]:
    def walk(hint: object) -> set[type[Frozen]]:
        if isinstance(hint, type) and issubclass(hint, Frozen):
            return {hint}
        return {one for inner in typing.get_args(hint) for one in walk(inner)}

    return {one for hint in typing.get_type_hints(model).values() for one in walk(hint)}


def test_the_example_is_an_event_with_that_id() -> None:
    [content] = re.findall(r"^\{\"about\".*\}$", PAGE, re.M)
    example = content.encode()
    assert encode(decode(example)) == example
    assert f"{id_of(example)}.json" in PAGE
    assert "/".join(json.loads(content)["at"][:10].split("-")) in PAGE


def test_the_page_says_what_verify_can_not_see() -> None:
    assert TAIL_NOTE in " ".join(PAGE.split())


def test_every_kind_of_finding_is_described() -> None:
    listed = re.search(r"^## What `knob verify` says\n(.*?)^##", PAGE, re.M | re.S)
    assert listed
    assert tuple(re.findall(r"^\| `(\w+)` \|", listed[1], re.M)) == typing.get_args(FindingKind)


def test_the_commands_of_the_page_do_what_it_says(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    ledger = Ledger(tmp_path)
    ids = [ledger.append(note(str(n), n)) for n in range(2)]
    commit(tmp_path, ids, "m")
    [by_hand] = re.findall(r"```sh\n(.*?)```", PAGE, re.S)

    def type_it() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-c", by_hand], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    clean = type_it()
    assert (clean.stdout, clean.stderr) == ("", "")
    path = next(ledger.folder.rglob(f"{ids[0]}.json"))
    path.chmod(0o644)
    path.write_text("{}")
    assert path.name in type_it().stdout
    path.unlink()
    git(tmp_path, "commit", "-qam", "delete")
    assert path.name in type_it().stdout


def test_the_ledger_ships_empty_but_for_a_page_that_verify_ignores(tmp_path: Path) -> None:
    shipped = ROOT / "ledger"
    assert [path.name for path in shipped.rglob("*") if path.is_file()] == ["README.md"]
    assert verify(Ledger(ROOT)) == () or not (ROOT / ".git").exists()
    assert "docs/ledger-format.md" in (shipped / "README.md").read_text("utf-8")
    assert list(Ledger(ROOT).events()) == []
    assert Index(Ledger(tmp_path)).find() == []
