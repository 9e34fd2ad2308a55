"""What is sent to `transaction.sh` and what comes back: the one protocol under every transport.

A call is one exec of a short fixed line that any login shell understands. The line makes `/bin/sh` take the
first bytes of stdin as its program (header and script), and leaves the rest of stdin, the content, to that
program. The reply is framed with a random nonce, so that banners and noisy start-up files, before or after,
change nothing.
"""

from __future__ import annotations

import secrets
from functools import cache
from pathlib import Path

from msgspec import Struct

from knobledger.errors import Refused
from knobledger.quoting import quote

SEARCH = ":/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
"""appended to PATH on the host: a non-interactive login often lacks the sbin folders"""


class Request(Struct, frozen=True):
    """One exec: what to run, and what to write to its stdin before closing it."""

    inner: str
    """for `/bin/sh -c`"""
    sudo: bool
    stdin: bytes
    nonce: str
    stderr: bool = False
    """is what it prints to stderr a part of the answer?"""

    @property
    def command(self) -> str:
        """The line for the login shell, whichever it is: fish and csh read it in the same way."""
        line = f"/bin/sh -c '{self.inner}' knobledger"
        return f"exec sudo -n -- {line}" if self.sudo else f"exec {line}"

    @property
    def last(self) -> bytes:
        """The bytes that begin the last frame."""
        return f"{self.nonce} end ".encode()


class Exit(Struct, frozen=True):
    """What a transport brings back from one exec."""

    status: int | None
    """None: the connection was lost, or the time was over, before the exit status came"""
    stdout: bytes
    stderr: bytes
    timed_out: bool = False


class Reply(Struct, frozen=True):
    """The frames of one reply, in order."""

    frames: tuple[tuple[str, bytes], ...]

    @property
    def complete(self) -> bool:
        """Did the script come to its end?"""
        return bool(self.frames) and self.frames[-1][0] == "end"

    @property
    def begun(self) -> bool:
        """Did the script run at all?"""
        return bool(self.frames)

    def has(self, tag: str) -> bool:
        """Is there a frame with this tag?"""
        return any(name == tag for name, _ in self.frames)

    def raw(self, tag: str) -> bytes:
        """The last frame with this tag, empty if there is none."""
        return next((payload for name, payload in reversed(self.frames) if name == tag), b"")

    def text(self, tag: str) -> str:
        """The same, decoded so that every byte survives."""
        return decode(self.raw(tag))

    def all(self, tag: str) -> tuple[str, ...]:
        """Every frame with this tag, in order."""
        return tuple(decode(payload) for name, payload in self.frames if name == tag)

    def outcome(self) -> tuple[str, str]:
        """Kind and message of the last frame."""
        kind, _, message = self.text("end").partition(" ")
        return kind, message


def decode(raw: bytes) -> str:
    """Text of a host: UTF-8, other bytes as surrogate escapes (PEP 383)."""
    return raw.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    """The inverse of `decode`. Raises `Refused` for NUL, which no path and no argument can hold."""
    if "\0" in text:
        raise Refused(f"{text!r} holds a NUL byte, which no host can take")
    return text.encode("utf-8", "surrogateescape")


@cache
def script() -> bytes:
    """`transaction.sh` as it is sent."""
    return stripped("transaction.sh").encode()


@cache
def script_for_looks() -> bytes:
    """The same for the modes `read` and `list`: a shell takes its time to parse what they would never call."""
    before, _, rest = _source("transaction.sh").partition("\n# From here on until read_file ")
    return _stripped(before + rest.partition("\n# Until here.")[2]).encode()


@cache
def stripped(name: str) -> str:
    """A script of this package without comment lines and indentation (none has here-documents)."""
    return _stripped(_source(name))


def _source(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")


def _stripped(source: str) -> str:
    lines = (line.strip(" ") for line in source.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("#"))


def request(
    values: dict[str, str],
    words: tuple[str, ...] = (),
    content: bytes = b"",
    *,
    sudo: bool = False,
    extra: bytes = b"",
) -> Request:
    """A call of `transaction.sh`: `values` become variables, `words` the arguments, `content` the stdin.

    `extra` goes before the script, with functions for more modes.
    """
    source = script_for_looks() if values.get("mode") in ("read", "list") else extra + script()
    return _program(source, values, words, content, "LC_ALL=C;export LC_ALL;", sudo=sudo)


def command(argv: tuple[str, ...], stdin: bytes, *, sudo: bool = False) -> Request:
    """Any command, its words as given, its environment untouched, its output framed."""
    return _program(_COMMAND, {}, argv, stdin, "", sudo=sudo)


# exec finds programs only, no builtins; the subshell is what it replaces.
_COMMAND = rb"""
frame() { printf '%s %s %s\n%s\n' "$nonce" "$1" "${#2}" "$2"; }
frame hello 1
frame pid $$
printf '%s err -\n' "$nonce" >&2
printf '%s out -\n' "$nonce"
(exec "$@")
status=$?
printf '\n'
frame end $status
"""


def _program(
    source: bytes, values: dict[str, str], words: tuple[str, ...], content: bytes, first: str, *, sudo: bool
) -> Request:
    """A POSIX sh program, delivered by stdin, so that nothing of it shows up in a process list."""
    nonce = f"knob-{secrets.token_hex(8)}"
    assigned = {"nonce": nonce, **values}
    header = " ".join(f"{name}={quote(value)}" for name, value in assigned.items())
    arguments = " ".join(["set --", *(quote(word) for word in words)])
    head = encode(f"{header}\n{arguments}\n") + source + b"\n"
    # One full block where dd knows how; else byte by byte, which takes 10 ms more. Both leave the rest alone.
    size = len(head)
    take = f"dd bs={size} count=1 iflag=fullblock 2>/dev/null||dd ibs=1 obs=65536 count={size} 2>/dev/null"
    return Request(f'{first}eval "$({take})"', sudo, head + content, nonce, stderr=not first)


def parse(stdout: bytes, nonce: str) -> Reply:
    """The frames in what a host printed. Noise before the first and after the last is skipped.

    A frame is `NONCE TAG LENGTH`, a newline, LENGTH bytes, a newline. Length `-` means: up to the next frame.
    A frame that was cut off is left out, and so are all after it.
    """
    mark = nonce.encode() + b" "
    frames: list[tuple[str, bytes]] = []
    at = stdout.find(mark)
    while at >= 0:
        newline = stdout.find(b"\n", at)
        if newline < 0:
            break
        tag, _, length = stdout[at + len(mark) : newline].decode("ascii", "replace").partition(" ")
        begin = newline + 1
        if length == "-":
            end = stdout.find(b"\n" + mark, begin)
        else:
            end = begin + int(length) if length.isascii() and length.isdigit() else -1
        if end < begin or stdout[end : end + 1] != b"\n":
            break
        frames.append((tag, stdout[begin:end]))
        if tag == "end":
            break
        at = stdout.find(mark, end + 1)
    return Reply(tuple(frames))


def is_complete(stdout: bytes | bytearray, last: bytes) -> bool:
    """Has the last frame arrived whole? Cheap enough to be asked after every chunk."""
    # The last frame is short; a file's content before it can be long.
    at = stdout.rfind(last, max(0, len(stdout) - 65536))
    if at < 0:
        return False
    newline = stdout.find(b"\n", at)
    if newline < 0:
        return False
    length = bytes(stdout[at + len(last) : newline])
    return length.isdigit() and len(stdout) > newline + int(length) + 1
