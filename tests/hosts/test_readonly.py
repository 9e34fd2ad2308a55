from __future__ import annotations

import pytest
from rigs import BACKUP_DIR, Rig, transaction

from knobledger.errors import PlanMode
from knobledger.hosts.readonly import ReadOnly


def test_it_can_look(rig: Rig) -> None:
    path = rig.put("f", b"old")
    host = ReadOnly(rig.host)
    assert host.read(path).content == b"old"
    assert host.backups(path, BACKUP_DIR) == ()
    assert host.run(("cat", path), timeout_s=20).status == 0
    with pytest.raises(ConnectionRefusedError):
        host.dial("127.0.0.1", 1, timeout_s=5)
    assert host.name == rig.host.name


def test_it_can_not_write(rig: Rig) -> None:
    path = rig.put("f", b"old")
    host = ReadOnly(rig.host)
    with pytest.raises(PlanMode) as caught:
        host.replace(transaction(host, path, b"new"))
    assert caught.value.exit_code == 1
    for argv in (("rm", path), ("sh", "-c", ":"), ("systemctl", "restart", "x"), ("tee", path)):
        with pytest.raises(PlanMode):
            host.run(argv, timeout_s=5)
    assert rig.content(path) == b"old"
