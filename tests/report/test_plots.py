"""Plots: the same bytes for the same values, text for those who hear them, and nothing on top of anything else."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from ab_runs import arms
from hypothesis import given, settings
from hypothesis import strategies as st
from test_bench_show import incident

from knobledger.comparison import compare
from knobledger.errors import BadConfig, Refused
from knobledger.report.plots import bench_svg
from knobledger.report.timeline import Entry, Span, spans_of, timeline_svg
from knobledger.report.vector import png_of

BERLIN = ZoneInfo("Europe/Berlin")
SVG = "{http://www.w3.org/2000/svg}"
TITLE = "gpu1/decode  TARGET_CTAS 256 → 512"


def at(clock: str, day: int = 30) -> datetime:
    return datetime.fromisoformat(f"2026-11-{day:02d}T{clock}").replace(tzinfo=BERLIN)


EVENING = [
    Entry(at("14:14"), "evidence", "C64 719.5 → 811.7 tok/s, +12.8 %, not enough data", "gpu1/decode"),
    Entry(at("14:48"), "change", "TARGET_CTAS 256 → 512", "gpu1/decode"),
    Entry(at("14:50"), "restart", "decode", "gpu1/decode"),
    Entry(at("16:05"), "hypothesis", "the knob hangs the multi-round harness"),
    Entry(at("20:25"), "revert", "TARGET_CTAS 512 → (absent)", "gpu1/decode"),
    Entry(at("20:40"), "observation", "engines idle while a harness hangs " * 5, "gpu1/decode"),
    Entry(at("20:41"), "evidence", "24 of 24 rounds pass when the proxy is bypassed"),
    Entry(at("21:30"), "verdict", "refuted: the proxy was faulty all along"),
    Entry(at("22:10"), "restore", "TARGET_CTAS (absent) → 512", "gpu1/decode"),
    Entry(at("22:11"), "restart", "prefill, decode, router", "gpu1/decode"),
]


def many_starts() -> str:
    rng = random.Random(3)
    runs = [
        made
        for load in (1, 2, 4, 8, 16, 32, 64, 96, 128)
        for made in arms(
            [90 * load**0.5 * rng.gauss(1, 0.02) for _ in range(5)],
            [91 * load**0.5 * rng.gauss(1, 0.02) for _ in range(5)],
            label=f"C{load}",
            load=float(load),
            conditions=(("input_len", "1024" if load < 128 else "4096"),),
        )
    ]
    return bench_svg(compare(runs), "starts with <their> intervals & dots")


def busy_days() -> str:
    rng = random.Random(5)
    entries = [
        Entry(
            datetime(2026, 10, 24, 9, tzinfo=BERLIN) + timedelta(minutes=rng.randrange(4 * 1440)),
            rng.choice(["change", "revert", "observation", "evidence", "drift", "hypothesis"]),
            f"SOME_KNOB_{index} has a description that does not end soon enough for its line",
            rng.choice(["gpu1/decode", "gpu2/prefill-with-a-long-name", "gpu3/router:unit"]),
        )
        for index in range(40)
    ]
    return timeline_svg(entries, BERLIN, "four days over a clock change")


def drawings() -> dict[str, str]:
    return {
        "incident": bench_svg(incident(), TITLE),
        "many starts": many_starts(),
        "evening": timeline_svg(EVENING, BERLIN, "The knob and the harness"),
        "busy days": busy_days(),
        "nothing": bench_svg(compare([]), "nothing yet"),
        "one event": timeline_svg(EVENING[:1], BERLIN, "one event"),
    }


def test_text_for_screen_readers() -> None:
    root = ElementTree.fromstring(bench_svg(incident(), TITLE))
    title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert description is not None
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
    assert title.text == TITLE
    text = description.text or ""
    assert "C64: baseline 719.5 (n=1), variant 811.7 (n=1), +12.8 %, not enough data." in text
    assert "baseline falls from C80 833.0 to C96 799.3; the variant only rises." in text


def test_the_timeline_in_words_is_not_cut() -> None:
    text = ElementTree.fromstring(timeline_svg(EVENING, BERLIN, "t")).findtext(f"{SVG}desc") or ""
    assert "20:25 revert: TARGET_CTAS 512 → (absent) (gpu1/decode)." in text
    assert text.count("engines idle") == 5


def test_the_same_values_give_the_same_bytes() -> None:
    assert bench_svg(incident(), TITLE) == bench_svg(incident(), TITLE)
    in_utc = [Entry(entry.at.astimezone(UTC), entry.kind, entry.label, entry.target) for entry in EVENING]
    assert timeline_svg(in_utc[::-1], BERLIN, "t") == timeline_svg(EVENING, BERLIN, "t")


def test_spans_follow_from_the_entries() -> None:
    spans = [(span.state, span.label, span.since, span.until) for span in spans_of(EVENING)]
    assert spans == [
        ("in", "in", at("14:48"), at("20:25")),
        ("out", "out", at("20:25"), at("22:10")),
        ("in", "restored", at("22:10"), None),
    ]
    text = timeline_svg(EVENING, BERLIN, "t")
    assert "gpu1/decode: out 1h 45m, from 20:25 to 22:10" in text
    assert ">out 1h 45m</text>" in text


def test_a_span_over_a_clock_change_is_as_long_as_it_was() -> None:
    night = Span(
        datetime(2026, 10, 25, 1, tzinfo=BERLIN),
        datetime(2026, 10, 25, 4, tzinfo=BERLIN),
        "out",
        "gpu1/decode",
    )
    entry = Entry(night.since, "revert", "over night")
    assert "out 4h, from 01:00 to 04:00" in timeline_svg([entry], BERLIN, "t", spans=[night])


def test_ticks_are_round_by_the_zones_clock() -> None:
    root = ElementTree.fromstring(busy_days())
    ticks = [one.text for one in root.iter(f"{SVG}text") if one.get("class") == "small end"]
    assert ticks == ["12:00", "Oct 25", "12:00", "Oct 26", "12:00", "Oct 27", "12:00", "Oct 28"]


@settings(max_examples=25)
@given(st.text(max_size=20), st.text(max_size=20))
def test_any_text_is_still_xml(label: str, target: str) -> None:
    ElementTree.fromstring(timeline_svg([Entry(at("20:25"), label, label, target)], BERLIN, target))
    ElementTree.fromstring(bench_svg(compare(arms([1.0], [2.0], label=label)), target))


def test_a_template_of_the_workspace_goes_first_and_its_mistakes_are_named(tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    own = tmp_path / "templates/bench.svg.j2"
    own.write_text(
        "<svg xmlns='http://www.w3.org/2000/svg'><title>{{ title }}</title></svg>", encoding="utf-8"
    )
    text = bench_svg(incident(), "a < b", workspace=tmp_path)
    assert text == "<svg xmlns='http://www.w3.org/2000/svg'><title>a &lt; b</title></svg>"
    own.write_text("{{ colour }}", encoding="utf-8")
    with pytest.raises(BadConfig, match="'colour' is undefined"):
        bench_svg(incident(), "", workspace=tmp_path)


def test_png_is_the_same_drawing() -> None:
    pytest.importorskip("resvg_py")
    png = png_of(bench_svg(incident(), TITLE), zoom=1)
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")
    root = ElementTree.fromstring(bench_svg(incident(), TITLE))
    assert (str(width), str(height)) == (root.get("width"), root.get("height"))


def test_png_without_its_package_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(Refused, match="resvg-py") as refused:
        png_of("<svg/>")
    assert "knobledger[png]" in refused.value.hint


MEASURE = """
const found = [];
for (const svg of document.querySelectorAll("svg")) {
  const frame = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll("text")].filter((one) => one.textContent.trim());
  const boxes = texts.map((one) => one.getBoundingClientRect());
  boxes.forEach((a, i) => {
    if (a.left < frame.left || a.right > frame.right || a.top < frame.top || a.bottom > frame.bottom)
      found.push([svg.dataset.name, "outside", texts[i].textContent]);
    boxes.slice(i + 1).forEach((b, j) => {
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 2 && high > 4) found.push([svg.dataset.name, texts[i].textContent, texts[i + 1 + j].textContent]);
    });
  });
  found.push([svg.dataset.name, "texts", String(texts.length)]);
}
document.body.textContent = JSON.stringify(found);
"""


@pytest.mark.tool("chromium")
def test_in_a_browser_no_text_is_on_another_or_outside(tmp_path: Path) -> None:
    page = tmp_path / "plots.html"
    plots = [svg.replace("<svg ", f'<svg data-name="{name}" ', 1) for name, svg in drawings().items()]
    page.write_text(
        f"<!doctype html><meta charset=utf-8><body>{''.join(plots)}<script>{MEASURE}</script>",
        encoding="utf-8",
    )
    dumped = subprocess.run(
        [
            *(
                "chromium",
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                f"--user-data-dir={tmp_path}/profile",
            ),
            *("--dump-dom", page.as_uri()),
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=90,
    ).stdout
    body = dumped.partition("<body>")[2].partition("</body>")[0]
    found = json.loads(body.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert {name for name, what, _ in found if what == "texts"} == set(drawings())
    assert [one for one in found if one[1] != "texts"] == []
