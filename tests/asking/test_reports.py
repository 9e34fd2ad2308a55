"""The post-mortem and `since` as pages: golden files, the same bytes each time, and what a browser makes of them.

`KNOB_GOLDEN=write` writes what was made into the files; read the difference before you commit it.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from evening import KNOB, SLUG, ZONE, Evening, whole

from knobledger.errors import BadConfig, Refused, Unknown, Usage
from knobledger.events.serving import Before, RestartEnded, RestartStarted, ServiceRestarted
from knobledger.inquiry import wrongful
from knobledger.moment import parse
from knobledger.report.changes import change_lines
from knobledger.report.paged import html, markdown
from knobledger.report.plots import bench_svg
from knobledger.report.postmortem import comparisons, facts, scope_of
from knobledger.report.postmortem_timeline import marks, spans
from knobledger.report.since_page import since_facts
from knobledger.report.standing import hypothesis_lines
from knobledger.report.timeline import timeline_svg
from knobledger.state import State
from workspaces import Bench

GOLDEN = Path(__file__).with_name("golden")


def page(state: State, form: str, workspace: Path, slug: str | None = None) -> str:
    scope = scope_of(state, slug, None, ZONE)
    told = facts(state, scope)
    if form == "md":
        return markdown("postmortem", told, workspace)
    drawn = timeline_svg(
        marks(told["timeline"]),
        ZoneInfo(ZONE),
        "What happened, in order",
        spans=spans(state, wrongful(state)),
    )
    plots = [bench_svg(one, f"{KNOB} 256 → 512") for _, one in comparisons(state, scope)]
    return html("postmortem", told, workspace, timeline_svg=drawn, plots=plots)


def since_page(state: State, form: str, workspace: Path) -> str:
    start = parse("noon", now=datetime(2026, 11, 30, 23, tzinfo=UTC), zone=ZoneInfo(ZONE))
    first = "2026-11-30T11:00:00.000000Z"
    changes = change_lines(state, first, "9999")
    told = since_facts(start, changes, hypothesis_lines(state, first, "9999", []), ZONE)
    return (markdown if form == "md" else html)("since", told, workspace)


def golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("KNOB_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_golden_files(tmp_path: Path) -> None:
    golden("postmortem.md", page(whole().state, "md", tmp_path))
    golden("postmortem.html", page(whole().state, "html", tmp_path))
    golden("postmortem_open.md", page(Evening().state, "md", tmp_path))
    golden("since.md", since_page(whole().state, "md", tmp_path))


def test_the_same_ledger_gives_the_same_bytes_in_any_order_of_arrival(tmp_path: Path) -> None:
    events = whole().events
    wanted = page(State.of(events), "html", tmp_path)
    for seed in range(5):
        shuffled = random.Random(seed).sample(events, len(events))
        assert page(State.of(shuffled), "html", tmp_path) == wanted


def test_what_the_reader_learns(tmp_path: Path) -> None:
    text = page(whole().state, "md", tmp_path)
    for said in (
        "“the knob hangs the multi-round harness”",
        "1 for it (timing alone) and 0 against it had been written down",
        "The true cause: the HTTP proxy between the agents and the router",
        f"{KNOB} = 512 was wrongly away for 2 h 30 min",
        "| C48 | 684.7 | 680.6 | -0.6 % |  | 1 / 1 | not enough data |",
        "| C64 | 719.5 | 811.7 | +12.8 % |  | 1 / 1 | not enough data |",
        "| C80 | 833.0 | 842.7 | +1.2 % |  | 1 / 1 | not enough data |",
        "| C96 | 799.3 | 844.6 | +5.7 % |  | 1 / 1 | not enough data |",
        "baseline falls from C80 833.0 to C96 799.3",
        "a fix: watchdog for pinned requests",
        "2026-11-30 20:25:03 CET | 2026-11-30 19:25:03Z | revert",
    ):
        assert said in text, said


def test_each_restart_is_told_once_with_what_became_of_it(tmp_path: Path) -> None:
    evening = Evening()
    evening.restart("20:26", evening.revert, value=None)
    evening.restart("20:40", evening.revert, value="512", has=None)
    names = ("gpu1/prefill", "gpu1/decode", "gpu1/router")
    befores = tuple(Before(service=name) for name in names)
    evening.to("21:00")
    failed = evening.tell(RestartStarted, cause="roll back", scope="group", services=befores)
    evening.tell(ServiceRestarted, chain=failed, service=names[0], outcome="healthy")
    evening.tell(ServiceRestarted, chain=failed, service=names[1], outcome="unhealthy", reason="gate is red")
    evening.tell(RestartEnded, chain=failed, outcome="failed", reason="gate is red")
    evening.tell(RestartStarted, cause="asked", scope="service", services=befores[:1])
    lines = [line for line in page(evening.state, "md", tmp_path).splitlines() if "| restart |" in line]
    for line, said in zip(
        lines,
        [
            f"each healthy before the next, out for 1 min 59 s; proved live: {KNOB} = (absent) in gpu1/decode",
            f"not proved live: {KNOB} is absent, not 512, in gpu1/decode",
            "to roll back: failed: gate is red; healthy: gpu1/prefill; not reached: gpu1/router; nobody looked",
            "left in the middle: it has no end in the ledger; not reached: gpu1/prefill",
        ],
        strict=True,
    ):
        assert said in line


def test_what_is_still_owed(tmp_path: Path) -> None:
    evening = Evening()
    evening.contradict()
    evening.refute()
    text = page(evening.state, "md", tmp_path)
    assert f"is still away: `knob restore {evening.revert[:8]}`" in text
    assert "It is not back yet." in text
    assert "has no verdict: `knob verdict" in page(Evening().state, "md", tmp_path)
    owed = "gpu1/decode: a restart is owed since 2026-11-30 14:14 CET: `knob restart gpu1/decode`"
    assert owed in text
    assert "a restart is owed" not in page(whole().state, "md", tmp_path)


def test_markup_in_what_people_wrote_stays_text(tmp_path: Path) -> None:
    evening = Evening()
    evening.say("contradicts", "timing", "<script>alert(1)</script> a|b\n# x")
    assert "<script>" not in page(evening.state, "html", tmp_path)
    assert "&lt;script&gt;alert(1)&lt;/script&gt; a\\|b # x" in page(evening.state, "md", tmp_path)


def test_an_empty_ledger_has_no_story_and_one_without_a_hypothesis_says_so(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "ws")
    with bench.open() as workspace, pytest.raises(Refused, match="nothing is recorded"):
        workspace.postmortem(None, None, None)
    bench.set(("NCCL_DEBUG", "INFO"))
    with bench.open() as workspace:
        for name in ("a.md", "a.html"):
            workspace.postmortem(None, None, tmp_path / name)
            assert "No hypothesis was opened" in (tmp_path / name).read_text()


def test_the_verbs_write_files_and_templates_are_the_users(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "ws")
    bench.set(("NCCL_DEBUG", "INFO"), why="more")
    with bench.open() as workspace:
        workspace.open_hypothesis(SLUG, "it hangs", ["@"])
        with pytest.raises(Unknown):
            workspace.postmortem("unheard-of", None, None)
        with pytest.raises(Usage):
            workspace.postmortem(None, None, tmp_path / "x.pdf")
        start = workspace.moment("1h")
        workspace.postmortem(SLUG, start, tmp_path / "pm.html")
        workspace.report_since(start, tmp_path / "since.html")
        workspace.report_since(start, tmp_path / "since.md")
        assert "NCCL_DEBUG" in (tmp_path / "since.md").read_text()
        assert "NCCL_DEBUG" in (tmp_path / "since.html").read_text()
        (bench.root / "templates" / "postmortem.md.j2").write_text("{{ titel }}")
        with pytest.raises(BadConfig, match="titel"):
            workspace.postmortem(None, None, None)
        (bench.root / "templates" / "postmortem.md.j2").write_text("ours: {{ title }}")
        assert workspace.postmortem(None, None, None).text.startswith("ours: Post-mortem")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.mark.tool("chromium")
@pytest.mark.parametrize(
    ("scheme", "width", "media"),
    [("light", 1100, "screen"), ("dark", 1100, "screen"), ("light", 390, "screen"), ("light", 794, "print")],
)
def test_in_a_browser(browser: Any, tmp_path: Path, scheme: str, width: int, media: str) -> None:
    file = tmp_path / "postmortem.html"
    file.write_text(page(whole().state, "html", tmp_path), encoding="utf-8")
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    opened = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto(file.as_uri())
    opened.emulate_media(media=media, color_scheme=scheme)
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.locator("svg[role=img]").count() == 2
    for drawing in opened.locator("svg[role=img]").all():
        assert drawing.evaluate("one => one.querySelector('desc').textContent.length") > 100
    paper = opened.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
    ids = opened.evaluate("[...document.querySelectorAll('[id]')].map(one => one.id)")
    assert len(ids) == len(set(ids))
    if media == "print":
        assert not opened.locator("nav").is_visible()
    else:
        opened.keyboard.press("Tab")
        assert opened.evaluate("document.activeElement.className") == "skip"
        opened.keyboard.press("Enter")
        assert opened.url.endswith("#summary")
    context.close()
