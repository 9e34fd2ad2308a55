"""What a host has of all that the transaction needs, found out by the transaction's own functions. Only reads.

The program is the functions of `transaction.sh` with another end, so both always mean the same tools. The reply has the
same frames.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import cache

from knobledger.hosts.wire import SEARCH, Reply, parse, script
from knobledger.quoting import quote

_BEGIN = b"\nframe hello 1\n"
"""where `transaction.sh` ends to define functions and begins to act"""
_END = b"""
frame clock.first "$(date +%s.%N)"
frame shell "$(readlink /proc/$$/exe 2>/dev/null)"
frame system "$(uname -sr 2>/dev/null)"
frame user "$(id -u 2>/dev/null) $(id -un 2>/dev/null)"
if have flock; then frame lock flock; else frame lock 'hard link'; fi
look / && frame dialect "$stat_tool"
have systemctl && frame systemd "$(systemctl is-system-running 2>/dev/null)"
for folder in "$@"; do
there=no writable=no free=''
[ -d "$folder" ] && there=yes && room "$folder" 0
[ -w "$folder" ] && writable=yes
frame folder "$there $writable ${free:-?} $folder"
done
probe cat cp ln mv rm chmod
finish ok
"""


@cache
def program() -> str:
    """The program, as it is sent."""
    functions = script().partition(_BEGIN)[0]
    head = f"export LC_ALL=C\nnonce=$1\nshift\nsearch={quote(SEARCH)}\n".encode()
    return (head + functions + _END).decode()


def words(folders: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """The words for `Host.run`, and the nonce of the frames that come back. `folders` are asked for their room."""
    nonce = f"knob-{secrets.token_hex(8)}"
    return ("/bin/sh", "-c", program(), "knobledger", nonce, *folders), nonce


def reply(stdout: bytes, nonce: str) -> Reply:
    """The frames of what came back."""
    return parse(stdout, nonce)
