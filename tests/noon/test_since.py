"""`since` on narrow and wide pages, with what undid what; groups, two services, one knob across hosts."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from handmade import KNOB, Folder, set_to, write

from knobledger.report.paper import Plain
from knobledger.report.renderings import render
from workspaces import SERVE

NAME = KNOB.decode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """Two services with a tune, its revert, a note, an edit by hand and one that was reconstructed."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"KNOBLEDGER_ACTOR": "anna@example.org", "TZ": "UTC"}.items():
            patch.setenv(name, value)
        made = Folder(tmp_path_factory.mktemp("since"), "decode", "prefill")
        write(
            made.script.with_name(f"{made.script.name}.before_the_long_night_2025.bak"), SERVE, "3 hours ago"
        )
        write(made.script, set_to("384"), "2 hours ago")
        made.knob("adopt", "*", "--backups", "--go-ahead")
        why = "A/B: C64 +12.8 %, one run each, which is not enough data by our own statistics, but the owner wants it"
        made.knob("--on-behalf-of", "ben", "set", "gpu1/decode", f"{NAME}=512", "--why", why, "--go-ahead")
        made.knob("hypothesis", "open", "knob-hangs-harness", "the knob hangs the harness", "--about", "@")
        made.knob("revert", "@", "--for", "knob-hangs-harness", "--kind", "mitigation", "--go-ahead")
        made.knob("note", "the harness hung again")
        write(made.script_of("prefill"), set_to("300"), "now")
        made.knob("adopt", "gpu1/prefill", "--go-ahead")
    return made


def page(folder: Folder, width: int, when: str = "1 day ago") -> list[str]:
    out = io.StringIO()
    with folder.open() as workspace:
        render(workspace.since(workspace.moment(when), None, live=True), Plain(out, width))
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [40, 60, 80, 90, 100, 120, 150, 200])
def test_it_fits_the_page_and_loses_nothing(folder: Folder, width: int) -> None:
    lines = page(folder, width)
    assert max(map(len, lines)) <= width
    said = "".join("".join(lines).split())
    for word in (
        "anna@example.org",
        "forben",
        "gpu1/prefill",
        "knob-hangs-harness",
        "384",
        "512",
        "300",
        "byhand",
    ):
        assert word in said
    assert "everytargetholdsitslastrecordedbytes" in said


def test_oldest_first_and_in_one_table(folder: Folder) -> None:
    lines = page(folder, 200)
    assert lines[1].split() == ["WHEN", "ID", "WHO", "WHERE", "WHAT", "WHY", "NOW"]
    order = [next(i for i, text in enumerate(lines) if word in text) for word in (
        "256 → 384", "384 → 512", "revert: ", "the harness hung again", "256 → 300"
    )]  # fmt: skip
    assert order == sorted(order)
    assert "reverted by" in lines[order[1]]
    assert "in effect" in lines[order[2]]


def test_the_json_has_what_the_table_has(folder: Folder) -> None:
    found = folder.since("1 day ago")
    assert [(c["verb"], c["status"]) for c in found["changes"]] == [
        ("set", "reverted"),
        ("revert", "in effect"),
    ]
    assert [b["text"] for b in found["between"]] == ["the harness hung again"]
    assert found["changes"][0]["by"] == found["changes"][1]["change"]
    assert {"from", "until", "zone", "restarts", "hypotheses", "drift"} <= found.keys()


def test_an_edit_by_hand_is_in_every_interval_in_which_it_may_have_happened(folder: Folder) -> None:
    def values(when: str, until: str | None = None) -> list[str]:
        with folder.open() as workspace:
            end = workspace.moment(until) if until else None
            report = workspace.since(workspace.moment(when), end, "gpu1/decode")
        return [edit.after or "" for line in report.observed for edit in line.edits]

    assert values("150m") == ["384"]
    assert values("4h", "150m") == ["384"]
    assert values("110m") == []
    assert values("5h", "200m") == []


def test_values_that_differ_across_a_group_are_flagged(folder: Folder) -> None:
    hosts = folder.root / "hosts.toml"
    before = hosts.read_text()
    hosts.write_text(before + '[groups.dsv4]\nservices = ["gpu1/*"]\n')
    try:
        (differs,) = folder.json("status")["differs"]
        assert differs == {
            "group": "dsv4",
            "name": NAME,
            "values": {"gpu1/decode": "384", "gpu1/prefill": "300"},
        }
        assert "differs in group dsv4" in folder.knob("status", "dsv4")
        assert folder.json("status", "gpu1/decode")["differs"] == []
    finally:
        hosts.write_text(before)


def test_two_services_are_compared_knob_by_knob(folder: Folder) -> None:
    found = folder.json("diff", "gpu1/prefill", "gpu1/decode")
    assert [(e["name"], e["before"], e["after"]) for e in found["edits"]] == [(NAME, "300", "384")]


def test_one_knob_wherever_it_was_ever_set(folder: Folder) -> None:
    entries = folder.json("log", "--knob", NAME)["entries"]
    assert {entry["target"] for entry in entries} == {"gpu1/decode", "gpu1/prefill"}
    seen = [entry["text"].partition(",")[0] for entry in entries if entry["kind"] == "observed"]
    assert seen == [
        "changed by hand",
        "first contact",
        "changed by hand",
        "the oldest that is left",
        "first contact",
    ]
    assert folder.json("log", "--knob", "NOPE")["entries"] == []


def test_blame_of_a_knob_that_nobody_has(folder: Folder) -> None:
    assert "no knob 'NOPE'" in folder.json("blame", "gpu1/decode", "NOPE", code=1)["error"]["message"]


def test_a_deleted_damaged_or_older_index_changes_no_answer(folder: Folder) -> None:
    index = folder.root / ".knobledger" / "index.sqlite"
    asked = ("log", "--knob", NAME)
    before = folder.json(*asked)
    content = index.read_bytes()
    for spoilt in (
        None,
        b"no database",
        content[: len(content) // 2],
        content[:60] + b"\0\0\0\0" + content[64:],
    ):
        Path(index).unlink(missing_ok=True)
        if spoilt is not None:
            index.write_bytes(spoilt)
        assert folder.json(*asked) == before


def test_kinds_are_told_in_words(tmp_path: Path) -> None:
    made = Folder(tmp_path, "decode")
    made.knob("hypothesis", "open", "h", "the knob hangs the harness")
    made.knob("verdict", "h", "refuted", "--because", "it hangs without the knob")
    said = "\n".join(page(made, 200, "1h"))
    assert "verdict given" in said
    assert "verdict_given" not in said
