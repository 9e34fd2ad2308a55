"""Connecting ahead: the connection is opened while the rest of the program loads.

A cold command takes 0.3 s to import its parts and to parse its command line, and a connection as long.
So the word that must be a target, or a group, is looked up first, and its hosts are called at once. A wrong guess costs
a connection that is closed unused; whatever fails here fails again, with its message, where it belongs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from knobledger.errors import KnobError

if TYPE_CHECKING:
    from knobledger.hosts.host import Host
    from knobledger.hosts.reach import HostConfig
    from knobledger.hosts.waiting import Tell
    from knobledger.hosts.way import Way

TARGET_FIRST = frozenset(
    {"set", "unset", "edit", "blame", "diff", "backups", "live", "observe", "drift", "adopt"}
)
"""commands whose first word is a target"""
ONE_HOST = frozenset({"revert", "restore", "apply", "restart"})
"""commands that find their host in the ledger, or may want several: called ahead where there is only one"""
WITH_VALUE = ("-C", "--on-behalf-of")

_begun: dict[tuple[Path, str], tuple[HostConfig, Way]] = {}


def begin(argv: Sequence[str], env: Mapping[str, str]) -> None:
    """Opens the connections that this command line will want, if that can be told."""
    directory, words = _words(argv)
    if (
        not words
        or (words[0] not in TARGET_FIRST and words[0] not in ONE_HOST)
        or "--help" in argv
        or "-h" in argv
    ):
        return
    from knobledger.finding import workspace_folder
    from knobledger.hosts.connect import begin as begin_host
    from knobledger.hosts.reach import HOSTS_AT_ONCE, guesses

    try:
        root = workspace_folder(directory, env)
        known = guesses((root / "hosts.toml").read_text("utf-8"))
    except (KnobError, OSError, ValueError):
        return  # the command says it, with more words
    if words[0] in ONE_HOST:
        names = list(known.hosts) if len(known.hosts) == 1 else []
    else:
        names = known.called(words[1])[:HOSTS_AT_ONCE] if len(words) > 1 else []
    for name in names:
        config = known.hosts[name][0]
        # A transport that is not known, or an ssh that is not there: the command says it, with more words.
        with suppress(KnobError, AssertionError):
            way = begin_host(config, root=root)
            if way is not None:
                _begun[root, name] = config, way


def connect(config: HostConfig, root: Path, tell: Tell | None = None) -> Host:
    """The connection that was begun ahead if it is the one that is wanted, else a new one."""
    from knobledger.hosts.connect import connect as connect_host

    guessed, way = _begun.pop((root, config.name), (None, None))
    if way is not None and guessed != config:
        way.stop()
        way = None
    return connect_host(config, root=root, begun=way, tell=tell)


def drop() -> None:
    """Closes what was begun and never asked for."""
    while _begun:
        _begun.popitem()[1][1].stop()


def _words(argv: Sequence[str]) -> tuple[Path | None, list[str]]:
    """The folder given by `-C`, and the words that are no options; options of the command itself end the search."""
    directory = None
    words: list[str] = []
    rest = iter(argv)
    for word in rest:
        if word in WITH_VALUE:
            value = next(rest, "")
            directory = Path(value) if word == "-C" else directory
        elif word.startswith("-"):
            if words:
                break
        else:
            words.append(word)
    return directory, words
