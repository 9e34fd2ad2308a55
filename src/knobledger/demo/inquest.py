"""The demo's acts of asking why: what was measured, what was suspected, what contradicts it, and the corrected record."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from knobledger.demo.stage import KNOB
from knobledger.templates import rendered

if TYPE_CHECKING:
    from knobledger.demo.play import Play

SLUG = "knob-hangs-harness"
_HARNESS = Path(__file__).parent / "harness.py"
_DOCUMENTS = {
    "ab.md": "demo/ab.md.j2",
    "DSV4_PD_DEADLOCK_ISSUE.md": "demo/issue.md.j2",
    "DSV4_DECODE_PERF_PLAN.md": "demo/plan.md.j2",
}


def measure(play: Play) -> None:
    """What the tuning was worth, as the table of that afternoon has it."""
    for name, template in _DOCUMENTS.items():
        (play.stage.root / name).write_text(rendered(template, {"knob": KNOB}), encoding="utf-8")
    git = (
        "git",
        "-C",
        os.fspath(play.stage.root),
        "-c",
        "user.name=demo",
        "-c",
        "user.email=demo@example.org",
    )
    play.here(*git, "add", "*.md", shown="git add '*.md'")
    play.here(
        *git,
        "commit",
        "-qm",
        "documents of the afternoon",
        shown="git commit -qm 'documents of the afternoon'",
    )
    play.tell("What was measured belongs to the change. One run per cell is not proof, and that is said.")
    shown = play.knob("bench", "table", os.fspath(play.stage.root / "ab.md"), "--change", "@")
    play.prove("C64 is +12.8 %, and that is not enough data", "+12.8 %  not enough data" in shown)
    play.knob("note", "exact arithmetic (split-K log-sum-exp combine): no risk for correctness", "--on", "@")


def suppose(play: Play) -> None:
    """A suspicion is written down as what it is."""
    play.tell("The suspicion gets a name, and its evidence a weight: one thing came after another, no more.")
    play.knob("hypothesis", "open", SLUG, "the knob hangs the multi-round harness", "--about", "@")
    shown = play.knob(
        "evidence",
        SLUG,
        "--supports",
        "it worked at noon; the knob is the only deploy since",
        "--weight",
        "timing",
    )
    play.prove("it is called timing alone", "rests on timing alone" in shown)


def weigh(play: Play) -> None:
    """What contradicts the hypothesis, the gate that it makes, and the verdict."""
    router = f"http://127.0.0.1:{play.stage.ports['router']}"
    play.tell("What was seen all along is weighed at last. The reproducer becomes an experiment.")
    play.knob("evidence", SLUG, "--contradicts", "while a harness hangs, the engines are idle")
    play.knob(
        "probe", SLUG, "--contradicts-if", "pass", "--times", "2",
        "--text", "24 harness rounds each, past the proxy", "--", sys.executable, str(_HARNESS), router,
    )  # fmt: skip
    play.tell("To take more away under this hypothesis now needs a word about the evidence against it.")
    play.knob(
        "set", "gpu1/decode", "NCCL_DEBUG=INFO", "--kind", "mitigation", "--for", SLUG, "--plan", expect=1
    )
    play.tell("The verdict, and what it means for each change that was made under it.")
    play.knob(
        "verdict", SLUG, "refuted", "--because", "it hangs without the knob too, and never past the proxy",
        "--cause", "the HTTP proxy between the agents and the router",
    )  # fmt: skip
    play.tell("What did we take off the table that we can claw back?")
    play.knob("clawback")
    found = play.facts("clawback")
    items, keep = found["items"], found["keep"]
    assert isinstance(items, list)
    assert isinstance(keep, list)
    play.prove("one item comes back, and cleanly", [item["restorable"] for item in items] == ["clean"])
    play.prove(
        "the watchdog stays", [kept["why"] for kept in keep] == ["a fix: watchdog for pinned requests"]
    )


def correct(play: Play) -> None:
    """The documents, and the story for those who were not there."""
    root = play.stage.root
    play.tell("Two documents still tell the wrong story. Each gets an addendum; its author's text stays.")
    play.knob("docs", "stale", os.fspath(root))
    for name in ("DSV4_PD_DEADLOCK_ISSUE.md", "DSV4_DECODE_PERF_PLAN.md"):
        done = play.knob("docs", "correct", os.fspath(root / name), "--hypothesis", SLUG, "--go-ahead")
        play.prove(f"{name} is corrected, in a commit of its own", "committed, this file alone" in done)
    play.knob("docs", "stale", os.fspath(root), "--exit-code")
    play.tell(
        "The post-mortem, from the ledger alone: what was believed, why it was wrong, and what it cost."
    )
    for name in ("postmortem.html", "postmortem.md"):
        play.knob("report", "postmortem", "--hypothesis", SLUG, "-o", os.fspath(root / name))
    told = (root / "postmortem.md").read_text(encoding="utf-8")
    for said in ("was wrongly away for", "+12.8 % (C64, not enough data)", "It is back since"):
        play.prove(f"the post-mortem says {said!r}", said in told)
