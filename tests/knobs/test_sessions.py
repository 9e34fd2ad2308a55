"""Launches behind the programs that give them a terminal or another user: the real ones run, and tell what was seen."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from launches import STUB, parsed

from knobledger.knobs import Dialect, Reading, Request, edit

SCRIPTS: list[tuple[str, str]] = [
    ("tmux", 'tmux -L {id} new-session -d -s x "KA=1 srv --ka 2"'),
    ("tmux", "tmux -L {id} new -d -e KA=1 srv --ka 2"),
    ("tmux", "tmux -L {id} new-session -d -s x 'sleep 30' \\; new-window -t x 'KA=1 srv --ka 2'"),
    ("screen", "screen -dmS {id} bash -c 'KA=1 srv --ka 2'"),
    ("screen", "screen -dmLS {id} srv --ka 2"),
    ("script", "script -qc 'KA=1 srv --ka 2' typescript"),
    ("script", 'script -q --command "KA=1 srv --ka 2" /dev/null'),
    ("flock", "flock -n ./lock srv --ka 2"),
    ("flock", "flock -w 5 ./lock -c 'KA=1 srv --ka 2'"),
    ("flock", "exec 9> lock\nflock 9\nKA=1 srv --ka 2"),
    ("su", "su root -c 'KA=1 srv --ka 2'"),
    ("su", "su -c 'srv --ka 2'"),
    ("su", "su - root -c 'cd {here}; KA=1 bin/srv --ka 2'"),
    ("su", "su -l -c 'cd {here}; KA=1 bin/srv --ka 2' root"),
    ("runuser", "runuser -u root -- srv --ka 2"),
    ("runuser", "runuser -l root -c 'cd {here}; bin/srv --ka 2'"),
    ("sudo", "sudo -u root KA=1 {here}/bin/srv --ka 2"),
    ("sudo", "sudo -E {here}/bin/srv --ka 2"),
    ("sudo", "sudo --preserve-env=KG {here}/bin/srv --ka 2"),
]
"""Each behind `export KG=1`."""

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="su and sudo ask nobody for a password only as root"
)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Path]:
    """A folder with the stub launch, whose records are in `records` beside it."""
    (tmp_path / "bin").mkdir()
    stub = tmp_path / "bin/srv"
    stub.write_text(STUB.replace("$RECORDS", str(tmp_path / "records")))
    stub.chmod(0o755)
    yield tmp_path
    end_sessions(tmp_path)


def end_sessions(here: Path) -> None:
    """Ends what tmux and screen hold under this folder's name."""
    for command in (["tmux", "-L", here.name, "kill-server"], ["screen", "-S", here.name, "-X", "quit"]):
        if shutil.which(command[0]):
            subprocess.run(command, capture_output=True, check=False)


def seen_by(here: Path, script: bytes) -> tuple[dict[bytes, bytes], dict[str, bytes | None]]:
    """The environment and the flags of the launch; it may begin after the script has ended."""
    records = here / "records"
    records.unlink(missing_ok=True)
    env = {"PATH": f"{here}/bin:{os.environ['PATH']}", "HOME": "/root", "TERM": "xterm"}
    subprocess.run(
        ["bash", "-c", script], cwd=here, env=env, check=True, stdin=subprocess.DEVNULL, capture_output=True
    )
    end = time.monotonic() + 30
    while not (records.exists() and records.read_bytes().endswith(b"\0")):
        assert time.monotonic() < end, script
        time.sleep(0.02)
    time.sleep(0.05)
    [seen] = parsed(records.read_bytes())
    end_sessions(here)
    return seen.env, seen.flags()


def told(reading: Reading) -> dict[str, str | None]:
    """What wins for certain."""
    return {one.name: one.value for one in reading.occurrences if one.wins and not one.depends}


@pytest.mark.parametrize(
    ("tool", "line"), [pytest.param(*one, marks=pytest.mark.tool(one[0])) for one in SCRIPTS]
)
def test_what_is_told_is_what_the_launch_sees(tool: str, line: str, here: Path) -> None:
    script = ("export KG=1\n" + line.format(id=here.name, here=here) + "\n").encode()
    reading = Reading.of(script, Dialect.BASH)
    env, flags = seen_by(here, script)
    seen = {name.decode(): value.decode() for name, value in env.items()}
    seen |= {name: (value or b"").decode() for name, value in flags.items()}
    said = told(reading)
    assert said == {name: seen[name] for name in said}
    open_names = {one.name for one in reading.occurrences if one.depends}
    assert seen.keys() - said.keys() <= open_names
    assert ("KG" in open_names) == (tool in ("tmux", "sudo") and "-E" not in line and "preserve" not in line)
    edited = edit(reading, [Request("--ka", "9")]).content
    assert seen_by(here, edited)[1] == {"--ka": b"9"}
    if "KA" in said:
        edited = edit(reading, [Request("KA", "new")]).content
        assert seen_by(here, edited)[0][b"KA"] == b"new"


@pytest.mark.tool("tmux")
def test_a_tmux_that_runs_already_hands_on_what_it_was_started_with(here: Path) -> None:
    subprocess.run(["tmux", "-L", here.name, "new-session", "-d", "sleep 60"], check=True)
    script = f"export KG=1\ntmux -L {here.name} new-window 'srv --ka 2'\n".encode()
    assert seen_by(here, script)[0] == {}
    assert [one.depends for one in Reading.of(script, Dialect.BASH).occurrences if one.name == "KG"] == [True]


@pytest.mark.tool("tmux")
def test_keys_that_are_sent_to_a_terminal_are_read_as_a_command(here: Path) -> None:
    subprocess.run(["tmux", "-L", here.name, "new-session", "-d", "-s", "x", "bash --norc"], check=True)
    line = f"tmux -L {here.name} send-keys -t x '{here}/bin/srv --ka 2' Enter\n"
    reading = Reading.of(line.encode(), Dialect.BASH)
    assert told(reading) == {"--ka": "2"}
    assert seen_by(here, line.encode())[1] == {"--ka": b"2"}


ELSEWHERE: list[tuple[str, dict[str, str]]] = [
    ("systemd-run --setenv=KA=1 -E KB=2 --unit x srv --ka 2", {"KA": "1", "KB": "2", "--ka": "2"}),
    ("systemd-run --scope -p MemoryMax=1G srv --ka 2", {"KG": "1", "--ka": "2"}),
    (
        "apptainer exec --nv -B /a:/b --env KA=1,KB=2 img.sif srv --ka 2",
        {"KG": "1", "KA": "1", "KB": "2", "--ka": "2"},
    ),
    ("singularity exec --cleanenv --env=KA=1 img.sif srv --ka 2", {"KA": "1", "--ka": "2"}),
    ("kubectl exec -n ns pod -c box -- env KA=1 srv --ka 2", {"KA": "1", "--ka": "2"}),
    ("ray job submit --address http://h:1 -- srv --ka 2", {"--ka": "2"}),
    ("env KB=1 ssh host 'KA=1 srv --ka 2'", {"KA": "1", "--ka": "2"}),
    ("sudo su - app -c 'KA=1 srv --ka 2'", {"KA": "1", "--ka": "2"}),
]


@pytest.mark.parametrize(("line", "wins"), ELSEWHERE)
def test_a_launch_elsewhere_sees_what_is_handed_to_it(line: str, wins: dict[str, str]) -> None:
    """As the manuals have it: these can't run here."""
    assert told(Reading.of(f"export KG=1\n{line}\n".encode(), Dialect.BASH)) == wins
