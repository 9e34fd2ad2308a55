"""Blame in a second clone: what its entries tell, and no older bytes passed off as those of now."""

from __future__ import annotations

import shutil
from pathlib import Path

from handmade import KNOB, Folder

NAME = KNOB.decode()


def test_without_bytes_and_host_the_newest_entry_tells_the_value(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.knob("set", "gpu1/decode", f"{NAME}=512", "--go-ahead")
    other = tmp_path / "other"
    shutil.copytree(folder.root, other)
    newest = folder.json("set", "gpu1/decode", f"{NAME}=3", "--go-ahead")["change"]
    shutil.copytree(folder.root / "ledger", other / "ledger", dirs_exist_ok=True)  # as a sync brings it
    folder.root = other
    folder.script.rename(folder.script.with_suffix(".away"))
    told = folder.json("blame", "gpu1/decode", NAME)
    (knob,) = told["knobs"]
    assert (knob["value"], knob["line"], knob["live"]) == ("3", None, False)
    assert told["lines"] == []
    text = folder.knob("blame", "gpu1/decode", NAME)
    assert f"{NAME}   recorded '3', not looked at" in text
    assert "now " not in text.splitlines()[0]
    assert newest[:8] in " ".join(told["remarks"])
    assert "not the last recorded ones" in " ".join(told["remarks"])
    folder.script.with_suffix(".away").rename(folder.script)
    told = folder.json("blame", "gpu1/decode", NAME)
    (knob,) = told["knobs"]
    assert (knob["value"], knob["live"], told["remarks"]) == ("3", True, [])
    assert [(line["line"], line["change"]) for line in told["lines"]] == [(knob["line"], newest)]
