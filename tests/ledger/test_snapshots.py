from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledgers import scratch

from knobledger.errors import BadConfig, LedgerUnwritable
from knobledger.ledger.key import key
from knobledger.ledger.snapshots import Snapshots
from knobledger.names import Digest, digest_of


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@settings(max_examples=20)
@given(st.binary(max_size=200))
def test_what_is_put_can_be_got(content: bytes) -> None:
    with scratch() as folder:
        snapshots = Snapshots(Path(folder))
        digest = snapshots.put(content)
        assert digest == snapshots.put(content) == digest_of(content)
        assert snapshots.get(digest) == content
        assert snapshots.damaged() == ()
        assert len([path for path in snapshots.folder.rglob("*") if path.is_file()]) == 1


def test_nobody_else_can_read_them(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        digest = Snapshots(tmp_path).put(b"secret")
        key(tmp_path)
    finally:
        os.umask(old)
    private = tmp_path / ".knobledger"
    assert _mode(private / "snapshots" / digest[:2] / digest) == 0o600
    assert _mode(private / "key") == 0o600
    for folder in (private, private / "snapshots", private / "snapshots" / digest[:2]):
        assert _mode(folder) == 0o700


def test_a_damaged_one_is_missing_reported_and_mended(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path)
    digest, intact = snapshots.put(b"content"), snapshots.put(b"intact")
    path = snapshots.folder / digest[:2] / digest
    path.write_bytes(b"contenu")
    assert snapshots.get(digest) is None
    assert snapshots.damaged() == (digest,)
    assert snapshots.put(b"content") == digest
    assert snapshots.get(digest) == b"content"
    assert snapshots.get(intact) == b"intact"
    assert snapshots.damaged() == ()
    assert _mode(path) == 0o600


def test_other_files_beside_them_are_no_damage(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path)
    digest = snapshots.put(b"content")
    (snapshots.folder / digest[:2] / "README").touch()
    assert snapshots.damaged() == ()


def test_a_missing_one(tmp_path: Path) -> None:
    assert Snapshots(tmp_path).get(Digest("0" * 64)) is None
    assert Snapshots(tmp_path).damaged() == ()


def test_git_never_sees_them(tmp_path: Path) -> None:
    Snapshots(tmp_path).put(b"secret")
    key(tmp_path)
    for argv in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *argv], cwd=tmp_path, check=True)
    staged = subprocess.run(["git", "ls-files"], cwd=tmp_path, check=True, capture_output=True)
    assert staged.stdout == b""


def test_the_key_is_made_once(tmp_path: Path) -> None:
    made = key(tmp_path)
    assert len(made) == 32
    assert key(tmp_path) == made
    assert (tmp_path / ".knobledger" / "key").read_text() == made.hex() + "\n"


def test_two_first_users_get_the_same_key(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from knobledger.ledger.key import key;"
        "print(key(Path(sys.argv[1])).hex())"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE) for _ in range(4)
    ]
    assert len({process.communicate()[0] for process in running}) == 1


@pytest.mark.parametrize("content", ["", "xyz", "ab" * 31])
def test_a_damaged_key_is_not_replaced(tmp_path: Path, content: str) -> None:
    key(tmp_path)
    path = tmp_path / ".knobledger" / "key"
    path.write_text(content)
    with pytest.raises(BadConfig, match=str(path)) as refused:
        key(tmp_path)
    assert refused.value.hint == "`knob key import` brings it back"
    assert path.read_text() == content


def test_a_key_that_others_could_read_is_closed(tmp_path: Path) -> None:
    key(tmp_path)
    path = tmp_path / ".knobledger" / "key"
    path.chmod(0o644)
    key(tmp_path)
    assert _mode(path) == 0o600


def test_a_workspace_that_can_not_be_written(tmp_path: Path) -> None:
    (tmp_path / ".knobledger").write_text("in the way")
    with pytest.raises(LedgerUnwritable, match=r"\.knobledger"):
        Snapshots(tmp_path).put(b"content")
    with pytest.raises(LedgerUnwritable, match=r"\.knobledger"):
        key(tmp_path)
