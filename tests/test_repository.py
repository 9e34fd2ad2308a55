"""What holds for the repository as a whole: its files, its documents, its locks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from functools import cache
from pathlib import Path

import pytest

from knobledger import errors

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 400
"""of a module; a module on any longer list has outgrown its subject"""
TOP = {
    *("pyproject.toml", "README.md", "ledger", "src", "templates", "hosts.toml", "tests", "docs"),
    *(
        "Makefile",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "LICENSE",
        ".ci",
        "bench",
        ".gitignore",
        ".gitattributes",
    ),
    *("requirements.lock", "requirements-dev.lock"),
}
VAGUE = {"utils", "util", "helpers", "helper", "common", "manager", "handler", "misc", "base"}
LOCKS = ("requirements.lock", "requirements-dev.lock")
PLACE_OF_PACKAGES = re.compile(
    r"://[^/\s]*(?:pypi|python-?hosted|npm|registry|mirror|packages|\bdeb\.)[^/\s]*"
    r"|--(?:extra-)?index-url|--find-links|--trusted-host"
)
"""Where packages are fetched from is the machine's own business, so nothing here says it."""


@cache
def files() -> tuple[Path, ...]:
    """What is tracked, or would be; relative to the root."""
    if not (ROOT / ".git").exists():  # an unpacked source archive
        found = (path for name in TOP for path in [ROOT / name, *(ROOT / name).rglob("*")])
        return tuple(path.relative_to(ROOT) for path in found if path.is_file() and path.suffix != ".pyc")
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    names = [Path(name) for name in listed.split("\0") if name]
    return tuple(name for name in names if (ROOT / name).is_file())


def read(path: Path) -> str:
    return (ROOT / path).read_bytes().decode("utf-8", "replace")


def documents() -> list[Path]:
    return [path for path in files() if path.suffix == ".md"]


def modules() -> list[Path]:
    return [path for path in files() if path.suffix == ".py" and path.is_relative_to("src/knobledger")]


@cache
def commands() -> dict[str, object]:
    """Every command that the program shows, by its full name: `knob hypothesis open`."""
    import typer.main

    from knobledger.cli.main import app

    found: dict[str, object] = {}

    def walk(command: object, name: str) -> None:
        for child in getattr(command, "commands", {}).values():
            if not child.hidden:
                found[f"{name} {child.name}"] = child
                walk(child, f"{name} {child.name}")

    walk(typer.main.get_command(app), "knob")
    return found


def test_the_top_level_holds_what_it_should_and_no_more() -> None:
    assert {path.parts[0] for path in files()} == TOP


def test_no_address_of_a_registry() -> None:
    allowed = {Path("tests/test_repository.py"), Path("Makefile")}  # the options that keep addresses out
    found = [
        f"{path}:{number}: {hit[0]}"
        for path in files()
        for number, line in enumerate(read(path).splitlines(), 1)
        if (hit := PLACE_OF_PACKAGES.search(line)) and path not in allowed
    ]
    assert found == []


def test_no_folder_of_this_machine() -> None:
    folders = {str(ROOT), sys.prefix}
    assert [(path, folder) for path in files() for folder in folders if folder in read(path)] == []


@pytest.mark.parametrize("name", LOCKS)
def test_locks_pin_everything_by_hash_and_name_no_place(name: str) -> None:
    text = read(Path(name))
    assert "://" not in text
    for requirement in re.findall(r"^\S(?:.*\\\n)*.*", text, re.MULTILINE):
        if not requirement.startswith("#"):
            assert re.match(r"[a-z0-9.-]+==\S+(?: ;[^\\]+)? \\\n    --hash=sha256:[0-9a-f]{64}", requirement)


def test_locks_hold_all_dependencies_and_agree() -> None:
    project = tomllib.loads(read(Path("pyproject.toml")))["project"]
    locked = [dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", read(Path(name)), re.MULTILINE)) for name in LOCKS]
    needed = [re.split(r"[^a-z0-9.-]", one)[0] for one in project["dependencies"]]
    needed_dev = [re.split(r"[^a-z0-9.-]", one)[0] for one in project["optional-dependencies"]["dev"]]
    assert set(needed) <= locked[0].keys()
    assert {*needed, *needed_dev} <= locked[1].keys()
    assert locked[0].items() <= locked[1].items()


def test_each_template_begins_with_a_list_of_its_variables() -> None:
    templates = [path for path in files() if path.parts[0] == "templates"]
    assert templates
    for path in templates:
        assert re.match(r"\{#[^}]*?\bvariables: [^}]+#\}", read(path), re.IGNORECASE), path


def test_modules_are_short() -> None:
    lengths = {str(path): len(read(path).splitlines()) for path in modules()}
    assert {path: lines for path, lines in lengths.items() if lines > MAX_LINES} == {}


def test_modules_have_a_subject() -> None:
    assert [path for path in modules() if {path.stem, *path.parts} & VAGUE] == []


@pytest.mark.parametrize("path", documents(), ids=str)
def test_links_lead_somewhere(path: Path) -> None:
    prose = re.sub(r"^```.*?^```|`[^`\n]*`", "", read(path), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", prose):
        link = target[0] or target[1]
        if not re.match(r"[a-z]+:", link):
            file, _, anchor = link.partition("#")
            found = (ROOT / path).parent / file if file else ROOT / path
            assert found.exists(), f"{path} links to {link}"
            if anchor and found.suffix == ".md":
                assert anchor in anchors(found), f"{path} links to {link}"


def anchors(document: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", documents(), ids=str)
def test_commands_in_documents_exist(path: Path) -> None:
    """Each `knob VERB` and `make TARGET` that begins a line of code or a code span exists."""
    text = read(path)
    code = "\n".join(
        [
            *re.findall(r"^```.*?\n(.*?)^```", text, re.DOTALL | re.MULTILINE),
            *re.findall(r"`([^`\n]+)`", text),
        ]
    )
    for line in code.splitlines():
        words = line.removeprefix("$ ").split()
        if words[:1] == ["make"] and len(words) > 1 and re.fullmatch(r"[a-z]+", words[1]):
            assert re.search(rf"^{words[1]}:.*##", read(Path("Makefile")), re.MULTILINE), f"{path}: {line}"
        if words[:1] in (["knob"], ["knobledger"]):
            words = words[3:] if words[1:2] == ["-C"] else words[1:]
            if words and re.fullmatch(r"[a-z][a-z-]+", words[0]):
                assert f"knob {words[0]}" in commands(), f"{path}: {line}"


def test_each_command_is_documented_and_helps() -> None:
    headings = re.findall(r"^#+ (knob .+)$", read(Path("docs/cli.md")), re.MULTILINE)
    assert headings == list(commands())
    for name, command in commands().items():
        assert (getattr(command, "help", None) or "").strip(), f"{name} has no help"


def test_each_exit_code_is_documented() -> None:
    codes = {
        found.exit_code
        for found in vars(errors).values()
        if isinstance(found, type) and issubclass(found, errors.KnobError)
    }
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", read(Path("docs/cli.md")), re.MULTILINE)}
    assert documented == codes | {0}


def test_the_changelog_tells_of_this_version() -> None:
    version = tomllib.loads(read(Path("pyproject.toml")))["project"]["version"]
    headings = re.findall(r"^## \[(.+?)\]", read(Path("CHANGELOG.md")), re.MULTILINE)
    assert headings[0] in ("Unreleased", version)


def test_each_decision_record_has_its_parts() -> None:
    records = sorted(path for path in files() if path.is_relative_to("docs/decisions"))
    numbers = [int(path.name[:4]) for path in records if path.name != "README.md"]
    assert numbers == list(range(1, len(numbers) + 1))
    for path in records:
        if path.name != "README.md":
            assert re.findall(r"^## (.+)$", read(path), re.MULTILINE) == [
                "Context",
                "Decision",
                "Rejected",
            ], path


def test_each_dependency_is_used() -> None:
    imported = {
        name.split(".")[0]
        for path in modules()
        for name in re.findall(r"^\s*(?:from|import) ([\w.]+)", read(path), re.MULTILINE)
    }
    names = {"gitpython": "git", "tzdata": "zoneinfo"}  # zoneinfo itself falls back to tzdata
    packages = [
        re.split(r"[^a-z0-9.-]", one)[0]
        for one in tomllib.loads(read(Path("pyproject.toml")))["project"]["dependencies"]
    ]
    unused = [name for name in packages if names.get(name, name.replace("-", "_")) not in imported]
    assert unused == []


def test_documents_use_the_words_of_the_glossary() -> None:
    rejected = dict(
        re.findall(r"^\| \*\*(.+?)\*\* \|.*\| (.*?) \|$", read(Path("docs/glossary.md")), re.MULTILINE)
    )
    assert {
        "workspace",
        "target",
        "knob",
        "occurrence",
        "plan",
        "change",
        "revert",
        "restore",
    } <= rejected.keys()


def test_scripts_can_be_run() -> None:
    for path in files():
        if read(path).startswith("#!") and path.parts[0] in (".ci", "bench", "docs"):
            assert os.access(ROOT / path, os.X_OK), path


def test_the_wheel_brings_everything_that_the_package_reads(tmp_path: Path) -> None:
    wheel = pytest.importorskip("hatchling.builders.wheel")
    [built] = wheel.WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    packed = set(zipfile.ZipFile(built).namelist())
    for path in files():
        if path.parts[0] == "templates":
            assert f"knobledger/{path}" in packed
        elif path.is_relative_to("src"):
            assert str(path.relative_to("src")) in packed
