"""Two operators, one file; and a script that is being executed while its file is changed.

ansible#64899 (two edits at once, one lost, both "ok"), terraform#24078 and atlantis#1122 (a plan applied twice),
kamal#656 (a lock that stays).
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from faults.matrix import Sites
from faults.paused import AT, GO
from faults.remote import points
from faults.site import ENV, NEW, OLD, Ended, Site, ended
from lab.fixtures import MARKS

pytestmark = [*MARKS, pytest.mark.tool("setfacl", "getfacl", "getfattr", "git"), pytest.mark.timeout(300)]
_KNOB = str(Path(sys.executable).with_name("knob"))


@pytest.fixture
def site(fabric_sites: Sites) -> Site:
    fabric_sites.root.put_back()
    return fabric_sites.root


def knob(root: Path, *words: str, actor: str = "anna") -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [_KNOB, "-C", str(root), "--json", *words],
        env={**os.environ, **ENV, "KNOBLEDGER_ACTOR": actor},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def all_well(site: Site, root: Path) -> bool:
    with site.open(root) as workspace:
        recovered = workspace.recover()
        # The backups of the others' changes are no strays of ours.
        strays = [name for name in site.strays() if not name.startswith(".knobledger/serve.sh.")]
        return not (recovered.exit_code or workspace.verify().findings or strays)


def test_who_comes_second_is_told_who_is_there_and_since_when(site: Site) -> None:
    point = next(point for point in points(site) if point.step == "stage")
    site.put_back()
    first, second = site.workspace("first"), site.workspace("second")
    holder = site.apply(first, "faults.paused", point.line)
    while not site.host.at(AT).exists():
        assert holder.poll() is None
        time.sleep(0.01)
    end = ended(knob(second, "set", site.target, "TARGET_CTAS=640", "--go-ahead", actor="bert"))
    assert end.code == 11, end
    error = end.document["error"]
    assert isinstance(error, dict)
    assert f"anna (plan {site.plan[:8]}) since " in error["holder"]
    assert abs(error["since"] - time.time()) < 120
    assert site.live == OLD
    # The holder dies, and its lock with it.
    holder.kill()
    holder.wait()
    site.host.run("kill", "-9", site.host.at(AT).read_text().strip())
    site.host.at(GO).touch()
    assert ended(knob(second, "set", site.target, "TARGET_CTAS=640", "--go-ahead", actor="bert")).code == 0
    assert site.live == OLD.replace(b"256", b"640")
    assert all_well(site, second)


def test_of_two_workspaces_one_wins(site: Site) -> None:
    for number in range(3):
        site.put_back()
        roots = [site.workspace(name) for name in ("first", "second")]
        wishes = [f"TARGET_CTAS={value}" for value in (100 + number, 200 + number)]
        both = [
            knob(root, "set", site.target, wish, "--go-ahead")
            for root, wish in zip(roots, wishes, strict=True)
        ]
        ends = [ended(process) for process in both]
        check(site, ends, wishes)
        for root in roots:
            assert all_well(site, root)


def check(site: Site, ends: list[Ended], wishes: list[str]) -> None:
    """Whoever was told 0 last is in the file; whoever was told otherwise is not."""
    done = [wish for wish, end in zip(wishes, ends, strict=True) if end.code == 0]
    assert done, ends
    assert all(end.code in (0, 10, 11) for end in ends), ends
    assert any(wish.encode() in site.live for wish in done)
    assert not any(wish.encode() in site.live for wish in wishes if wish not in done)


def test_of_two_commands_in_one_workspace_one_wins(site: Site) -> None:
    root = site.workspace("shared")
    same = [knob(root, "apply", site.plan) for _ in range(2)]
    ends = [ended(process) for process in same]
    assert sorted(end.code for end in ends)[0] == 0, ends
    assert all(end.code in (0, 1, 10, 11) for end in ends), ends
    assert [end.code for end in ends].count(0) == 1
    assert site.live == NEW
    assert all_well(site, root)
    wishes = ["TARGET_CTAS=101", "TARGET_CTAS=202"]
    ends = [ended(one) for one in [knob(root, "set", site.target, wish, "--go-ahead") for wish in wishes]]
    check(site, ends, wishes)
    assert all_well(site, root)


def test_a_script_that_runs_through_a_restore_prints_its_own_lines(site: Site) -> None:
    """Its file is set, taken back and restored under it; in place is refused meanwhile."""
    lines = "".join(f'echo "$TARGET_CTAS {number}"\nsleep 0.1\n' for number in range(400))
    text = f"#!/bin/bash\nexport TARGET_CTAS=256\n{lines}".encode()
    target = site.host.at(site.script)
    target.write_bytes(text)
    root = site.workspace("running")
    process = subprocess.Popen(
        ["nsenter", "-t", str(site.host.init), "-a", "--", "bash", site.script], stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        printed = [process.stdout.readline()]
        for words in (("set", site.target, "TARGET_CTAS=99"), ("revert", "@"), ("restore", "@")):
            end = ended(knob(root, *words, "--go-ahead"))
            assert end.code == 0, end
            if words[0] == "set":
                warned = end.document["receipt"]
                assert isinstance(warned, dict)
                assert warned["manifest"]["running"], "the running interpreter was not seen"
        assert target.read_bytes() == text.replace(b"256", b"99", 1)
        # The text that it runs has no name any more: a new one is to be executed for the second half.
        second = subprocess.Popen(
            ["nsenter", "-t", str(site.host.init), "-a", "--", "bash", site.script], stdout=subprocess.PIPE
        )
        try:
            assert second.stdout is not None
            assert second.stdout.readline() == b"99 0\n"
            os.link(target, target.with_name("other"))
            end = ended(knob(root, "set", site.target, "TARGET_CTAS=1", "--in-place", "--go-ahead"))
            assert (end.code, "running interpreters" in end.message) == (1, True), end
        finally:
            second.kill()
            second.wait()
        printed += process.stdout.readlines()
        assert process.wait() == 0
    finally:
        process.kill()
        process.wait()
    assert printed == [f"256 {number}\n".encode() for number in range(400)]
