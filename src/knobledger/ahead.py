"""Connecting ahead: the connection is opened while the rest of the program loads.

A cold command takes 0.3 s to import its parts and to parse its command line, and a connection as long.
So the word that must be a target is looked up first, and its host is called at once. A wrong guess costs
a connection that is closed unused; whatever fails here fails again, with its message, where it belongs.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from knobledger.errors import KnobError

if TYPE_CHECKING:
    from knobledger.hosts.config import HostConfig
    from knobledger.hosts.host import Host

TARGET_FIRST = frozenset({"set", "unset", "edit", "blame", "diff", "backups"})
"""commands whose first word is a target"""
ONE_HOST = frozenset({"revert", "restore", "apply"})
"""commands that find their host in the ledger: called ahead where there is only one"""
_WITH_VALUE = ("-C", "--on-behalf-of")

_begun: dict[tuple[Path, str], Host] = {}


def begin(argv: Sequence[str], env: Mapping[str, str]) -> None:
    """Opens the connection that this command line will want, if that can be told."""
    directory, words = _words(argv)
    if (
        not words
        or (words[0] not in TARGET_FIRST and words[0] not in ONE_HOST)
        or "--help" in argv
        or "-h" in argv
    ):
        return
    from knobledger.finding import workspace_folder
    from knobledger.hosts.config import Config
    from knobledger.hosts.connect import connect as connect_host

    try:
        root = workspace_folder(directory, env)
        config = Config.load(root)
        if words[0] in ONE_HOST:
            names = list(config.hosts) if len(config.hosts) == 1 else []
        else:
            names = [config.target(words[1]).host] if len(words) > 1 else []
        for name in names:
            _begun[root, name] = connect_host(config.hosts[name], root=root, tell=_tell)
    except KnobError:
        return


def connect(config: HostConfig, root: Path) -> Host:
    """The connection that was begun ahead, else a new one."""
    from knobledger.hosts.connect import connect as connect_host

    return _begun.pop((root, config.name), None) or connect_host(config, root=root, tell=_tell)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def drop() -> None:
    """Closes what was begun and never asked for."""
    while _begun:
        _begun.popitem()[1].close()


def _words(argv: Sequence[str]) -> tuple[Path | None, list[str]]:
    """The folder given by `-C`, and the words that are no options; options of the command itself end the search."""
    directory = None
    words: list[str] = []
    rest = iter(argv)
    for word in rest:
        if word in _WITH_VALUE:
            value = next(rest, "")
            directory = Path(value) if word == "-C" else directory
        elif word.startswith("-"):
            if words:
                break
        else:
            words.append(word)
    return directory, words
