"""Connecting ahead: the right host is called, nothing else is, and nothing is left open or raised."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from knobledger import ahead
from knobledger.hosts import connect as connecting
from knobledger.hosts.config import HostConfig
from knobledger.hosts.memory import MemoryHost

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


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[MemoryHost]]:
    hosts: list[MemoryHost] = []

    def connect(config: HostConfig, *, root: Path, tell: object) -> MemoryHost:
        hosts.append(MemoryHost(config.name))
        return hosts[-1]

    monkeypatch.setattr(connecting, "connect", connect)
    yield hosts
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
        ("set", TWO, []),
        ("set a/decode --help", TWO, []),
        ("log", TWO, []),
        ("", TWO, []),
        ("set a/decode A=1", "hosts = 3", []),
    ],
)
def test_who_is_called(
    tmp_path: Path, called: list[MemoryHost], line: str, text: str, names: list[str]
) -> None:
    (tmp_path / "hosts.toml").write_text(text)
    ahead.begin(["-C", str(tmp_path), *line.split()], {})
    assert [host.name for host in called] == names
    ahead.drop()
    assert all(host.closed for host in called)


def test_a_connection_begun_ahead_is_used_once(tmp_path: Path, called: list[MemoryHost]) -> None:
    (tmp_path / "hosts.toml").write_text(ONE)
    ahead.begin(["set", "a/decode", "A=1"], {"KNOBLEDGER_WORKSPACE": str(tmp_path)})
    from knobledger.hosts.config import Config

    config = Config.load(tmp_path).hosts["a"]
    assert ahead.connect(config, tmp_path.resolve()) is called[0]
    assert ahead.connect(config, tmp_path.resolve()) is called[1]


def test_without_a_workspace_nothing_happens(tmp_path: Path, called: list[MemoryHost]) -> None:
    ahead.begin(["-C", str(tmp_path), "set", "a/decode", "A=1"], {})
    assert called == []
