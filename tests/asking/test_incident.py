"""The incident from tuning to addendum, by the product's own commands, on real files behind a real OpenSSH server."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import servers
from knobledger.cli.main import run
from workspaces import KNOB, SERVE

pytestmark = pytest.mark.tool("sshd", "ssh-keygen", "git")

SLUG = "knob-hangs-harness"
AB = """\
# Decode throughput, output tokens/s

| concurrency | 256 (baseline) | 512 (variant) | change |
|---|---|---|---|
| C48 | 684.7 | 680.6 | -0.6 % |
| C64 | 719.5 | 811.7 | +12.8 % |
| C80 | 833.0 | 842.7 | +1.2 % |
| C96 | 799.3 | 844.6 | +5.7 % |
"""
ISSUE = """\
# DSV4 PD deadlock

The agent harness hangs after several rounds. The culprit is TARGET_CTAS: since it was raised to 512,
requests never come back. A co-restart of prefill, decode and router fixed the hang.

## Inflight fixes

Requests were pinned in the prefill inflight queue. The release path is fixed, and a timeout watches over it.
"""
PLAN = f"""\
# Decode performance plan

- `{KNOB}=256` stays, because raising it causes the deadlock.
"""


class Operator:
    """A person at a terminal: a workspace, two scripts on a host, and documents in the workspace's git."""

    def __init__(self, root: Path, host: Path, sshd: servers.Sshd) -> None:
        self.root, self.host = root, host
        host.mkdir()
        self.decode, self.prefill = host / "serve_dsv4_decode.sh", host / "serve_dsv4_prefill.sh"
        self.decode.write_bytes(SERVE)
        self.prefill.write_bytes(SERVE.replace(b"CTAS=256", b"QUEUE=4"))
        self.knob("init", str(root))
        services = "".join(
            f'[hosts.gpu1.services.{name}]\nscript = "{path}"\n'
            for name, path in (("decode", self.decode), ("prefill", self.prefill))
        )
        (root / "hosts.toml").write_text(sshd.toml("gpu1") + services)
        (root / "DSV4_PD_DEADLOCK_ISSUE.md").write_text(ISSUE)
        (root / "DSV4_DECODE_PERF_PLAN.md").write_text(PLAN)
        (root / "ab.md").write_text(AB)
        self.git("add", "-A")
        self.git("commit", "-qm", "begin")

    def knob(self, *words: str, code: int = 0) -> str:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            got = run(["-C", str(self.root), *words] if words[0] != "init" else list(words))
        assert got == code, out.getvalue() + err.getvalue()
        return out.getvalue() + (err.getvalue() if code else "")

    def json(self, *words: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.knob(*words, "--json"))
        return found

    def git(self, *words: str) -> str:
        return subprocess.run(
            ("git", "-c", "user.name=anna", "-c", "user.email=anna@example.org", *words),
            cwd=self.root,
            capture_output=True,
            text=True,
            check=True,
        ).stdout


@pytest.fixture
def operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Operator]:
    monkeypatch.setenv("KNOBLEDGER_ACTOR", "anna")
    monkeypatch.setenv("TZ", "Europe/Berlin")
    (tmp_path / "ws").mkdir()
    monkeypatch.chdir(tmp_path / "ws")
    with servers.openssh(tmp_path / "sshd") as sshd:
        yield Operator(tmp_path / "ws", tmp_path / "host", sshd)


@pytest.mark.timeout(400)
def test_the_incident(operator: Operator) -> None:
    knob, tell = operator.knob, operator.json

    # tuning, and what was measured
    tuned = tell(
        "set", "gpu1/decode", f"{KNOB}=512", "--kind", "perf", "--why", "A/B: C64 +12.8 %", "--go-ahead"
    )
    tuned_bytes = operator.decode.read_bytes()
    knob("bench", "table", "ab.md", "--change", tuned["change"])
    knob("note", "exact arithmetic: no risk for correctness", "--on", tuned["change"])
    cells = tell("bench", "show", "@")["cells"]
    assert [(c["at"], c["baseline"], c["variant"], c["change_pct"], c["call"]) for c in cells] == [
        ("C48", 684.7, 680.6, -0.6, "not enough data"),
        ("C64", 719.5, 811.7, 12.81, "not enough data"),
        ("C80", 833.0, 842.7, 1.16, "not enough data"),
        ("C96", 799.3, 844.6, 5.67, "not enough data"),
    ]
    assert all((c["n_baseline"], c["n_variant"]) == (1, 1) for c in cells)
    assert "baseline falls from C80 833.0 to C96 799.3" in knob("bench", "show", "@")
    knob("bench", "show", "@", "--plot", "ab.svg")
    assert (operator.root / "ab.svg").read_text().startswith("<svg")

    # the symptom, a fix of its own, the revert
    knob("hypothesis", "open", SLUG, "the knob hangs the multi-round harness", "--about", "@")
    knob("evidence", SLUG, "--supports", "it worked at noon; the only deploy since", "--weight", "timing")
    assert "on timing alone" in knob("hypothesis", "list")
    fix = tell("set", "gpu1/prefill", "QUEUE_RELEASE=1", "--add", "--kind", "fix", "--go-ahead",
               "--why", "requests pinned in the prefill inflight queue")  # fmt: skip
    revert = tell("unset", "gpu1/decode", KNOB, "--for", SLUG, "--label", "pretgt_revert_2025",
                  "--why", "harness hangs since", "--go-ahead")  # fmt: skip
    assert revert["kind"] == "mitigation"
    backup = operator.host / ".knobledger" / "serve_dsv4_decode.sh.pretgt_revert_2025.bak"
    assert backup.read_bytes() == tuned_bytes
    assert tell("clawback") == {"items": [], "keep": []}
    watchdog = tell("set", "gpu1/decode", "INFLIGHT_TIMEOUT=60", "--add", "--kind", "fix", "--go-ahead",
                    "--why", "watchdog for pinned requests")  # fmt: skip

    # the evidence against it, and the gate that it makes
    for text in (
        "the engines are idle while it hangs",
        "the inflight gauge returns to 0",
        "the watchdog never fired",
    ):
        knob("evidence", SLUG, "--contradicts", text)
    told = knob("probe", SLUG, "--contradicts-if", "pass", "--times", "24", "--text",
                "the reproducer, past the proxy", "--", "sh", "-c", "exit 0")  # fmt: skip
    assert "24 of 24 rounds pass" in told
    refused = knob("set", "gpu1/decode", "NCCL_DEBUG=INFO", "--for", SLUG, "--kind", "mitigation", code=1)
    assert refused.index("experiment: 24 of 24") < refused.index("observation: the engines")
    assert "--despite" in refused

    # the verdict, its sweep, what can come back
    found = tell(
        "verdict", SLUG, "refuted", "--because", "24 of 24 pass past the proxy", "--cause", "the proxy"
    )
    assert [(c["change"], c["finding"]) for c in found["changes"]] == [
        (tuned["change"], "wrongful suspect"),
        (revert["change"], "wrongful suspect"),
    ]
    assert {d["document"] for d in found["documents"]} == {
        "DSV4_PD_DEADLOCK_ISSUE.md",
        "DSV4_DECODE_PERF_PLAN.md",
    }
    clawback = tell("clawback")
    [item] = clawback["items"]
    assert item["change"] == revert["change"]
    assert item["gains"] == [
        {
            k: c[k]
            for k in ("at", "metric", "baseline", "variant", "change_pct", "n_baseline", "n_variant", "call")
        }
        for c in cells
    ]
    assert max(item["gains"], key=lambda gain: gain["change_pct"])["at"] == "C64"
    assert item["restorable"] == "later edits"
    assert item["notes"] == ["exact arithmetic: no risk for correctness"]
    assert [(k["change"], k["why"]) for k in clawback["keep"]] == [
        (fix["change"], "a fix: requests pinned in the prefill inflight queue"),
        (watchdog["change"], "a fix: watchdog for pinned requests"),
    ]
    shown = knob("clawback")
    assert "C64    719.5 → 811.7" in shown
    assert "+12.8 %  n=1/1  not enough data" in shown

    # the command that it names; the watchdog line survives
    told = knob(*item["command"].split()[1:], "--why", "the proxy was at fault", "--go-ahead")
    assert f"5:export {KNOB}=512" in told
    assert "differs from the backup in the 1 later edit above and in nothing else" in told
    assert operator.decode.read_bytes() == tuned_bytes.replace(
        b"WARN\n", b"WARN\nexport INFLIGHT_TIMEOUT=60\n"
    )
    assert tell("clawback")["items"][0]["restorable"] == "restored"
    changes = tell("since", "1h")["changes"]
    assert [(c["status"], c["finding"]) for c in changes] == [
        ("restored", "wrongful suspect"),
        ("in effect", None),
        ("reverted", "wrongful suspect"),
        ("in effect", None),
        ("in effect", None),
    ]

    # the record is corrected
    knob("docs", "stale", ".", "--exit-code", code=10)
    assert "open: DSV4_DECODE_PERF_PLAN.md contradicts the record" in knob("status", "--recorded")
    for name, before in (("DSV4_PD_DEADLOCK_ISSUE.md", ISSUE), ("DSV4_DECODE_PERF_PLAN.md", PLAN)):
        knob("docs", "correct", name, "--hypothesis", SLUG, code=1)
        assert (operator.root / name).read_text() == before
        assert "committed, this file alone" in knob(
            "docs", "correct", name, "--hypothesis", SLUG, "--go-ahead"
        )
        text = (operator.root / name).read_text()
        assert text.startswith(before)
        assert "The true cause: the proxy" in text
        assert "already; nothing was changed" in knob("docs", "correct", name, "--hypothesis", SLUG)
    assert "contradict" not in knob("docs", "stale", ".", "--exit-code")
    assert "open:" not in knob("status", "--recorded")

    # the story, for those who were not there
    knob("report", "postmortem", "--hypothesis", SLUG, "-o", "pm.html")
    knob("report", "postmortem", "--hypothesis", SLUG, "-o", "pm.md")
    first = (operator.root / "pm.html").read_bytes(), (operator.root / "pm.md").read_bytes()
    knob("report", "postmortem", "--hypothesis", SLUG, "-o", "pm.html")
    assert (operator.root / "pm.html").read_bytes() == first[0]
    assert b"It is back since" in first[1]
    # Nobody has restarted anything here.
    owed = first[1].partition(b"## What is still owed")[2].partition(b"##")[0]
    for service in (b"gpu1/decode", b"gpu1/prefill"):
        assert b"- " + service + b": a restart is owed since " in owed
    for said in ("24 of 24 rounds pass", "refuted", "addendum on", "the engines are idle"):
        assert said.encode() in first[1]
    for kind in ("evidence_given", "verdict_given", "probed", "measured", "document_corrected"):
        assert tell("log", "--kind", kind)["entries"]
    knob("log")
    assert "the ledger verifies" in knob("verify")
    assert operator.git("status", "--porcelain", "-uno") == ""
