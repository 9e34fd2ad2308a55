"""What `scan` warns of: text that does not do what it seems to. Each on its line, and nothing about a clean script."""

from __future__ import annotations

import pytest

from knobledger.knobs import Dialect, Reading

LAUNCH = "exec python3 -m sglang.launch_server --model-path /m \\\n  --port 30001\n"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("python3 -m sglang.launch_server --port 1 \\\n  # old\n  --tp 4\n", 2, "this comment stands inside"),
        ("python3 -m sglang.launch_server --port 1 \\\n\n  --tp 4\n", 3, "a flag where a command should"),
        ("python3 -m sglang.launch_server --port 1\n  --tp 4\n", 2, "a flag where a command should"),
        ("python3 -m sglang.launch_server --port 1 \\ \n  --tp 4\n", 1, "a blank after the backslash"),
        (f"export A=1\r\n{LAUNCH}", 1, "the CR becomes part of the value"),
        (f"# one\r\n{LAUNCH}", 1, "bash takes a CR for a character of its line"),
        (f"\ufeffexport A=1\n{LAUNCH}", 1, "a byte order mark stands before line 1"),
        (f"cat >run.sh <<EOF\nexport A=1\nEOF\n{LAUNCH}", 1, "this heredoc writes another file"),
        (f"echo A=1 >>/etc/environment\n{LAUNCH}", 1, "this writes /etc/environment"),
        (f"export B=2\nA=1\n{LAUNCH}", 2, "'A' is set and never read"),
        (f"export A=1\nexport A=2\n{LAUNCH}", 1, "'A' is overridden on line 2"),
        (f"{LAUNCH[:-1]} --port 30002\n", 2, "'--port' is overridden on line 2"),
        (f"export A='1\n{LAUNCH}", 1, "can't be read from here on"),
    ],
)
def test_each_warning_stands_on_its_line(text: str, line: int, said: str) -> None:
    notes = Reading.of(text.encode(), Dialect.BASH).warnings
    assert [(note.line, said in note.message) for note in notes if said in note.message] == [(line, True)]


@pytest.mark.parametrize(
    "text",
    [
        f"#!/bin/bash\nset -eu\nexport A=1 # why\nB=2\necho $B\n{LAUNCH}",
        "python3 -m sglang.launch_server \\\n  --port 1 \\\n  --tp 4\n",
        'ARGS=(\n  --port 1\n  # a comment\n  --tp 4\n)\npython3 -m sglang.launch_server "${ARGS[@]}"\n',
        "case $1 in\n  -v) export A=1;;\nesac\n" + LAUNCH,
        "A=${A:-1}\nexport A\n" + LAUNCH,
    ],
)
def test_a_clean_script_has_none(text: str) -> None:
    assert Reading.of(text.encode(), Dialect.BASH).warnings == ()
