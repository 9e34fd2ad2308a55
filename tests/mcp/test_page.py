"""docs/agents.md names every tool that there is."""

from __future__ import annotations

import re
from pathlib import Path

import knobledger.mcp

PAGE = Path(__file__).parents[2] / "docs" / "agents.md"


def test_the_table_names_every_tool() -> None:
    code = "".join(path.read_text() for path in Path(knobledger.mcp.__file__).parent.glob("*.py"))
    tools = set(re.findall(r"@server\.tool\(.*\)\n    (?:async )?def (\w+)\(", code))
    assert {"status", "wait_for_approval", "give_evidence"} <= tools
    first_cells = [row.split("|")[1] for row in PAGE.read_text().splitlines() if row.startswith("| `")]
    assert set(re.findall(r"`(\w+)`", " ".join(first_cells))) == tools
