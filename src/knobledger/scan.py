"""Reading files on this machine: no host, no ledger, nothing written but the copy that was asked for."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from knobledger.asking import each_once
from knobledger.diff import unified
from knobledger.drafting import masked_edits
from knobledger.errors import KnobError, KnobRefused, Refused, Usage
from knobledger.knobs import Dialect, Masker, Reading, Request, dialect_of, edit
from knobledger.many import over
from knobledger.names import HostPath
from knobledger.quoting import quote
from knobledger.report.scanned import Scan, ScannedEdit, ScannedFile
from knobledger.report.status import occurrence_json
from knobledger.syntax import complaint


def masker(env: Mapping[str, str], directory: Path | None) -> Masker:
    """The workspace's masker where there is one; elsewhere the masks hold for this run only."""
    from knobledger.workspace import Workspace

    try:
        return Workspace.open(directory, env).masker
    except KnobError:
        return Masker(secrets.token_bytes(32))


def scan(paths: Sequence[Path], dialect: str | None, mask: Masker, beside: Sequence[Path] = ()) -> Scan:
    """Reads files and lists their knobs; many of them on all cores. `beside` are files that these read themselves. Raises
    `Refused` for one that can't be read."""
    sides = _sides(beside)
    return Scan(tuple(over(paths, partial(_scanned, dialect, mask, sides), partial(_lost, dialect))))


def scan_edit(
    paths: Sequence[Path],
    dialect: str | None,
    requests: Sequence[Request],
    mask: Masker,
    beside: Sequence[Path] = (),
    *,
    add: bool,
    line: int | None,
    force: bool,
    output: Path | None,
) -> ScannedEdit:
    """The difference that an edit would make; `output` gets the edited copy. The file itself is never written."""
    if len(paths) != 1:
        raise Usage(
            f"an edit takes one file, {len(paths)} were named", hint="`knob scan FILE --set NAME=VALUE`"
        )
    path = paths[0]
    if output is not None and output.exists() and output.samefile(path):
        raise Refused(
            f"{os.fspath(output)!r} is the file itself, which `scan` never writes", hint="name another file"
        )
    each_once(requests, mask)
    reading = _reading(path, dialect, _sides(beside))
    mask.content(reading)  # what a refusal quotes may be secret
    try:
        edited = edit(reading, requests, add=add, line=line, force=force, check=complaint)
    except KnobRefused as error:
        raise error.listed_by(f"knob scan {quote(os.fspath(path))}") from None
    if output is not None:
        try:
            output.write_bytes(edited.content)
        except OSError as error:
            raise Refused(f"{os.fspath(output)!r} can't be written: {error.strerror}") from error
    after = Reading.of(edited.content, reading.dialect, sources=reading.sources)
    return ScannedEdit(
        os.fspath(path),
        masked_edits(mask, edited.edits),
        unified(mask.content(reading), mask.content(after), HostPath(os.fspath(path))),
        edited.warnings,
        os.fspath(output) if output else "",
    )


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Refused(
            f"{os.fspath(path)!r} can't be read: {error.strerror}",
            hint="`knob scan` reads files of this machine; `knob status TARGET` shows those of a host",
        ) from error


def _sides(paths: Sequence[Path]) -> dict[str, bytes]:
    """The files that others read, by the names by which these are matched (the last part of a path)."""
    return {path.name: _bytes(path) for path in paths}


def _reading(path: Path, dialect: str | None, sides: Mapping[str, bytes]) -> Reading:
    content = _bytes(path)
    dialect_read = _dialect(dialect) if dialect else dialect_of(os.fspath(path), content)
    return Reading.of(content, dialect_read, sources=sides)


def _dialect(name: str) -> Dialect:
    try:
        return Dialect(name)
    except ValueError:
        known = ", ".join(item.value for item in Dialect)
        raise Usage(f"{name!r} is no dialect", hint=f"one of {known}") from None


def _lost(dialect: str | None, path: Path) -> ScannedFile:
    message = "the reader came to an end here: nothing is told of this file"
    return ScannedFile(os.fspath(path), _dialect(dialect) if dialect else Dialect.BASH, (), ((1, message),))


def _scanned(dialect: str | None, mask: Masker, sides: Mapping[str, bytes], path: Path) -> ScannedFile:
    reading = _reading(path, dialect, sides)
    return ScannedFile(
        os.fspath(path),
        reading.dialect,
        tuple(occurrence_json(item, mask) for item in reading.occurrences),
        tuple((note.line, mask.text(note.message)) for note in reading.warnings),
    )
