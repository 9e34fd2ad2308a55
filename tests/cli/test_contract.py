"""The command contract: the keys of each JSON document, exit codes, and how targets, changes and moments are named."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from clilab import Lab

from knobledger import errors
from knobledger.cli.main import app, run

KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"
PLAN = [
    "plan",
    "target",
    "path",
    "edits",
    "base",
    "result",
    "diff",
    "clean",
    "later_edits",
    "restart",
    "expires",
    "approved",
    "stale",
    "warnings",
    "targets",
]
OCCURRENCE = [
    "name",
    "kind",
    "value",
    "raw",
    "line",
    "column",
    "span",
    "active",
    "wins",
    "scope",
    "form",
    "dynamic",
    "bare",
    "overridable",
    "depends",
    "file",
    "secret",
]
CHANGE = [
    "change",
    "at",
    "actor",
    "on_behalf_of",
    "target",
    "kind",
    "edits",
    "why",
    "hypothesis",
    "finding",
    "status",
    "by",
]

TARGET = {"target", "path", "base", "result", "edits", "diff", "outcome", "exit", "message"}
SINCE = {"from", "until", "zone", "changes", "restarts", "observed", "hypotheses", "drift"}


def ask(*argv: str, code: int = 0) -> dict[str, Any]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
        got = run([*argv, "--json"])
    assert got == code, said.getvalue()
    found: dict[str, Any] = json.loads(said.getvalue())
    return found


def test_plan_and_change(lab: Lab) -> None:
    ask("hypothesis", "open", "h", "512 is faster")
    plan = ask("set", "gpu1/decode", f"{KNOB}=512", "--plan", "--why", "A/B", "--kind", "perf", "--for", "h")
    assert set(PLAN) <= set(plan)
    assert plan["edits"] == [{"name": KNOB, "kind": "env", "before": "256", "after": "512"}]
    assert (plan["approved"], plan["stale"], plan["clean"]) == (False, False, False)
    assert "receipt" not in plan
    assert set(ask("plans")["plans"][0]) == set(plan)
    assert ask("approve", plan["plan"])["approved"] is True
    change = ask("apply", plan["plan"][:8])
    assert set(PLAN) | {"change", "receipt", "restart"} <= set(change)
    assert change["change"] == plan["plan"]
    receipt = change["receipt"]
    assert {"backup", "digest", "grep", "matches_backup", "steps", "clock_offset_s", "manifest"} <= set(
        receipt
    )
    assert receipt["digest"] == plan["result"]
    assert receipt["grep"] == [{"line": 5, "text": f"export {KNOB}=512"}]
    assert [step["step"] for step in receipt["steps"]] == (
        ["probe", "resolve", "lock", "compare", "backup", "stage", "swap", "verify"]
    )
    assert all(set(step) == {"step", "ok", "detail"} and step["ok"] for step in receipt["steps"])
    assert set(change["targets"][0]) >= TARGET


def test_looking(lab: Lab) -> None:
    ask("set", "gpu1/decode", f"{KNOB}=512", "--go-ahead", "--why", "A/B")
    ask("unset", "gpu1/decode", KNOB, "--go-ahead", "--label", "pretgt")
    restored = ask("restore", "serve.sh.pretgt.bak", "--go-ahead")
    assert restored["clean"] is True
    assert restored["receipt"]["matches_backup"] is True
    status = ask("status")["targets"][0]
    assert {"target", "path", "digest", "drift", "restart_owed", "knobs"} <= set(status)
    assert all({*OCCURRENCE, "change", "actor", "at", "why"} <= set(knob) for knob in status["knobs"])
    since = ask("since", "1h")
    assert set(since) >= SINCE
    assert all(set(CHANGE) <= set(change) for change in since["changes"])
    assert [change["status"] for change in since["changes"]] == ["restored", "reverted", "in effect"]
    assert [change["by"] for change in since["changes"]] == [restored["change"], restored["change"], None]
    assert ask("log", "--knob", KNOB, "--kind", "restore")["entries"][0]["change"] == restored["change"]
    lines = ask("blame", "gpu1/decode")["lines"]
    assert lines[4]["change"] == restored["change"]
    assert [backup["state"] for backup in ask("backups", "gpu1/decode")["backups"]] == ["ok"] * 3
    assert ask("diff", "gpu1/decode", "@-", "live")["edits"][0]["after"] == "512"
    changes = [change["change"] for change in since["changes"]]
    for names, change in zip((("@-2", "@--"), ("@-1", "@-"), ("@", "@-0")), changes, strict=True):
        assert {ask("show", name)["change"] for name in names} == {change}
    assert ask("diff", "gpu1/decode", "@-1", "live") == ask("diff", "gpu1/decode", "@-", "live")
    assert ask("show", "@-3", code=1)["error"]["message"] == "there is no change '@-3': the ledger has 3"
    assert ask("verify") == {"ok": True, "findings": [], "note": ask("verify")["note"]}
    assert ask("recover") == {"settled": [], "unsettled": []}
    assert ask("index", "--rebuild")["rebuilt"] is True


def test_scan(lab: Lab, tmp_path: Path) -> None:
    script = lab.host / "serve.sh"
    before = script.read_bytes()
    found = ask("scan", str(script))["files"][0]
    assert set(found) == {"file", "dialect", "knobs", "warnings"}
    assert all(set(OCCURRENCE) <= set(knob) for knob in found["knobs"])
    edit = ask(
        "scan",
        str(script),
        "--set",
        f"{KNOB}=512",
        "--set=--mem-fraction-static=0.9",
        "-o",
        str(tmp_path / "o"),
    )
    assert script.read_bytes() == before
    assert (tmp_path / "o").read_bytes() == before.replace(b"CTAS=256", b"CTAS=512").replace(b"0.85", b"0.9")
    assert len(edit["edits"]) == 2


def test_scan_with_a_file_that_is_sourced(tmp_path: Path) -> None:
    (tmp_path / "serve.sh").write_text("export KA=1\n. ./site.sh\nsrv\n")
    (tmp_path / "site.sh").write_text("export KA=2\n")
    script, side = str(tmp_path / "serve.sh"), str(tmp_path / "site.sh")
    alone, told = ask("scan", script)["files"][0], ask("scan", script, "--with", side)["files"][0]
    assert [warning["line"] for warning in alone["warnings"]] == [2]
    assert (
        [(knob["value"], knob["file"], knob["wins"]) for knob in told["knobs"]],
        [warning["message"] for warning in told["warnings"]],
    ) == ([("1", None, False), ("2", "site.sh", True)], [])
    refused = ask("scan", script, "--with", side, "--set", "KA=3", code=1)
    assert refused["error"]["message"] == "'KA' is decided in 'site.sh'"
    assert "nope" in ask("scan", script, "--with", str(tmp_path / "nope"), code=1)["error"]["message"]


def test_flags_are_knobs_too(lab: Lab) -> None:
    for words in (("--set=--mem-fraction-static=0.9",), ("--", "--mem-fraction-static=0.8")):
        with contextlib.redirect_stdout(io.StringIO()):
            assert run(["set", "gpu1/decode", "--go-ahead", *words]) == 0
    assert b"--mem-fraction-static 0.8\n" in (lab.host / "serve.sh").read_bytes()
    ask("unset", "gpu1/decode", "--unset=--mem-fraction-static", "--go-ahead")
    assert b"mem-fraction" not in (lab.host / "serve.sh").read_bytes()


@pytest.mark.parametrize(
    ("argv", "kind", "code"),
    [
        (("set", "gpu1/decode", "NOPE=1", "--go-ahead"), "knob_refused", 1),
        (("set", "gpu1/nope", "A=1"), "unknown", 1),
        (("show", "zz"), "unknown", 1),
        (("set", "gpu1/decode", "NCCL_DEBUG=INFO"), "not_approved", 1),
        (("fly",), "usage", 2),
        (("since", "nonn"), "usage", 2),
    ],
    ids=["no such knob", "no such target", "no id", "no terminal", "no command", "no time"],
)
def test_errors_are_one_json_document(lab: Lab, argv: tuple[str, ...], kind: str, code: int) -> None:
    error = ask(*argv, code=code)["error"]
    assert error["kind"] == kind
    assert error["message"]
    assert error["hint"]


def test_a_host_that_is_down_is_said_after_the_others(lab: Lab) -> None:
    config = lab.root / "hosts.toml"
    config.write_text(
        config.read_text()
        + '[hosts.gone]\naddress = "127.0.0.1"\nport = 9\n[hosts.gone.services.x]\nscript = "/x"\n'
    )
    status = ask("status", code=20)
    assert [bool(target["error"]) for target in status["targets"]] == [False, True]
    assert status["targets"][0]["knobs"]
    error = ask("set", "gone/x", "A=1", "--go-ahead", code=20)["error"]
    assert error["kind"] == "unreachable"
    assert "[hosts.gone] of hosts.toml" in error["hint"]
    assert status["targets"][1]["hint"] == error["hint"]
    assert ask("check", "gone", code=20)["hosts"][0]["hint"] == error["hint"]
    assert ask("adopt", "gone/x", code=20)["targets"][0]["hint"] == error["hint"]


def test_what_could_not_be_read_is_not_said_to_be_nothing(lab: Lab) -> None:
    (lab.host / "serve.sh").rename(lab.host / "elsewhere.sh")
    told = lab.run("knob adopt gpu1/decode")
    assert "1 of 1 targets could not be read\nnothing was recorded" in told
    assert "nothing to adopt" not in told
    config = (lab.root / "hosts.toml").read_text()
    key = next(line for line in config.splitlines() if line.startswith("identity_file"))
    (lab.root / "hosts.toml").write_text(config.replace(key, 'identity_file = "/none"'))
    for line in ("knob adopt gpu1/decode", "knob status", "knob check", "knob drift"):
        assert "hint: correct `identity_file` in [hosts.gpu1] of hosts.toml" in " ".join(
            lab.run(line).split()
        )


def test_every_error_has_its_exit_code() -> None:
    codes = {1, 2, 10, 11, 20, 21, 22, 23, 30, 70, 130}
    found = set()
    todo = [errors.KnobError]
    while todo:
        error = todo.pop()
        todo += error.__subclasses__()
        assert error.exit_code in codes
        found.add(error.exit_code)
    assert found == codes


def test_one_plan_on_several_targets(lab: Lab) -> None:
    (lab.host / "prefill.sh").write_bytes((lab.host / "serve.sh").read_bytes())
    config = lab.root / "hosts.toml"
    config.write_text(
        config.read_text()
        + f'[hosts.gpu1.services.prefill]\nscript = "{lab.host}/prefill.sh"\n'
        + '[groups.pd]\nservices = ["gpu1/decode", "gpu1/prefill"]\n'
    )
    change = ask("set", "pd", f"{KNOB}=512", "--go-ahead")
    assert [target["outcome"] for target in change["targets"]] == ["applied", "applied"]
    assert b"CTAS=512" in (lab.host / "prefill.sh").read_bytes()
    back = ask("revert", "@", "--go-ahead")
    assert [target["receipt"]["matches_backup"] for target in back["targets"]] == [True, True]
    assert ask("set", "gpu1/*", f"{KNOB}=256", "--go-ahead")["changed"] is False


@pytest.mark.parametrize("line", ["--help", "-h set", "-C . --help", "-C . --on-behalf-of x -h revert"])
def test_the_programs_help_names_every_command(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(line.split()) == 0
    said = capsys.readouterr().out
    names = [info.name for info in app.registered_commands]
    assert {"set", "status", "init"} <= set(names)
    assert [name for name in names if f"\n  {name} " not in said] == []


@pytest.mark.parametrize("line", ["revet x", "-C . revet x", "--on-behalf-of set revet"])
def test_a_mistyped_command_names_the_nearest(line: str) -> None:
    assert "did you mean 'revert'" in ask(*line.split(), code=2)["error"]["message"].lower()


def test_an_option_s_value_is_no_command(lab: Lab) -> None:
    assert ask("--on-behalf-of", "set", "status", "--recorded")["targets"]


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        ("", ""),
        ('[hosts.gpu1]\ntransport = "local"\n', ""),
        (
            '[hosts.gpu1]\ntransport = "local"\n[hosts.gpu1.services.decode]\nfiles = {{ env = "{0}" }}\n',
            "A=1",
        ),
    ],
    ids=["no host", "no service", "no script"],
)
def test_looking_where_there_is_little_to_see(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: str, shown: str
) -> None:
    env = tmp_path / "decode.env"
    env.write_text("A=1\n")
    (tmp_path / "hosts.toml").write_text(lines.format(env))
    for words in (["status"], ["status", "--recorded"], ["since", "1h", "--live"], ["drift"]):
        assert run(["-C", str(tmp_path), *words]) == 0
        out, err = capsys.readouterr()
        if words == ["status"]:
            assert shown in out
        if not shown and words != ["drift"]:
            assert "add `[hosts.HOST.services.NAME]`" in err


@pytest.mark.parametrize("words", [(), ("docs",)])
def test_nothing_asked_for_is_the_help_as_it_is(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert run([*words, "--help"]) == 0
    assert said.err == capsys.readouterr().out
