"""Documents on this machine: read, compared with the record, and given an addendum. No host is asked here."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from knobledger.documents import Contradiction, contradictions
from knobledger.drafting import Desk
from knobledger.errors import Drifted, Refused
from knobledger.events.asking import DocumentChecked, StaleLine
from knobledger.inquiry import cases
from knobledger.knobs import Reading, dialect_of
from knobledger.names import TargetName, digest_of

_SUFFIXES = (".md", ".markdown")

Values = Mapping[str, Mapping[str, str | None]]
"""per knob and target the value in the file; None: the knob is not there"""


def documents_in(paths: Sequence[Path]) -> Iterator[Path]:
    """Files as named; of folders, the Markdown below them, hidden ones and ledgers left out. Raises `Refused`."""
    for path in paths:
        if path.is_dir():
            for folder, below, names in os.walk(path):
                below[:] = sorted(
                    n for n in below if not n.startswith(".") and n not in ("ledger", "node_modules")
                )
                yield from (Path(folder, name) for name in sorted(names) if name.lower().endswith(_SUFFIXES))
        elif path.is_file():
            yield path
        else:
            kind = "is no regular file" if path.exists() else "is not there"
            raise Refused(f"{str(path)!r} {kind}", hint="`knob docs stale PATH...`", path=str(path))


def content_of(path: Path) -> bytes:
    """A document's bytes. Raises `Refused`."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise Refused(
            f"{str(path)!r} can't be read: {(error.strerror or str(error)).lower()}", path=str(path)
        ) from error


def name_of(root: Path, path: Path) -> str:
    """How the ledger names a document: from the workspace, where it lies in it."""
    whole = path.resolve()
    inside = whole.is_relative_to(root.resolve())
    return whole.relative_to(root.resolve()).as_posix() if inside else whole.as_posix()


def values(desk: Desk, fresh: Mapping[TargetName, bytes]) -> Values:
    """The values of all knobs on record, by the `fresh` bytes of a target or else its last recorded ones."""
    found: dict[str, dict[str, str | None]] = {}
    for target, file in desk.state.files.items():
        content = fresh.get(target, None) or desk.snapshots.get(file.digest)
        if content is None:
            continue
        reading = Reading.of(content, dialect_of(file.path, content))
        desk.masker.content(reading)
        for name, occurrence in reading.decided().items():
            found.setdefault(name, {})[target] = desk.masker.value(name, occurrence.value)
        for where, name in desk.state.edits:
            if where == target:
                found.setdefault(name, {}).setdefault(target, None)
    return found


def stale(desk: Desk, content: bytes, live: Values) -> tuple[StaleLine, ...]:
    """What of a document contradicts the record, as it may be stored."""
    text = content.decode("utf-8", "replace")
    return tuple(_stored(desk, one) for one in contradictions(text, cases(desk.state), live))


def _stored(desk: Desk, one: Contradiction) -> StaleLine:
    return StaleLine(
        line=one.line,
        text=desk.masker.text(one.text.strip()[:400]),
        why=desk.masker.text(one.why),
        hypothesis=one.hypothesis,
    )


def note_check(desk: Desk, document: str, content: bytes, found: tuple[StaleLine, ...]) -> None:
    """Records what a document says, if that is news: a document that never contradicted anything is none."""
    known = desk.state.asked.documents.get(document)
    before = known.checks[-1].event.stale if known and known.checks else ()
    if found != before:
        desk.write(
            DocumentChecked(**desk.author.signs(), document=document, digest=digest_of(content), stale=found)
        )


def open_documents(desk: Desk, root: Path) -> tuple[tuple[str, tuple[StaleLine, ...]], ...]:
    """The known documents that contradict the record now; as last checked, where they can't be read from here."""
    if not desk.state.anything_asked or not desk.state.asked.documents:
        return ()
    live = values(desk, {})
    found = []
    for name, document in sorted(desk.state.asked.documents.items()):
        try:
            lines = stale(desk, (root / name).read_bytes(), live)
        except OSError:
            lines = document.checks[-1].event.stale if document.checks else ()
        if lines:
            found.append((name, lines))
    return tuple(found)


def replace_document(path: Path, before: bytes, after: bytes) -> None:
    """Puts a document's new bytes in its place at once, with its mode. Raises `Drifted`, `Refused`."""
    where = path.resolve()
    beside = where.with_name(f".{where.name}.knob-{os.getpid()}")
    if content_of(where) != before:
        raise Drifted(
            f"{str(path)!r} was changed by somebody meanwhile; nothing was written",
            hint="look again: `knob docs correct`",
        )
    try:
        status = where.stat()
        beside.write_bytes(after)
        beside.chmod(status.st_mode & 0o7777)
        if os.geteuid() == 0:
            os.chown(beside, status.st_uid, status.st_gid)
        beside.replace(where)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise Refused(
            f"{str(path)!r} can't be written: {(error.strerror or str(error)).lower()}", path=str(path)
        ) from error
