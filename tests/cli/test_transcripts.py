"""Transcripts: commands with their exact stdout, stderr (`! `) and exit code, over a real SSH server.

Ids, moments and places are named so that they are the same in each run. `KNOB_TRANSCRIPTS=write` writes
what was seen into the files; read the difference before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from clilab import Lab

FOLDER = Path(__file__).with_name("transcripts")
CASES = sorted(FOLDER.glob("*.txt"))


@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_transcript(lab: Lab, path: Path) -> None:
    wanted = path.read_text(encoding="utf-8")
    seen = []
    for line in wanted.splitlines():
        if line.startswith("$ "):
            seen.append(line + "\n" + lab.run(line[2:]))
        elif line.startswith("## "):
            seen.append(line + "\n")
    text = "".join(seen)
    if os.environ.get("KNOB_TRANSCRIPTS") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == wanted
