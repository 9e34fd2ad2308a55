"""Adding a knob that a file does not have yet, where its launch will see it."""

from __future__ import annotations

import re

from knobledger.knobs.occurrence import Dialect
from knobledger.knobs.reading import Insertion, Reading
from knobledger.knobs.slot import Slot, Unsayable, write
from knobledger.quoting import quote

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FLAG = re.compile(r"--[A-Za-z][A-Za-z0-9_.-]*")


def addition(reading: Reading, name: str, value: str) -> bytes | None:
    """The content with the knob added; None if there is no place for it."""
    flag = name.startswith("--")
    if not (_FLAG if flag else _NAME).fullmatch(name) or "\0" in value:
        return None
    match reading.dialect:
        case Dialect.ENV_DOCKER | Dialect.ENV_SYSTEMD:
            return None if flag else _env_line(reading, name, value)
        case Dialect.UNIT:
            return _unit_line(reading, name, value)
        case Dialect.BASH | Dialect.SH | Dialect.ENV:
            return _flag(reading, name, value) if flag else _export(reading, name, value)


def newline_of(content: bytes) -> bytes:
    """The file's line ending."""
    return b"\r\n" if b"\r\n" in content else b"\n"


def _at_end(content: bytes, line: bytes) -> bytes:
    newline = newline_of(content)
    if content and not content.endswith(b"\n"):
        return content + newline + line
    return content + line + newline


def _env_line(reading: Reading, name: str, value: str) -> bytes | None:
    style = "literal" if reading.dialect is Dialect.ENV_DOCKER else "systemd"
    try:
        text = write(Slot("literal" if style == "literal" else "systemd"), value)
    except Unsayable:
        return None
    return _at_end(reading.content, f"{name}={text}".encode("utf-8", "surrogateescape"))


def _unit_line(reading: Reading, name: str, value: str) -> bytes | None:
    content = reading.content
    newline = newline_of(content)
    if name.startswith("--"):
        match = list(re.finditer(rb"^ExecStart[ \t]*=[ \t]*\S.*(?:\\\r?\n.*)*$", content, re.MULTILINE))
        if not match:
            return None
        text = write(Slot("unit", word=True, dollar=True), value) if value else ""
        end = match[-1].end() - (1 if content[: match[-1].end()].endswith(b"\r") else 0)
        return content[:end] + f" {name}{' ' + text if text else ''}".encode() + content[end:]
    inner = write(Slot("unit-double"), value)
    plain = write(Slot("unit"), value) == inner
    line = (f"Environment={name}={inner}" if plain else f'Environment="{name}={inner}"').encode(
        "utf-8", "surrogateescape"
    )
    header = re.search(rb"^\[Service\][ \t]*\r?(?:\n|\Z)", content, re.MULTILINE)
    if not header:
        return None
    section = re.compile(rb"^\[", re.MULTILINE).search(content, header.end())
    stop = section.start() if section else len(content)
    at = header.end()
    for entry in re.finditer(
        rb"^Environment[ \t]*=[^\n]*(?:\\\r?\n[^\n]*)*(?:\n|\Z)", content[:stop], re.MULTILINE
    ):
        if entry.start() >= header.end():
            at = entry.end()
    lead = b"" if not at or content[:at].endswith(b"\n") else newline
    return content[:at] + lead + line + newline + content[at:]


def _export(reading: Reading, name: str, value: str) -> bytes | None:
    content = reading.content
    keyword = "" if reading.dialect is Dialect.ENV else "export "
    line = f"{keyword}{name}={quote(value) if value else ''}".encode("utf-8", "surrogateescape")
    if not reading.insertions:
        return _at_end(content, line)
    first = reading.insertions[0]
    if first.cleared and first.image is not None and not first.nested:
        text = f"-e {name}={quote(value) if value else ''} ".encode("utf-8", "surrogateescape")
        return content[: first.image] + text + content[first.image :]
    at = _place(content, first)
    return None if at is None else content[:at] + line + newline_of(content) + content[at:]


def _place(content: bytes, insertion: Insertion) -> int | None:
    """The beginning of a line at which a statement of the file itself may begin."""
    if insertion.exports_end >= 0:
        end = content.find(b"\n", insertion.exports_end, insertion.top)
        rest = content[insertion.exports_end : end] if end >= 0 else b";"
        if re.fullmatch(rb"[ \t\r]*(?:#[^\n]*)?", rest):
            return end + 1
    line = content.rfind(b"\n", 0, insertion.top) + 1
    # Only blanks may stand before it, and no continued line may end here.
    if content[line : insertion.top].strip(b" \t") or content[:line].endswith((b"\\\n", b"\\\r\n")):
        return None
    return line


def _flag(reading: Reading, name: str, value: str) -> bytes | None:
    if not reading.insertions or reading.insertions[0].nested:
        return None
    insertion = reading.insertions[0]
    content = reading.content
    at = insertion.arguments_end
    text = name if not value else f"{name} {quote(value)}"
    # Arguments of the script itself come last, so that they can still override.
    passed = re.compile(rb"[ \t]+\"?\$\{?@\}?\"?\Z").search(content, max(0, at - 12), at)
    if passed:
        at = passed.start()
    if content[at - 1 : at + 1] == b"\r\n":
        # The CR is part of the last word, and would be part of another one.
        return None
    line = content.rfind(b"\n", 0, at) + 1
    indent = re.compile(rb"[ \t]*").match(content, line)
    newline = newline_of(content)
    own_line = (
        line > insertion.launch and indent is not None and content[:line].endswith((b"\\\n", b"\\\r\n"))
    )
    if own_line and indent is not None and newline == b"\n":
        if passed and not content[line:at].strip():
            return (
                content[: indent.end()] + text.encode() + b" \\\n" + indent.group() + content[indent.end() :]
            )
        lead = b" \\\n" + indent.group()
    else:
        lead = b" "
    return content[:at] + lead + text.encode("utf-8", "surrogateescape") + content[at:]
