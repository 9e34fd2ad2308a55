"""A planted secret appears in no output, event, index or git object; only where its bytes must be kept."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import zlib
from pathlib import Path

import pytest
from clilab import Lab

from knobledger.cli.main import run

OLD, NEW = "hf_Qb7planted0oldTokenValue1234567", "hf_Zk9planted0newTokenValue7654321"


def _say(*argv: str) -> str:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        run(list(argv))
    return said.getvalue()


def test_a_planted_secret_appears_nowhere(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    script = lab.host / "serve.sh"
    text = script.read_text().replace("export NCCL", f"export HF_TOKEN={OLD}\nexport NCCL")
    twice = "if true; then\n  export DB_PASSWORD=planted0one\nelse\n  export DB_PASSWORD=planted0two\nfi\n"
    text = text.replace("export CUDA", twice + "export CUDA")
    script.write_text(text + f"# curl -H 'Authorization: Bearer {OLD}'\n")
    said = "".join(
        _say(*argv)
        for argv in (
            ("status",),
            ("status", "--json"),
            ("set", "gpu1/decode", f"HF_TOKEN={NEW}", "--why", f"rotated {OLD}", "--plan"),
            ("set", "gpu1/decode", f"HF_TOKEN={NEW}", "--go-ahead", "--json"),
            ("set", "gpu1/decode", f"HF_TOKEN={NEW}", "--go-ahead"),
            ("set", "gpu1/decode", f"HF_TOKN={NEW}", "--go-ahead"),
            ("set", "gpu1/decode", NEW),
            ("set", "gpu1/decode", "DB_PASSWORD=planted0new0password", "--go-ahead"),
            ("set", "gpu1/decode", "DB_PASSWORD=planted0new0password", "--go-ahead", "--json"),
            ("scan", str(script), "--set", "DB_PASSWORD=planted0new0password"),
            ("unset", "gpu1/decode", "DB_PASSWORD", "--go-ahead"),
            ("revert", "@", "--plan"),
            ("revert", "@", "--go-ahead"),
            ("restore", "@", "--go-ahead"),
            ("show", "@"),
            ("blame", "gpu1/decode"),
            ("diff", "gpu1/decode", "@", "live"),
            ("log", "--json"),
            ("log", "--knob", "HF_TOKEN"),
            ("since", "1h", "--live"),
            ("note", f"the token was {NEW}"),
            ("plans",),
            ("backups", "gpu1/decode"),
            ("verify",),
        )
    )
    assert NEW in script.read_text()
    assert "HF_TOKEN" in said
    assert "DB_PASSWORD" in said
    for secret in (OLD, NEW, "planted0one", "planted0two", "planted0new0password"):
        assert secret not in said
        for path in lab.root.rglob("*"):
            if path.is_file() and ".knobledger/snapshots" not in str(path):
                assert secret.encode() not in _plain(path), path
    kept = [path for path in (lab.root / ".knobledger" / "snapshots").rglob("*") if path.is_file()]
    assert kept
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}
    assert (lab.root / ".knobledger").stat().st_mode & 0o077 == 0
    tracked = subprocess.run(
        ("git", "ls-files"), cwd=lab.root, capture_output=True, text=True, check=True
    ).stdout
    assert not [name for name in tracked.splitlines() if not name.startswith("ledger/events/")]


def test_a_changed_secret_is_visible_and_its_value_is_not(lab: Lab) -> None:
    script = lab.host / "serve.sh"
    script.write_text(script.read_text().replace("export NCCL", f"export HF_TOKEN={OLD}\nexport NCCL"))
    changed, back = (
        json.loads(_say("set", "gpu1/decode", f"HF_TOKEN={token}", "--go-ahead", "--json").splitlines()[0])
        for token in (NEW, OLD)
    )  # the lines after the first are the footer
    [edit], [undo] = changed["edits"], back["edits"]
    assert edit["before"] != edit["after"]
    assert (edit["before"], edit["after"]) == (undo["after"], undo["before"])


def _plain(path: Path) -> bytes:
    content = path.read_bytes()
    if f"{os.sep}.git{os.sep}objects{os.sep}" in str(path):
        with contextlib.suppress(zlib.error):
            return zlib.decompress(content)
    return content
