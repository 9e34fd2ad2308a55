"""What `transaction.sh` does when something is odd or goes wrong, on each shell, with the real tools of each."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conformance import SCRIPT
from rigs import BACKUP_DIR, DiskRig, fake, leftovers, local, needs_root, privileged, transaction, untouched

from knobledger.errors import Busy, Drifted, NotWritten, Refused, StateUnknown
from knobledger.hosts.local import LocalHost
from knobledger.names import digest_of


@needs_root
def test_owner_and_special_bits_are_kept(on: DiskRig) -> None:
    path = on.put("f", b"old")
    os.chown(path, 4321, 1234)
    os.chmod(path, 0o6751)
    os.utime(path, (1_000_000_000, 1_000_000_000))
    receipt = on.host.replace(transaction(on.host, path, b"new"))
    for file in (path, receipt.backup):
        found = os.stat(file)
        assert (found.st_uid, found.st_gid, on.mode(file)) == (4321, 1234, 0o6751)
    assert int(os.stat(receipt.backup).st_mtime) == 1_000_000_000
    assert os.stat(path).st_mtime > 1_000_000_000
    assert (receipt.manifest.uid, receipt.manifest.gid, receipt.manifest.mode) == (4321, 1234, "6751")


@needs_root
def test_a_setgid_folder_does_not_change_the_group(on: DiskRig) -> None:
    path = on.put("f", b"old")
    os.chown(on.root, 0, 1234)
    os.chmod(on.root, 0o2755)
    on.host.replace(transaction(on.host, path, b"new"))
    assert os.stat(path).st_gid == 0


@needs_root
@pytest.mark.tool("setfacl", "setfattr", "getfattr")
@pytest.mark.parametrize("in_place", [False, True])
def test_acl_xattrs_and_capabilities_are_kept(box: Path, in_place: bool) -> None:
    rig = DiskRig("dash", local("dash"), box)
    path = rig.put("f", b"old")
    subprocess.run(["setfacl", "-m", "u:1234:rx", path], check=True)
    subprocess.run(["setfattr", "-n", "user.note", "-v", 'a "note"', path], check=True)
    subprocess.run(
        ["setfattr", "-n", "security.capability", "-v", "0sAQAAAgAEAAAAAAAAAAAAAAAAAAA=", path], check=True
    )
    if in_place:
        rig.hardlink("g", path)
    before = rig.host.read(path).manifest
    assert "user:1234:r-x" in before.acl
    assert "user.note" in before.xattrs
    assert "security.capability" in before.xattrs
    receipt = rig.host.replace(transaction(rig.host, path, b"new", in_place=in_place))
    for file in (path, receipt.backup):
        after = rig.host.read(file).manifest  # type: ignore[arg-type]
        assert (after.acl, after.xattrs, after.mode) == (before.acl, before.xattrs, before.mode)


@needs_root
@pytest.mark.tool("setfacl")
def test_attributes_that_can_not_be_kept_are_not_lost(box: Path, tmp_path: Path) -> None:
    # A cp that knows nothing of ACLs, as busybox's, but tools that see them.
    fakes = fake(
        tmp_path / "fakes",
        "cp",
        'case "$*" in *attributes-only*|*preserve*) exit 1;; esac; exec busybox cp "$@"',
    )
    fake(fakes, "setfacl", "exit 1")
    rig = DiskRig("dash", local("dash", fakes=fakes), box)
    path = rig.put("f", b"old")
    subprocess.run(["/usr/bin/setfacl", "-m", "u:1234:rx", path], check=True)
    with pytest.raises(NotWritten) as caught:
        rig.host.replace(transaction(rig.host, path, b"new"))
    assert "ACL" in caught.value.message
    assert rig.content(path) == b"old"
    assert untouched(rig, "f")


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that every user can reach, which pytest's own are not."""
    folder = Path(tempfile.mkdtemp(prefix="knobledger-test-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@needs_root
@pytest.mark.tool("dash")
def test_ownership_that_can_not_be_kept_is_refused(public: Path) -> None:
    rig = DiskRig("dash", local("dash", user=65534), public)
    path = rig.put("f", b"old")
    os.chown(public, 65534, 65534)
    with pytest.raises(NotWritten) as caught:
        rig.host.replace(transaction(rig.host, path, b"new"))
    assert "owner is 65534:65534, not 0:0" in caught.value.message
    assert rig.content(path) == b"old"
    assert untouched(rig, "f")


def test_the_backup_directory_is_private(on: DiskRig) -> None:
    path = on.put("f", b"0")
    on.host.replace(transaction(on.host, path, b"1"))
    assert on.mode(on.path(BACKUP_DIR)) == 0o700
    os.chmod(on.path(BACKUP_DIR), 0o755)
    on.host.replace(transaction(on.host, path, b"2"))
    assert on.mode(on.path(BACKUP_DIR)) == 0o700


def test_the_folder_of_the_target_as_backup_directory_keeps_its_mode(on: DiskRig) -> None:
    os.chmod(on.root, 0o755)
    path = on.put("f", b"0")
    receipt = on.host.replace(transaction(on.host, path, b"1", backup_dir=".", backup_name="f.mine.bak"))
    assert receipt.backup == on.path("f.mine.bak")
    assert on.mode(str(on.root)) == 0o755


@pytest.mark.timeout(60)
def test_busy_says_who_and_since_when(
    with_fakes: tuple[DiskRig, Path], tmp_path: Path, shell: str, tools: Path
) -> None:
    slow, fakes = with_fakes
    fake(fakes, "mv", f'"$real" "$@"; touch {tmp_path}/swapped; sleep 1.2')
    path = slow.put("f", b"0")
    planned = transaction(slow.host, path, b"1", holder="first@desk")
    other = local(shell, tools)
    other.wait_s = 0.2
    late = transaction(other, path, b"2")
    first = threading.Thread(target=slow.host.replace, args=(planned,))
    first.start()
    while not (tmp_path / "swapped").exists():
        time.sleep(0.01)
    with pytest.raises(Busy) as caught:
        other.replace(late)
    assert caught.value.exit_code == 11
    assert caught.value.values["holder"] == "first@desk"
    since = caught.value.values["since"]
    assert isinstance(since, int)
    assert abs(since - time.time()) < 30
    assert slow.content(path) == b"1"
    # Waiting long enough, it sees that the file is not what it was made for.
    other.wait_s = 20
    with pytest.raises(Drifted):
        other.replace(late)
    first.join()
    assert leftovers(slow) == []


def test_a_lock_never_outlives_its_holder(with_fakes: tuple[DiskRig, Path], shell: str, tools: Path) -> None:
    rig, fakes = with_fakes
    fake(fakes, "mv", "kill -9 0")
    path = rig.put("f", b"0")
    with pytest.raises((NotWritten, StateUnknown)):
        rig.host.replace(transaction(rig.host, path, b"1"))
    assert rig.content(path) == b"0"
    healthy = local(shell, tools)
    healthy.wait_s = 0.2
    healthy.replace(transaction(healthy, path, b"2"))
    assert rig.content(path) == b"2"
    assert leftovers(rig) == []


@pytest.mark.tool("busybox")
def test_without_flock_a_live_lock_file_is_respected(box: Path, tools: Path) -> None:
    rig = DiskRig("busybox", local("busybox", tools), box)
    path = rig.put("f", b"0")
    start = Path("/proc/self/stat").read_text().rpartition(") ")[2].split()[19]
    rig.put(".knobledger.lock", f"{os.getpid()} {start} 1700000000\nsomebody@else\n".encode())
    rig.host.wait_s = 0.1  # type: ignore[attr-defined]
    with pytest.raises(Busy) as caught:
        rig.host.replace(transaction(rig.host, path, b"1"))
    assert caught.value.values["holder"] == "somebody@else"
    assert caught.value.values["since"] == 1700000000
    # The same process id, started at another time: somebody else's, long gone.
    rig.put(".knobledger.lock", f"{os.getpid()} {int(start) + 1} 1700000000\nsomebody@else\n".encode())
    rig.host.replace(transaction(rig.host, path, b"1"))
    assert rig.names() == ["f"]


def test_a_running_script_finishes_with_its_old_text(on: DiskRig, tmp_path: Path) -> None:
    old = b"".join(b"echo old-%d\nsleep 0.05\n" % n for n in range(12))
    path = on.put("run.sh", b"#!/bin/bash\n" + old, 0o755)
    process = subprocess.Popen(["bash", path], stdout=subprocess.PIPE)
    time.sleep(0.1)
    receipt = on.host.replace(transaction(on.host, path, b"#!/bin/bash\n" + b"echo NEW\n" * 40))
    assert process.pid in receipt.manifest.running
    out, _ = process.communicate(timeout=20)
    assert out.decode().split() == [f"old-{n}" for n in range(12)]


def test_in_place_is_refused_under_a_running_interpreter(on: DiskRig) -> None:
    path = on.put("run.sh", b"#!/bin/bash\nsleep 2\n: end\n", 0o755)
    on.hardlink("other", path)
    process = subprocess.Popen(["bash", path])
    time.sleep(0.1)
    try:
        assert on.host.read(path, running=True).manifest.running == (process.pid,)
        assert on.host.read(path).manifest.running == ()
        with pytest.raises(Refused) as caught:
            on.host.replace(transaction(on.host, path, b"new", in_place=True))
        assert f"pid {process.pid}" in caught.value.message
    finally:
        process.kill()
        process.wait()
    assert on.content(path).startswith(b"#!/bin/bash\nsleep")


@needs_root
def test_a_bind_mounted_file(on: DiskRig) -> None:
    source, path = on.put("source", b"old"), on.put("mounted here", b"")
    privileged("mount", "--bind", source, path)
    try:
        assert on.host.read(path).manifest.mount is True
        assert on.host.read(source).manifest.mount is False
        with pytest.raises(Refused) as caught:
            on.host.replace(transaction(on.host, path, b"new"))
        assert "mount point" in caught.value.message
        assert "--in-place" in caught.value.hint
        receipt = on.host.replace(transaction(on.host, path, b"new", in_place=True))
        assert receipt.manifest.mount is True
        assert on.content(source) == b"new"
        assert on.content(receipt.backup) == b"old"
    finally:
        subprocess.run(["umount", path], check=True)


@pytest.mark.parametrize("check", ["bash", "sh"])
def test_new_syntax_errors_are_not_written(on: DiskRig, check: str) -> None:
    if on.kind == "busybox" and check == "bash":
        path = on.put("f", SCRIPT)
        receipt = on.host.replace(transaction(on.host, path, b"if true; then\n", check=check))
        assert any("bash is not here" in step.detail for step in receipt.steps)
        return
    path = on.put("f", SCRIPT)
    with pytest.raises(NotWritten) as caught:
        on.host.replace(transaction(on.host, path, b"T=s3cr3t ) if true; then\n", check=check))
    assert f"{check} -n" in caught.value.message
    assert path in caught.value.hint
    assert "s3cr3t" not in caught.value.hint
    assert on.content(path) == SCRIPT
    assert untouched(on, "f")
    # What was wrong before is no reason to refuse a change.
    path = on.put("g", b"if true; then\n")
    on.host.replace(transaction(on.host, path, b"if false; then\n", check=check))


@pytest.mark.tool("systemd-analyze")
def test_new_complaints_about_a_unit_are_not_written(box: Path) -> None:
    rig = DiskRig("dash", local("dash"), box)
    path = rig.put("dsv4-decode.service", b"[Service]\nExecStart=/bin/true\n")
    receipt = rig.host.replace(
        transaction(rig.host, path, b"[Service]\nEnvironment=A=1\nExecStart=/bin/true\n", check="unit")
    )
    assert any("systemd-analyze verify has no new complaints" in step.detail for step in receipt.steps)
    with pytest.raises(NotWritten) as caught:
        rig.host.replace(
            transaction(rig.host, path, b"[Service]\nEnvironmnt=A=1\nExecStart=/bin/true\n", check="unit")
        )
    assert "Environmnt" in caught.value.hint
    assert leftovers(rig) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    folder = tmp_path / "small"
    folder.mkdir()
    privileged("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder))
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@needs_root
def test_a_full_disk_is_seen_before_anything_is_written(on: DiskRig, small_disk: Path) -> None:
    rig = DiskRig(on.kind, on.host, small_disk)
    path = rig.put("f", b"old" * 1000)
    with pytest.raises(NotWritten) as caught:
        rig.host.replace(transaction(rig.host, path, b"x" * 2_000_000))
    assert "disk is full" in caught.value.message
    assert rig.content(path) == b"old" * 1000
    assert untouched(rig, "f")


@needs_root
def test_a_disk_that_gets_full_while_writing(small_disk: Path, tmp_path: Path) -> None:
    fakes = fake(tmp_path / "fakes", "df", "echo; echo x 9999999 0 9999999 0% /")
    rig = DiskRig("dash", local("dash", fakes=fakes), small_disk)
    path = rig.put("f", b"old")
    with pytest.raises(NotWritten) as caught:
        rig.host.replace(transaction(rig.host, path, b"x" * 2_000_000))
    assert "No space left" in caught.value.message
    path = rig.put("g", b"y" * 600_000)
    with pytest.raises(NotWritten) as caught:
        rig.host.replace(transaction(rig.host, path, b"z" * 300_000))
    assert "No space left" in caught.value.message
    assert rig.content(path) == b"y" * 600_000
    assert untouched(rig, "f", "g")


@needs_root
@pytest.mark.parametrize("flag", ["i", "a"])
def test_an_immutable_or_append_only_file(on: DiskRig, flag: str) -> None:
    path = on.put("f", b"old")
    privileged("chattr", f"+{flag}", path)
    try:
        with pytest.raises(NotWritten) as caught:
            on.host.replace(transaction(on.host, path, b"new"))
        assert caught.value.exit_code == 21
        assert "ermitted" in caught.value.message
    finally:
        subprocess.run(["chattr", f"-{flag}", path], check=True)
    assert on.content(path) == b"old"
    assert untouched(on, "f")


@needs_root
def test_an_immutable_folder_and_a_read_only_disk(on: DiskRig, small_disk: Path) -> None:
    path = on.put("f", b"old")
    privileged("chattr", "+i", str(on.root))
    try:
        with pytest.raises(NotWritten):
            on.host.replace(transaction(on.host, path, b"new"))
    finally:
        subprocess.run(["chattr", "-i", str(on.root)], check=True)
    rig = DiskRig(on.kind, on.host, small_disk)
    path = rig.put("f", b"old")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(NotWritten) as caught:
        rig.host.replace(transaction(rig.host, path, b"new"))
    assert "Read-only file system" in caught.value.message
    assert untouched(rig, "f")


@needs_root
def test_what_may_not_be_read_or_written_is_named(public: Path) -> None:
    rig = DiskRig("dash", local("dash", user=65534), public)
    path = rig.put("secret", b"old", 0o600)
    with pytest.raises(Refused) as caught:
        rig.host.read(path)
    assert "permission denied" in caught.value.message
    path = rig.put("public", b"old", 0o644)
    with pytest.raises(NotWritten) as unwritten:
        rig.host.replace(transaction(rig.host, path, b"new"))
    assert "Permission denied" in unwritten.value.message
    assert untouched(rig, "public", "secret")


@pytest.mark.tool("busybox")
@pytest.mark.parametrize("missing", ["sha256sum", "stat", "cp", "mv", "cat", "ln", "grep"])
def test_missing_tools_fail_closed(box: Path, tmp_path: Path, tools: Path, missing: str) -> None:
    few = tmp_path / "few"
    few.mkdir()
    for name in os.listdir(tools):
        if name not in (missing, "busybox", "shasum", "openssl"):
            (few / name).symlink_to(tools / name)
    rig = DiskRig(
        "dash", LocalHost("few", shell=("/bin/dash",), environment={"PATH": str(few)}, search=""), box
    )
    path = rig.put("f", b"old")
    with pytest.raises((NotWritten, Refused)) as caught:
        rig.host.replace(transaction(rig.host, path, b"new", base=digest_of(b"old")))
    assert caught.value.message
    assert rig.content(path) == b"old"
    assert untouched(rig, "f")
