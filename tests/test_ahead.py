"""Connecting ahead: the right host is called, nothing else is, and nothing is left open or raised."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from knobledger import ahead
from knobledger.hosts import connect as connecting
from knobledger.hosts.config import Config
from knobledger.hosts.reach import HostConfig, guesses

TWO = """\
[hosts.a]
address = "127.0.0.1"
[hosts.a.services.decode]
script = "/s"
[hosts.b]
address = "127.0.0.1"
[hosts.b.services.decode]
script = "/s"
"""
ONE = TWO[: TWO.index("[hosts.b]")]
GROUP = TWO + '[groups.all]\nservices = ["*/decode"]\n'
MANY = "".join(f'[hosts.h{n}.services.decode]\nscript = "/s"\n' for n in range(40))


class FakeWay:
    """A connection that is only begun."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[FakeWay]]:
    ways: list[FakeWay] = []

    def begin(config: HostConfig, *, root: Path) -> FakeWay:
        ways.append(FakeWay(config.name))
        return ways[-1]

    monkeypatch.setattr(connecting, "begin", begin)
    yield ways
    ahead.drop()


@pytest.mark.parametrize(
    ("line", "text", "names"),
    [
        ("set b/decode A=1", TWO, ["b"]),
        ("set b/decode --unset A", TWO, ["b"]),
        ("--on-behalf-of x unset a/decode A", TWO, ["a"]),
        ("blame a/decode", TWO, ["a"]),
        ("restore x.bak", ONE, ["a"]),
        ("restore x.bak", TWO, []),
        ("set nope/decode A=1", TWO, []),
        ("set a A=1", TWO, ["a"]),
        ("set all A=1", GROUP, ["a", "b"]),
        ("set [bc]/*:extra A=1", GROUP, ["b"]),
        ("set h*/decode A=1", MANY, [f"h{n}" for n in range(32)]),
        ("set nope A=1", GROUP, []),
        ("set all A=1", TWO + "[groups]\nall = 3\n", []),
        ("set", TWO, []),
        ("set a/decode --help", TWO, []),
        ("log", TWO, []),
        ("", TWO, []),
        ("set a/decode A=1", "hosts = 3", []),
    ],
)
def test_who_is_called(tmp_path: Path, called: list[FakeWay], line: str, text: str, names: list[str]) -> None:
    (tmp_path / "hosts.toml").write_text(text)
    ahead.begin(["-C", str(tmp_path), *line.split()], {})
    assert [way.name for way in called] == names
    ahead.drop()
    assert all(way.stopped for way in called)


def test_a_connection_begun_ahead_is_used_once(tmp_path: Path, called: list[FakeWay]) -> None:
    (tmp_path / "hosts.toml").write_text(ONE)
    ahead.begin(["set", "a/decode", "A=1"], {"KNOBLEDGER_WORKSPACE": str(tmp_path)})
    config = Config.load(tmp_path).hosts["a"]
    first = ahead.connect(config, tmp_path.resolve())
    second = ahead.connect(config, tmp_path.resolve())
    assert first._way is called[0]  # type: ignore[attr-defined]
    assert second._way is not called[0]  # type: ignore[attr-defined]
    second.close()
    assert not called[0].stopped
    first.close()
    assert called[0].stopped


def test_a_connection_to_somewhere_else_is_not_used(tmp_path: Path, called: list[FakeWay]) -> None:
    (tmp_path / "hosts.toml").write_text(ONE)
    ahead.begin(["-C", str(tmp_path), "set", "a/decode", "A=1"], {})
    config = Config.load(tmp_path).hosts["a"]._replace(port=2222)
    host = ahead.connect(config, tmp_path.resolve())
    assert called[0].stopped
    assert host._way is not called[0]  # type: ignore[attr-defined]
    host.close()


@pytest.mark.parametrize(
    "line",
    [
        "",
        'port = 2222\nuser = "root"\nsudo = true\ntransport = "openssh"\nhost_keys = "accept-new"',
        'identity_file = "~/.ssh/k"\nknown_hosts = "keys/known"\nssh_config = "/etc/s"\nbackup_dir = "b"',
        'connect_timeout = "1m30s"\ncommand_timeout = 5\napproval = "signed"',
    ],
)
def test_what_is_guessed_is_what_is_checked(tmp_path: Path, line: str) -> None:
    text = ONE.replace('address = "127.0.0.1"', f'address = "127.0.0.1"\n{line}')
    config = Config.parse(text, tmp_path).hosts["a"]
    assert guesses(text).hosts == {"a": (config, frozenset({"decode"}))}
    assert HostConfig.of("a", config.table()) == config


@pytest.mark.parametrize("line", ["port = '22'", "sudo = 'yes'", "connect_timeout = 'soon'", "services = 3"])
def test_what_is_plainly_wrong_is_not_guessed(line: str) -> None:
    with pytest.raises(ValueError):
        guesses(f"[hosts.a]\n{line}\n")


def test_without_a_workspace_nothing_happens(tmp_path: Path, called: list[FakeWay]) -> None:
    ahead.begin(["-C", str(tmp_path), "set", "a/decode", "A=1"], {})
    assert called == []
