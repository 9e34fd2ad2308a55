"""Documents against the record: which lines contradict it, and the addendum that puts one right."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from knobledger.documents import Case, appended, contradictions, enclosed, marked
from knobledger.errors import BadConfig, Drifted, PlanMode, Refused
from workspaces import KNOB, Bench

SLUG = "knob-hangs-harness"
CASE = Case(SLUG, "ab" * 32, True, "the proxy", (KNOB,), ("cd" * 32,))
DEADLOCK = f"""\
# PD deadlock

The harness hangs after several rounds. The culprit is TARGET_CTAS: since it was raised, requests
never come back.

We reverted it at 20:25. A co-restart of prefill and decode fixed the hang.

## Inflight fixes

Requests were pinned in the prefill inflight queue; that is a real bug, fixed independently.

`{KNOB}=1024` is what runs now.
"""


def lines(text: str, *, live: str | None = "512", cases: tuple[Case, ...] = (CASE,)) -> list[tuple[int, str]]:
    found = contradictions(text, cases, {KNOB: {"gpu1/decode": live}})
    return [(item.line, item.why.split(";")[0]) for item in found]


def test_lines_that_blame_and_lines_that_do_not() -> None:
    assert lines(DEADLOCK) == [
        (3, f"blames TARGET_CTAS, a wrongful suspect of {SLUG}"),
        (6, f"calls a restart the fix of what {SLUG} explained wrongly"),
        (12, f"says {KNOB} is 1024"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "TARGET_CTAS=512 gives +12.8 % at C64.",
        "TARGET_CTAS was not the cause of the hang.",
        "The hang was the proxy's; the knob SM120_MMA_TARGET_CTAS was exonerated.",
        "| C64 | hang |\n| TARGET_CTAS | 512 |",
        "A restart fixed the router's memory leak.",
        "MY_TARGET_CTASX hangs",
        f"the {SLUG}-2 hypothesis",
        "CTAS hangs",
    ],
)
def test_no_finding(text: str) -> None:
    assert lines(text) == []


@pytest.mark.parametrize(
    "text",
    [
        f"see {SLUG}",
        f"{KNOB} hangs",
        "TARGET_CTAS caused it",
        "It is cdcdcdcd that did it",
        "- MMA_TARGET_CTAS was reverted, the hang is gone",
    ],
)
def test_finding(text: str) -> None:
    assert [number for number, _ in lines(text)] == [1]


def test_only_the_last_value_counts_and_an_absent_knob_is_said() -> None:
    assert lines(f"{KNOB}=256\n\n{KNOB}=512\n") == []
    assert lines(f"{KNOB}=512\n\n{KNOB}=256\n") == [(3, f"says {KNOB} is 256")]
    assert lines(f"`{KNOB}` = `512`", live=None) == [(1, f"says {KNOB} is 512")]
    assert lines("x --flag 8", live=None) == []
    there = {"--flag": {"gpu1/decode": "8"}}
    assert contradictions("run with `--flag 8`", (), there) == ()
    assert [item.line for item in contradictions("a\n--flag=9.", (), there)] == [2]


def test_an_addendum_settles_it_until_another_verdict() -> None:
    corrected = appended(DEADLOCK, enclosed(SLUG, CASE.verdict, f"It was the proxy. `{KNOB}=512`"))
    assert lines(corrected) == []
    later = Case(SLUG, "ef" * 32, False, "", (), ())
    assert lines(corrected, cases=(later,)) == [
        (14, "the verdict that this addendum tells was superseded by efefefef")
    ]
    again = appended(corrected, enclosed(SLUG, later.verdict, "It was the knob after all."))
    assert lines(again, cases=(later,)) == []
    assert [verdict for _, _, verdict in marked(again)] == ["abababab", "efefefef"]


@pytest.mark.parametrize("text", ["a", "a\n", "a\r\n", "", "a\n\n"])
def test_the_text_above_an_addendum_is_untouched(text: str) -> None:
    after = appended(text, "<!-- x -->\nbody\n")
    assert after.startswith(text)
    assert after.count("\r\n") == (after.count("\n") if "\r\n" in text else 0)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """The incident up to the restore, the workspace in git."""
    bench = Bench(tmp_path / "ws")
    bench.set((KNOB, "512"), purpose="perf", why="A/B")
    with bench.open() as workspace:
        workspace.open_hypothesis(SLUG, "the knob hangs the harness", ["@"])
    bench.set((KNOB, None), hypotheses=(SLUG,), why="suspected")
    (bench.root / "docs").mkdir()
    (bench.root / "docs" / "DEADLOCK.md").write_text(DEADLOCK)
    (bench.root / "docs" / "fine.md").write_text("# Fine\n\nNothing to see.\n")
    return bench


def refute(bench: Bench) -> None:
    with bench.open() as workspace:
        workspace.evidence(SLUG, "contradicts", "24 of 24 rounds pass past the proxy", weight="experiment")
        workspace.verdict(SLUG, "refuted", "it hangs without the knob too", "the proxy drops long streams")
    bench.undo("restore", "@", why="the proxy was at fault")


def git(bench: Bench, *words: str) -> str:
    return subprocess.run(
        ("git", "-c", "user.name=a", "-c", "user.email=a@b", *words),
        cwd=bench.root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_stale_then_corrected_then_nothing_more(bench: Bench) -> None:
    path = bench.root / "docs" / "DEADLOCK.md"
    path.chmod(0o640)
    with bench.open() as workspace:
        # before the verdict only the value is wrong
        [(_, found), _] = workspace.docs_stale([bench.root / "docs"]).documents
        assert [item.line for item in found] == [12]
    refute(bench)
    with bench.open() as workspace:
        report = workspace.docs_stale([bench.root / "docs"], exit_code=True)
        assert (report.documents[0][0], len(report.documents[0][1])) == ("docs/DEADLOCK.md", 3)
        assert report.exit_code == 10
        assert workspace.docs_stale([bench.root / "docs"]).exit_code == 0
        assert workspace.status([]).to_json()["documents"] == [{"document": "docs/DEADLOCK.md", "stale": 3}]
    with bench.open() as workspace:
        done = workspace.correct(workspace.draft_correction(path, SLUG))
    assert done.written
    text = path.read_text()
    assert text.startswith(DEADLOCK)
    for said in (
        "the proxy drops long streams",
        "24 of 24 rounds",
        f"`{KNOB}=512` on gpu1/decode",
        "line 6:",
    ):
        assert said in text
    assert path.stat().st_mode & 0o777 == 0o640
    count = len(bench.kinds())
    with bench.open() as workspace:
        assert workspace.correct(workspace.draft_correction(path, SLUG)).written is False
        assert [lines for _, lines in workspace.docs_stale([path]).documents] == [()]
        assert workspace.status([]).to_json()["documents"] == []
    assert path.read_text() == text
    assert len(bench.kinds()) == count


def test_the_commit_holds_that_one_file_and_staged_work_stays(bench: Bench) -> None:
    path = bench.root / "docs" / "DEADLOCK.md"
    git(bench, "add", "docs")
    git(bench, "commit", "-qm", "docs")
    (bench.root / "staged.md").write_text("staged\n")
    git(bench, "add", "staged.md")
    (bench.root / "docs" / "fine.md").write_text("edited, not staged\n")
    refute(bench)
    with bench.open() as workspace:
        done = workspace.correct(workspace.draft_correction(path, SLUG))
    assert done.commit
    assert git(bench, "show", "--format=%an %s", "--name-only", done.commit).split("\n\n")[1].split() == [
        "docs/DEADLOCK.md"
    ]
    assert git(bench, "status", "--porcelain", "-uno").splitlines() == [" M docs/fine.md", "A  staged.md"]
    assert git(bench, "show", f"{done.commit}:docs/DEADLOCK.md") == path.read_text()


@pytest.mark.parametrize("staged", [True, False])
def test_edits_of_the_author_are_left_to_the_author(bench: Bench, staged: bool) -> None:
    path = bench.root / "docs" / "DEADLOCK.md"
    git(bench, "add", "docs")
    git(bench, "commit", "-qm", "docs")
    path.write_text("An edit of mine.\n\n" + DEADLOCK)
    if staged:
        git(bench, "add", "docs")
    refute(bench)
    head = git(bench, "rev-parse", "HEAD:docs/DEADLOCK.md")
    with bench.open() as workspace:
        done = workspace.correct(workspace.draft_correction(path, SLUG))
        assert "edits of your own" in " ".join(workspace.notes)
    assert (done.written, done.commit) == (True, "")
    assert git(bench, "rev-parse", "HEAD:docs/DEADLOCK.md") == head


def test_refusals(bench: Bench, tmp_path: Path) -> None:
    path = bench.root / "docs" / "DEADLOCK.md"
    with bench.open() as workspace:
        with pytest.raises(Refused, match="no verdict yet"):
            workspace.draft_correction(path, SLUG)
        with pytest.raises(Refused, match="is not there"):
            workspace.docs_stale([tmp_path / "missing.md"])
    refute(bench)
    with bench.open() as workspace:
        draft = workspace.draft_correction(path, SLUG)
        path.write_text(DEADLOCK + "more\n")
        with pytest.raises(Drifted):
            workspace.correct(draft)
    with bench.open(KNOBLEDGER_MODE="plan") as workspace, pytest.raises(PlanMode):
        workspace.correct(workspace.draft_correction(path, SLUG))
    assert path.read_text() == DEADLOCK + "more\n"
    (bench.root / "templates" / "addendum.md.j2").write_text("{{ clame }}")
    with bench.open() as workspace, pytest.raises(BadConfig, match="clame"):
        workspace.draft_correction(path, SLUG)


def test_a_verdict_lists_the_documents_that_still_name_the_dead_cause(bench: Bench) -> None:
    with bench.open() as workspace:
        found = workspace.verdict_swept(workspace.verdict(SLUG, "refuted", "no", "the proxy"))
    assert [(name, line) for name, line, _ in found.documents] == [
        ("docs/DEADLOCK.md", 3),
        ("docs/DEADLOCK.md", 6),
    ]
