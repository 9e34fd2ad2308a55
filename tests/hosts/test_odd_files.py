"""Odd files on a real host, from the plan to the undoing: what works leaves every attribute, what can't says why.

ansible#6986, salt#20910 (symbolic links), ansible-modules-core#4188, ansible#13981 (bind mounts), ansible#83972,
ansible#25389, python-dotenv#367 (owner and mode), ansible#27344, salt#19643 (the backup's owner and mode),
oxidized#2346 (large files), community.general#12011 (nothing to change, no backup).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from rigs import transaction

from knobledger.drafting import Options
from knobledger.errors import KnobError, Refused
from knobledger.founding import found
from knobledger.hosts.config import Config
from knobledger.hosts.connect import connect
from knobledger.knobs import Request
from knobledger.names import HostPath, digest_of
from knobledger.report.plans import NothingToDo
from knobledger.workspace import Workspace
from lab import LabHost
from lab.fixtures import MARKS

pytestmark = [
    *MARKS,
    pytest.mark.tool("setfacl", "getfacl", "getfattr", "setfattr", "chattr", "setcap", "sudo"),
]
OLD = b"#!/bin/bash\nexport KNOB=1\nexec sleep infinity\n"
ENV = {"KNOBLEDGER_ACTOR": "anna", "TZ": "UTC"}


@dataclass(frozen=True, slots=True)
class Odd:
    """How the file comes to be (POSIX sh in its own folder, `f` holds the text), and what must come of a change."""

    make: str = ""
    path: str = "f"
    code: int = 0
    words: str = ""
    """of the error"""
    in_place: bool = False
    sudo: bool = False
    content: bytes = OLD
    backup_dir: str = ""
    also: str = "true"
    """must hold in the folder after the change, and after it was taken back"""


KINDS = {
    "plain": Odd(),
    "symbolic link": Odd("ln -s f link", "link", also="[ -L link ]"),
    "relative links in a chain, across folders": Odd(
        "mkdir a b; mv f b/; ln -s ../b/f a/one; ln -s a/one two; ln -s two three",
        "three",
        also="[ -L three ] && [ -L two ] && [ -L a/one ] && [ -f b/f ] && [ -d b/.knobledger ] && [ ! -e .knobledger ]",
    ),
    "absolute link": Odd('ln -s "$PWD/f" link', "link", also="[ -L link ]"),
    "folder that is a link": Odd(
        "mkdir real; mv f real; ln -s real folder", "folder/f", also="[ -L folder ]"
    ),
    "dangling link": Odd("rm f; ln -s nowhere f", code=1, words="leads nowhere"),
    "link in a circle": Odd("rm f; ln -s g f; ln -s f g", code=1, words="circle"),
    "missing": Odd("rm f", code=1, words="no such file"),
    "folder": Odd("rm f; mkdir f", code=1, words="a folder, not a file"),
    "FIFO": Odd("rm f; mkfifo f", code=1, words="FIFO"),
    "device": Odd("rm f; mknod f c 1 3", code=1, words="not a regular file"),
    "hard links": Odd("ln f g", code=1, words="hard links"),
    "hard links, in place": Odd("ln f g", in_place=True, also="[ f -ef g ]"),
    "bind mount": Odd("echo else >g; mount --bind f g; cp f /dev/null", "g", code=1, words="a mount point"),
    "bind mount, in place": Odd("echo else >g; mount --bind f g", "g", in_place=True, also="[ f -ef g ]"),
    "backup on another disk": Odd("mkdir -p /dev/shm/odd-backups", backup_dir="/dev/shm/odd-backups"),
    "on a disk of its own": Odd("mv f ..; mount -t tmpfs odd .; cd ..; cd odd; mv ../f f"),
    "immutable": Odd(
        "chattr +i f", code=21, words="can't rename over the target", also="lsattr f | grep -q -e i-"
    ),
    "append-only": Odd(
        "chattr +a f", code=21, words="can't rename over the target", also="lsattr f | grep -q -e a-"
    ),
    "immutable folder": Odd("chattr +i .", code=21, words="can't create a file"),
    "ACL": Odd("setfacl -m u:1501:rw,g:7:r,m::rw f"),
    "default ACL on the folder": Odd("setfacl -d -m u:1501:rwx ."),
    "xattrs": Odd("setfattr -n user.origin -v 'by hand' f; setfattr -n trusted.x -v 0x00ff f"),
    "capabilities": Odd("setcap cap_net_bind_service=ep f"),
    "setuid": Odd("chown 1500:7 f; chmod 6751 f"),
    "nobody may": Odd("chmod 000 f"),
    "somebody else's": Odd("chown 1501:1502 f; chmod 604 f"),
    "sticky folder": Odd("chmod 1777 .; chown 1501 f"),
    "setgid folder": Odd("chgrp 7 .; chmod 2775 .; chgrp 8 f"),
    "spaces and quotes": Odd(
        """mv f "two words, it's "'"quoted"' """, """two words, it's "quoted" """.rstrip(" ")
    ),
    "newline": Odd("mv f 'new\nline'", "new\nline"),
    "leading dash": Odd("mv f ./-rf", "-rf"),
    "UTF-8": Odd("mv f schön-文", "schön-文"),
    "glob and dollar": Odd("mv f '*[a-z]$HOME`id`'", "*[a-z]$HOME`id`"),
    "empty": Odd(content=b""),
    "400 kB": Odd(content=OLD + b"# padding\n" * 40_000),
    "no newline at the end": Odd(content=b"export KNOB=1"),
    "CRLF": Odd(content=b"export A=0\r\nexport KNOB=1\r\n"),
    "read-only disk": Odd(
        "mv f ..; mount -t tmpfs odd .; cd ..; cd odd; mv ../f f; mount -o remount,ro .",
        code=21,
        words="ead-only",
    ),
    "full disk": Odd(
        "mv f ..; mount -t tmpfs -o size=8k odd .; cd ..; cd odd; mv ../f f; cat /dev/zero >filler 2>/dev/null || :",
        code=21,
        words="disk is full",
    ),
    "quiet sudo: root's": Odd("chmod 640 f", sudo=True),
    "quiet sudo: somebody's": Odd(
        "chown 1501:1502 f; chmod 400 f; setfacl -m u:7:r f; chown 0:0 .; chmod 700 .", sudo=True
    ),
    "not ours, without sudo": Odd("chmod 600 f", code=1, words="permission denied"),
    "folder not ours, without sudo": Odd(
        "chown 1500 f; chmod 644 f; chmod 755 .", code=21, words="can't create a file"
    ),
    "owner can't be kept": Odd("chown 0:0 f; chmod 644 f; chmod 777 .", code=21, words="owner is"),
}
OTHER_LOGIN = ("sudo:", "without sudo", "owner can't be kept")
"""parts of the names of kinds for which we log in as somebody who is not root"""


@pytest.fixture
def odd(plain_host: LabHost) -> str:
    """An empty folder on the host, on a disk that knows every attribute."""
    passwd = plain_host.at("/etc/passwd")
    if "odd:" not in passwd.read_text():
        with passwd.open("a") as file:
            file.write("odd:x:1500:1500::/home/odd:/bin/sh\n")
        with plain_host.at("/etc/shadow").open("a") as file:
            file.write("odd:*:20000:0:99999:7:::\n")
        plain_host.at("/etc/sudoers.d/odd").write_text("odd ALL=(ALL) NOPASSWD: ALL\n")
        plain_host.at("/etc/sudoers.d/odd").chmod(0o440)
        plain_host.small_disk("/srv/odds", "size=400m,mode=755")
    plain_host.run("sh", "-c", _CLEAR)
    plain_host.run("mkdir", "/srv/odds/odd")
    return "/srv/odds/odd"


_CLEAR = """
umount /srv/odds/odd/g /srv/odds/odd 2>/dev/null
chattr -R -ia /srv/odds /dev/shm/odd-backups 2>/dev/null
rm -rf /srv/odds/odd /srv/odds/f /dev/shm/odd-backups
"""

_LOOK = """
cd "$1" && stat -c '%u %g %a' . && stat -L -c '%u %g %a %h' -- "$2"
getfacl -nEp -- . "$2" 2>/dev/null
getfattr -d -m - -- . "$2" 2>/dev/null
getcap -- "$2" 2>/dev/null
ls -A | grep -v -x .knobledger
:
"""


@pytest.mark.parametrize("name", KINDS)
def test_an_odd_file(plain_host: LabHost, odd: str, tmp_path: Path, name: str) -> None:
    kind = KINDS[name]
    plain_host.run("sh", "-c", 'cd "$1" && cat >f && chmod 644 f', "sh", odd, stdin=kind.content)
    plain_host.run("sh", "-e", "-c", f'cd "$1"\n{kind.make}', "sh", odd)
    path = f"{odd}/{kind.path}"
    other = any(part in name for part in OTHER_LOGIN)
    root = _workspace(plain_host, tmp_path, path, kind, "odd" if other else "root")

    def look() -> bytes:
        return plain_host.run("sh", "-c", _LOOK, "sh", odd, kind.path, check=False).stdout

    def content() -> bytes:
        return plain_host.run("cat", "--", path).stdout

    before = look()
    if kind.code:
        with pytest.raises(KnobError) as caught:
            _set(root, "2", in_place=kind.in_place)
        assert (caught.value.exit_code, kind.words in caught.value.message) == (kind.code, True), caught.value
        assert repr(path) in caught.value.message
        assert look() == before
        assert plain_host.run("sh", "-c", f'cd "$1"; {kind.also}', "sh", odd, check=False).returncode == 0
        assert not plain_host.run("sh", "-c", 'cd "$1"; ls -d .knobledger 2>/dev/null; :', "sh", odd).stdout
        return
    if kind.content:
        _set(root, "2", in_place=kind.in_place)
        wanted = kind.content.replace(b"KNOB=1", b"KNOB=2")
    else:
        wanted = b"export KNOB=2\n"
        _through(root, lambda space: space.edit("gpu1/s", lambda *_: wanted, Options()))
    assert content() == wanted
    assert look() == before
    plain_host.run("sh", "-c", f'cd "$1"; {kind.also}', "sh", odd)
    _revert(root, in_place=kind.in_place)
    assert content() == kind.content
    assert look() == before
    plain_host.run("sh", "-c", f'cd "$1"; {kind.also}', "sh", odd)


def _workspace(host: LabHost, root: Path, path: str, kind: Odd, user: str) -> Path:
    found(root)
    service = f"[hosts.{host.name}.services.s]\nscript = {json.dumps(path)}\n"
    service += f'backup_dir = "{kind.backup_dir}"\n' if kind.backup_dir else ""
    (root / "hosts.toml").write_text(host.toml(service, user=user, sudo=kind.sudo), encoding="utf-8")
    return root


def _through(root: Path, plan: Callable[[Workspace], object]) -> None:
    with Workspace.open(root, ENV) as workspace:
        report = plan(workspace)
        assert not isinstance(report, NothingToDo)
        workspace.approve(report.id, "flag")  # type: ignore[attr-defined]
        workspace.apply(report.id)  # type: ignore[attr-defined]


def _set(root: Path, value: str, *, in_place: bool) -> None:
    _through(root, lambda space: space.set(["gpu1/s"], [Request("KNOB", value)], Options(in_place=in_place)))


def _revert(root: Path, *, in_place: bool) -> None:
    _through(root, lambda space: space.revert("@", Options(in_place=in_place)))


@pytest.mark.parametrize("transport", ["fabric", pytest.param("openssh", marks=pytest.mark.tool("ssh"))])
def test_50_megabytes(plain_host: LabHost, odd: str, transport: str) -> None:
    """oxidized#2346: there and back again, every byte proven on both sides."""
    plain_host.at(f"{odd}/f").write_bytes(OLD)
    config = Config.parse(plain_host.toml(transport=transport), Path("/")).hosts["gpu1"]
    host = connect(config, root=Path("/"))
    try:
        path = HostPath(f"{odd}/f")
        large = OLD + bytes(range(256)) * 200_000
        receipt = host.replace(transaction(host, path, large))
        assert receipt.digest == digest_of(large)
        assert host.read(path).content == large
        again = host.replace(transaction(host, path, OLD, matches=receipt.backup))
        assert again.matches_backup
        assert plain_host.at(f"{odd}/f").read_bytes() == OLD
        assert digest_of(plain_host.at(again.backup).read_bytes()) == digest_of(large)
    finally:
        host.close()


def test_nothing_to_change_writes_nothing(plain_host: LabHost, odd: str, tmp_path: Path) -> None:
    """community.general#12011"""
    plain_host.at(f"{odd}/f").write_bytes(OLD)
    root = _workspace(plain_host, tmp_path, f"{odd}/f", Odd(), "root")
    with Workspace.open(root, ENV) as workspace:
        assert isinstance(workspace.set(["gpu1/s"], [Request("KNOB", "1")], Options()), NothingToDo)
    assert not plain_host.at(f"{odd}/.knobledger").exists()


def test_one_flipped_byte_in_a_backup_stops_the_restore(
    plain_host: LabHost, odd: str, tmp_path: Path
) -> None:
    """puppet#5704"""
    target = plain_host.at(f"{odd}/f")
    target.write_bytes(OLD)
    root = _workspace(plain_host, tmp_path, f"{odd}/f", Odd(), "root")
    _set(root, "2", in_place=False)
    with Workspace.open(root, ENV) as workspace:
        report = workspace.revert("@", Options())
        assert not isinstance(report, NothingToDo)
        workspace.approve(report.id, "flag")
    [backup] = (target.parent / ".knobledger").iterdir()
    backup.write_bytes(OLD.replace(b"infinity", b"infinitz"))
    with Workspace.open(root, ENV) as workspace, pytest.raises(KnobError) as caught:
        workspace.apply(report.id)
    assert caught.value.exit_code == 21
    assert f"is not equal to {odd}/.knobledger/{backup.name}" in caught.value.message
    assert target.read_bytes() == OLD.replace(b"KNOB=1", b"KNOB=2")
    assert [path.name for path in (target.parent / ".knobledger").iterdir()] == [backup.name]


def test_a_file_that_changes_while_it_is_read(plain_host: LabHost, odd: str, tmp_path: Path) -> None:
    """Its writer is real, and writes all the time; whatever is read is one of its versions, or is refused."""
    size = 2_000_000
    root = _workspace(plain_host, tmp_path, f"{odd}/f", Odd(), "root")
    plain_host.at(f"{odd}/f").write_bytes(b"export KNOB=1\n" + b"a" * size)
    fill = f"(printf 'export KNOB=1\\n'; head -c {size} /dev/zero | tr '\\0' $c) >{odd}/f"
    inside = ("nsenter", "-t", str(plain_host.init), "-a", "--")
    loop = f"while :; do for c in a b; do {fill}; done; done"
    writer = subprocess.Popen([*inside, "sh", "-c", loop], start_new_session=True)
    try:
        with Workspace.open(root, ENV) as workspace:
            host = workspace.host("gpu1")
            for _ in range(5):
                try:
                    content = host.read(workspace.config.target("gpu1/s").path).content  # type: ignore[arg-type]
                except Refused as error:
                    if "changes while it is being read" not in error.message:
                        raise
                else:
                    # Never a part of one and a part of the other.
                    assert len(set(content.removeprefix(b"export KNOB=1\n"))) <= 1
    finally:
        os.killpg(writer.pid, signal.SIGKILL)  # nsenter, and its child in the host
        writer.wait()
