"""The promises of the `Host` protocol: one suite, run against every implementation."""

from __future__ import annotations

import socket
import threading
import time

import pytest
from msgspec.structs import replace
from rigs import BACKUP_DIR, MemoryRig, Rig, transaction

from knobledger.errors import Drifted, KnobError, NotWritten, Refused, StateUnknown
from knobledger.names import HostPath, digest_of

SCRIPT = b"#!/bin/bash\nexport TARGET_CTAS=512\nexec server --tp 4\n"
CHANGED = SCRIPT.replace(b"512", b"256")

ODD_NAMES = [
    "two words",
    'it\'s "quoted" $HOME `id` \\ back',
    "-leading-dash",
    "new\nline",
    "ends in newline\n",
    "tab\tand * glob?",
    "schön-文",
    "latin-\udce9",
]


class Conformance:
    """Use with a `rig` fixture."""

    def test_read_gives_bytes_and_manifest(self, rig: Rig) -> None:
        path = rig.put("serve.sh", SCRIPT, 0o750)
        found = rig.host.read(path)
        assert found.content == SCRIPT
        assert found.digest == digest_of(SCRIPT)
        manifest = found.manifest
        assert (manifest.path, manifest.resolved) == (path, path)
        assert (manifest.mode, manifest.size, manifest.links, manifest.mount) == (
            "0750",
            len(SCRIPT),
            1,
            False,
        )
        assert abs(manifest.mtime - time.time()) < 60
        assert abs(found.clock_offset_s) < 5

    def test_every_byte_survives(self, rig: Rig) -> None:
        path = rig.put("f", b"before")
        for content in (b"", b"no newline at the end", b"\n", b"\r\nx\r\n", bytes(range(256)) * 3, b"after"):
            receipt = rig.host.replace(transaction(rig.host, path, content))
            assert rig.content(path) == content
            assert receipt.digest == digest_of(content)
        rig.put("f", b"")
        assert rig.host.read(path).content == b""

    def test_replace_proves_what_it_did(self, rig: Rig) -> None:
        path = rig.put("serve.sh", SCRIPT, 0o750)
        receipt = rig.host.replace(transaction(rig.host, path, CHANGED, grep=("TARGET_CTAS",)))
        assert rig.content(path) == CHANGED
        assert rig.mode(path) == 0o750
        assert receipt.digest == digest_of(CHANGED)
        assert [(hit.line, hit.text) for hit in receipt.grep] == [(2, "export TARGET_CTAS=256")]
        assert rig.content(receipt.backup) == SCRIPT
        assert rig.mode(receipt.backup) == 0o750
        assert receipt.backup_digest == digest_of(SCRIPT)
        steps = [step.step for step in receipt.steps]
        assert steps == ["probe", "resolve", "lock", "compare", "backup", "stage", "swap", "verify"]
        assert all(step.ok for step in receipt.steps)
        assert receipt.manifest.size == len(CHANGED)
        assert receipt.digest_tool
        assert rig.names() == ["serve.sh"]

    def test_restore_matches_the_backup(self, rig: Rig) -> None:
        path = rig.put("serve.sh", SCRIPT)
        first = rig.host.replace(transaction(rig.host, path, CHANGED))
        again = rig.host.replace(transaction(rig.host, path, SCRIPT, matches=first.backup))
        assert again.matches == first.backup
        assert again.matches_backup is True
        assert rig.content(path) == rig.content(first.backup) == SCRIPT

    def test_content_that_is_not_the_backup_is_not_written(self, rig: Rig) -> None:
        path = rig.put("serve.sh", SCRIPT)
        first = rig.host.replace(transaction(rig.host, path, CHANGED))
        with pytest.raises(NotWritten):
            rig.host.replace(transaction(rig.host, path, b"other", matches=first.backup))
        assert rig.content(path) == CHANGED

    def test_changed_bytes_are_drift_and_nothing_is_written(self, rig: Rig) -> None:
        path = rig.put("serve.sh", SCRIPT)
        planned = transaction(rig.host, path, CHANGED)
        rig.put("serve.sh", SCRIPT + b"#")
        with pytest.raises(Drifted) as caught:
            rig.host.replace(planned)
        assert caught.value.values["live"] == digest_of(SCRIPT + b"#")
        assert caught.value.values["base"] == digest_of(SCRIPT)
        assert rig.content(path) == SCRIPT + b"#"
        assert rig.names() == ["serve.sh"]
        assert not rig.exists(rig.path(BACKUP_DIR))

    def test_the_same_transaction_twice_is_drift(self, rig: Rig) -> None:
        path = rig.put("serve.sh", SCRIPT)
        planned = transaction(rig.host, path, CHANGED)
        rig.host.replace(planned)
        with pytest.raises(Drifted):
            rig.host.replace(planned)
        assert rig.content(path) == CHANGED

    def test_content_that_is_not_the_planned_result_is_not_written(self, rig: Rig) -> None:
        path = rig.put("serve.sh", SCRIPT)
        with pytest.raises(NotWritten):
            rig.host.replace(transaction(rig.host, path, CHANGED, result=digest_of(b"something else")))
        assert rig.content(path) == SCRIPT
        assert rig.names() == ["serve.sh"]

    def test_backup_names_are_exclusive(self, rig: Rig) -> None:
        path = rig.put("f", b"0")
        receipts = [
            rig.host.replace(transaction(rig.host, path, b"%d" % n, backup_name="f.bak")) for n in (1, 2, 3)
        ]
        names = [receipt.backup.rpartition("/")[2] for receipt in receipts]
        assert names == ["f.bak", "f.2.bak", "f.3.bak"]
        assert [rig.content(receipt.backup) for receipt in receipts] == [b"0", b"1", b"2"]

    def test_backups_lists_them(self, rig: Rig) -> None:
        path = rig.put("f", b"0")
        assert rig.host.backups(path, BACKUP_DIR) == ()
        made = [rig.host.replace(transaction(rig.host, path, b"%d" % n)).backup for n in (1, 2)]
        rig.put("other", b"x")
        found = rig.host.backups(path, BACKUP_DIR)
        assert sorted(item.path for item in found) == sorted(made)
        assert {item.digest for item in found} == {digest_of(b"0"), digest_of(b"1")}
        assert all(item.size == 1 for item in found)

    def test_backups_made_by_hand_beside_the_target_are_found(self, rig: Rig) -> None:
        path = rig.put("serve.sh", SCRIPT)
        by_hand = rig.put("serve.sh.pretgt_revert_2025.bak", CHANGED)
        assert [item.path for item in rig.host.backups(path, ".")] == [by_hand]

    def test_prune_takes_only_what_still_holds_these_bytes(self, rig: Rig) -> None:
        path = rig.put("f", b"0")
        for n in (1, 2):
            rig.host.replace(transaction(rig.host, path, b"%d" % n))
        first, second = rig.host.backups(path, BACKUP_DIR)
        other = replace(second, digest=first.digest)
        assert rig.host.prune(path, BACKUP_DIR, (first, other)) == (first.path,)
        assert [item.path for item in rig.host.backups(path, BACKUP_DIR)] == [second.path]
        assert rig.host.prune(path, BACKUP_DIR, (first,)) == ()

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_odd_names(self, rig: Rig, name: str) -> None:
        path = rig.put(name, SCRIPT)
        receipt = rig.host.replace(
            transaction(
                rig.host, path, CHANGED, base=digest_of(SCRIPT), backup_name=f"{name}.bak", grep=("=256",)
            )
        )
        assert receipt.manifest.resolved == path
        assert rig.content(path) == CHANGED
        assert rig.content(receipt.backup) == SCRIPT
        assert receipt.backup == rig.path(f"{BACKUP_DIR}/{name}.bak")
        assert [item.path for item in rig.host.backups(path, BACKUP_DIR)] == [receipt.backup]
        assert rig.names() == [name]

    def test_a_symbolic_link_stays_and_its_target_is_changed(self, rig: Rig) -> None:
        path = rig.put("real.sh", SCRIPT)
        rig.symlink("middle.sh", "real.sh")
        link = rig.symlink("link.sh", "middle.sh")
        assert rig.host.read(link).manifest.resolved == path
        rig.host.replace(transaction(rig.host, link, CHANGED))
        assert rig.content(path) == CHANGED
        assert rig.host.read(link).manifest.resolved == path

    @pytest.mark.parametrize("what", ["missing", "folder", "fifo", "dangling", "circle"])
    def test_what_is_no_regular_file_is_refused_by_name(self, rig: Rig, what: str) -> None:
        match what:
            case "missing":
                path, words = rig.path("nothing"), "no such file"
            case "folder":
                path, words = rig.folder("folder"), "a folder"
            case "fifo":
                path, words = rig.fifo("fifo"), "FIFO"
            case "dangling":
                path, words = rig.symlink("dangling", "nowhere"), "leads nowhere"
            case _:
                rig.symlink("a", "b")
                path, words = rig.symlink("b", "a"), "circle"
        planned = transaction(rig.host, path, b"x", base=digest_of(b""))
        before = rig.names()
        for act in (lambda: rig.host.read(path), lambda: rig.host.replace(planned)):
            with pytest.raises(Refused) as caught:
                act()
            assert words in caught.value.message
            assert repr(path) in caught.value.message
        assert rig.names() == before

    def test_a_hard_link_is_not_broken(self, rig: Rig) -> None:
        path = rig.put("f", b"old")
        other = rig.hardlink("g", path)
        assert rig.host.read(path).manifest.links == 2
        with pytest.raises(Refused) as caught:
            rig.host.replace(transaction(rig.host, path, b"new"))
        assert "--in-place" in caught.value.hint
        assert (rig.content(path), rig.content(other)) == (b"old", b"old")
        if isinstance(rig, MemoryRig):
            return
        receipt = rig.host.replace(transaction(rig.host, path, b"new", in_place=True))
        assert (rig.content(path), rig.content(other)) == (b"new", b"new")
        assert receipt.manifest.links == 2
        assert rig.content(receipt.backup) == b"old"
        assert rig.names() == ["f", "g"]

    def test_a_missing_knob_puts_the_backup_back(self, rig: Rig) -> None:
        path = rig.put("serve.sh", SCRIPT)
        with pytest.raises(KnobError) as caught:
            rig.host.replace(transaction(rig.host, path, CHANGED, grep=("NOT_THERE=1",)))
        assert caught.value.kind == "rolled_back"
        assert caught.value.exit_code == 21
        assert rig.content(path) == SCRIPT
        assert rig.names() == ["serve.sh"]

    def test_five_megabytes(self, rig: Rig) -> None:
        content = bytes(range(256)) * 20480
        path = rig.put("big", b"small")
        rig.host.replace(transaction(rig.host, path, content))
        assert rig.content(path) == content
        assert rig.host.read(path).content == content

    def test_absolute_backup_directory(self, rig: Rig) -> None:
        path = rig.put("f", b"old")
        receipt = rig.host.replace(transaction(rig.host, path, b"new", backup_dir=rig.path("deep/backups")))
        assert receipt.backup.startswith(rig.path("deep/backups/"))
        assert rig.content(receipt.backup) == b"old"
        assert [item.path for item in rig.host.backups(path, rig.path("deep/backups"))] == [receipt.backup]

    def test_nul_in_a_path_is_refused(self, rig: Rig) -> None:
        with pytest.raises(Refused):
            rig.host.read(HostPath("/etc/pass\0wd"))

    def test_run(self, rig: Rig) -> None:
        if isinstance(rig, MemoryRig):
            assert rig.host.run(("true",), timeout_s=5).status == 0
            assert rig.host.ran == [("true",)]
            return
        words = ("a b", "it's", "$HOME", "", "new\nline", "*")
        done = rig.host.run(("printf", "<%s>", *words), timeout_s=20)
        assert done.stdout == "".join(f"<{word}>" for word in words).encode()
        assert (done.status, done.stderr) == (0, b"")
        assert rig.host.run(("cat",), timeout_s=20, stdin=b"a\0b\n" * 50000).stdout == b"a\0b\n" * 50000
        done = rig.host.run(("sh", "-c", "echo out; echo err >&2; exit 7"), timeout_s=20)
        assert (done.status, done.stdout, done.stderr) == (7, b"out\n", b"err\n")
        assert rig.host.run(("no-such-program",), timeout_s=20).status == 127

    def test_run_does_not_wait_for_a_daemon(self, rig: Rig) -> None:
        if isinstance(rig, MemoryRig):
            return
        begun = time.monotonic()
        done = rig.host.run(("sh", "-c", "sleep 3 & echo started"), timeout_s=20)
        assert done.stdout == b"started\n"
        assert time.monotonic() - begun < 2.5

    def test_run_that_takes_too_long_says_so(self, rig: Rig) -> None:
        if isinstance(rig, MemoryRig):
            return
        with pytest.raises(StateUnknown) as caught:
            rig.host.run(("sleep", "3"), timeout_s=0.3)
        assert "time-out of 0.3 s" in caught.value.message

    def test_dial(self, rig: Rig) -> None:
        def answer(stream: socket.socket) -> None:
            with stream:
                stream.sendall(b"pong " + stream.recv(100))

        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            if isinstance(rig, MemoryRig):
                rig.host.services["127.0.0.1", port] = lambda end: threading.Thread(
                    target=answer, args=(end,)
                ).start()
            else:
                threading.Thread(target=lambda: answer(server.accept()[0]), daemon=True).start()
            with rig.host.dial("127.0.0.1", port, timeout_s=5) as stream:
                stream.sendall(b"ping")
                got = b""
                while data := stream.recv(100):
                    got += data
                assert got == b"pong ping"
        with pytest.raises(ConnectionRefusedError):
            rig.host.dial("127.0.0.1", 1, timeout_s=5)

    def test_close_twice(self, rig: Rig) -> None:
        rig.host.close()
        rig.host.close()
