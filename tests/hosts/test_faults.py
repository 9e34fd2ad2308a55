"""Faults in the middle of a transaction: whatever happens, old or new, and a true word about it."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest
from conformance import CHANGED, SCRIPT
from rigs import BACKUP_DIR, DiskRig, fake, leftovers, local, transaction, untouched

from knobledger.errors import Busy, Drifted, NotWritten, Refused, RolledBack, StateUnknown
from knobledger.names import digest_of


def test_a_swap_that_fails_leaves_the_file_alone(with_fakes: tuple[DiskRig, Path]) -> None:
    rig, fakes = with_fakes
    fake(fakes, "mv", "echo 'mv: Input/output error' >&2; exit 1")
    path = rig.put("f", b"old")
    with pytest.raises(NotWritten) as caught:
        rig.host.replace(transaction(rig.host, path, b"new"))
    assert "Input/output error" in caught.value.message
    assert rig.content(path) == b"old"
    assert untouched(rig, "f")


def test_a_wrong_file_after_the_swap_is_put_back(with_fakes: tuple[DiskRig, Path], tmp_path: Path) -> None:
    rig, fakes = with_fakes
    fake(
        fakes,
        "mv",
        f'"$real" "$@" || exit; [ -e {tmp_path}/done ] || {{ touch {tmp_path}/done; printf X >>"{rig.path("f")}"; }}',
    )
    path = rig.put("f", b"old", 0o751)
    os.utime(path, (1_000_000_000, 1_000_000_000))
    with pytest.raises(RolledBack) as caught:
        rig.host.replace(transaction(rig.host, path, b"new"))
    assert caught.value.exit_code == 21
    assert rig.content(path) == b"old"
    assert rig.mode(path) == 0o751
    assert int(os.stat(path).st_mtime) == 1_000_000_000
    steps = caught.value.values["steps"]
    assert [(step["step"], step["ok"]) for step in steps][-3:] == [  # type: ignore[attr-defined]
        ("swap", True),
        ("verify", False),
        ("rollback", True),
    ]
    assert leftovers(rig) == []


def test_a_wrong_mode_after_the_swap_is_put_back(with_fakes: tuple[DiskRig, Path], tmp_path: Path) -> None:
    rig, fakes = with_fakes
    fake(
        fakes,
        "mv",
        f'"$real" "$@" || exit; [ -e {tmp_path}/done ] || {{ touch {tmp_path}/done; chmod 700 "{rig.path("f")}"; }}',
    )
    path = rig.put("f", b"old", 0o644)
    with pytest.raises(RolledBack) as caught:
        rig.host.replace(transaction(rig.host, path, b"new"))
    assert "mode is 700, not 644" in caught.value.message
    assert (rig.content(path), rig.mode(path)) == (b"old", 0o644)


def test_a_roll_back_that_fails_is_unknown_and_says_what_to_type(
    with_fakes: tuple[DiskRig, Path], tmp_path: Path
) -> None:
    rig, fakes = with_fakes
    fake(
        fakes,
        "mv",
        f'[ -e {tmp_path}/done ] && exit 1; touch {tmp_path}/done; "$real" "$@"; printf X >>"{rig.path("f")}"',
    )
    path = rig.put("f", b"old")
    with pytest.raises(StateUnknown) as caught:
        rig.host.replace(transaction(rig.host, path, b"new"))
    assert caught.value.exit_code == 22
    assert rig.content(path) == b"newX"
    commands = caught.value.values["commands"]
    assert isinstance(commands, list)
    assert any(command.startswith("cp -p ") for command in commands)
    for command in commands:
        subprocess.run(["sh", "-c", command], check=False, stdout=subprocess.DEVNULL)
    assert rig.content(path) == b"old"


def test_a_backup_that_is_not_the_original_stops_everything(with_fakes: tuple[DiskRig, Path]) -> None:
    rig, fakes = with_fakes
    fake(fakes, "cp", '"$real" "$@" || exit; for last; do :; done; printf X >>"$last"')
    path = rig.put("f", b"old")
    with pytest.raises(NotWritten) as caught:
        rig.host.replace(transaction(rig.host, path, b"new"))
    assert "digest of the original" in caught.value.message
    assert rig.content(path) == b"old"
    assert untouched(rig, "f")


@pytest.mark.parametrize("theirs", ["theirs", "sly"])
def test_a_writer_who_knows_no_lock_is_noticed_before_the_swap(
    with_fakes: tuple[DiskRig, Path], theirs: str
) -> None:
    rig, fakes = with_fakes
    fake(fakes, "sync", f'printf {theirs} >"{rig.path("f")}"')
    path = rig.put("f", b"old")
    with pytest.raises(Drifted) as caught:
        rig.host.replace(transaction(rig.host, path, b"new"))
    assert caught.value.values["live"] == digest_of(theirs.encode())
    assert rig.content(path) == theirs.encode()
    assert leftovers(rig) == []


def test_a_file_that_changes_while_it_is_read(with_fakes: tuple[DiskRig, Path], tmp_path: Path) -> None:
    rig, fakes = with_fakes
    path = rig.put("f", b"old")
    fake(fakes, "cat", f'"$real" "$@"; [ -e {tmp_path}/calm ] || printf X >>"{path}"; touch {tmp_path}/calm')
    assert rig.host.read(path).content == b"oldX"
    fake(fakes, "cat", f'"$real" "$@"; printf X >>"{path}"')
    with pytest.raises(Refused) as caught:
        rig.host.read(path)
    assert "changes while it is being read" in caught.value.message


_TOOLS = """
    cat chmod chown cp cut date df diff flock getfacl getfattr grep ln ls mkdir mv readlink rm rmdir sed sha256sum
    sort stat sync touch tr
"""


@pytest.mark.tool("dash")
def test_killed_before_every_command_of_the_transaction(box: Path, tmp_path: Path) -> None:
    fakes, count, limit = tmp_path / "fakes", tmp_path / "count", tmp_path / "limit"
    for tool in _TOOLS.split():
        fake(
            fakes,
            tool,
            # Appending, because the commands of a pipeline run at the same time.
            f"printf . >>{count}; read -r seen <{count}; read -r limit <{limit}\n"
            f'[ ${{#seen}} -lt $limit ] || kill -9 0\nexec "$real" "$@"',
        )
    rig, healthy = DiskRig("dash", local("dash", fakes=fakes), box), local("dash")
    killed = {NotWritten: 0, StateUnknown: 0}
    for number in range(1, 200):
        path = rig.put("f", SCRIPT, 0o751)
        planned = transaction(healthy, path, CHANGED, grep=("=256",))
        count.write_text("")
        limit.write_text(f"{number}\n")
        try:
            rig.host.replace(planned)
        except (NotWritten, StateUnknown) as error:
            killed[type(error)] += 1
            content = rig.content(path)
            assert content in (SCRIPT, CHANGED), (number, content)
            assert rig.mode(path) == 0o751
            if isinstance(error, NotWritten):
                assert content == SCRIPT, number
        else:
            break
        healthy.tidy(path, BACKUP_DIR)
        assert rig.names() == ["f"], number
    else:
        pytest.fail("it never came to its end")
    assert rig.content(path) == CHANGED
    assert killed[NotWritten] > 12
    assert killed[StateUnknown] > 5


@pytest.mark.timeout(60)
def test_of_many_who_race_each_success_is_in_the_file(shell: str, box: Path, tools: Path) -> None:
    rig = DiskRig(shell, local(shell, tools), box)
    path = rig.put("f", b"")
    told_done: list[str] = []

    def work(name: str) -> None:
        host = local(shell, tools)
        for _ in range(3):
            content = host.read(path).content
            try:
                host.replace(transaction(host, path, content + name.encode(), base=digest_of(content)))
            except (Drifted, Busy):
                continue
            told_done.append(name)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(rig.content(path).decode()) == sorted(told_done)
    assert told_done
    assert leftovers(rig) == []
