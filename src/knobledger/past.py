"""What copies beside a target say about its past. Pure.

A copy proves that its bytes were live at the copy's mtime, however it was made: `cp` gives it the moment of
copying, `cp -p`, `mv` and `sed -i.bak` keep the moment of the last write. The live file, which comes last, proves the
same of its own. So between two copies lies a change, after the mtime of the one and by that of the other.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from difflib import SequenceMatcher

from msgspec import Struct
from msgspec.structs import replace

from knobledger.names import Digest, HostPath
from knobledger.receipt import Manifest

_WORD = (
    r"(?:bak|bk|bkp|backup|old|orig|prev|previous|save|saved|sav|rpmsave|rpmorig|dpkg-old|dpkg-bak|ucf-old)"
)
_DATE = r"20\d\d([-_.]?)[01]\d\1[0-3]\d"
_CLOCK = r"[0-2]\d[:.h-]?[0-5]\d(?:[:.m-]?[0-5]\d)?"
_COPY = re.compile(
    rf"""(?ix)
      .*~                                     # emacs, GNU `cp --backup`, Ansible's NAME.PID.DATE@TIME~
    | .*[._-]{_WORD}[._-]?\d{{0,14}}            # .bak, .orig, .bak2, .before-tuning.bak
    | [._-]{_WORD}[._-].*                     # .bak-before-tuning, .orig.anna
    | .*[._-]{_DATE}(?:[T@_.-]?{_CLOCK})?Z?(?:[._-].*)?   # NAME.DATE
    | [._-]1[4-9]\d{{8}}(?:\.\d+)?              # NAME.EPOCH
    | \.[2-9]\d[01]\d[0-3]\d[0-2]\d[0-5]\d            # pyinfra: NAME.YYMMDDHHMM
    """
)
_MOMENT = re.compile(
    r"(?P<y>20\d\d)(?P<s>[-_.]?)(?P<m>[01]\d)(?P=s)(?P<d>[0-3]\d)[T@_.-]?"
    r"(?P<H>[0-2]\d)[:.h-]?(?P<M>[0-5]\d)(?:[:.m-]?(?P<S>[0-5]\d))?(?P<z>Z)?(?!\d)"
)
_SHORT = re.compile(
    r"(?<!\d)(?P<y>[2-9]\d)(?P<m>[01]\d)(?P<d>[0-3]\d)(?P<H>[0-2]\d)(?P<M>[0-5]\d)(?P<S>)(?P<z>)$"
)
_EPOCH = re.compile(r"(?<!\d)1[4-9]\d{8}(?!\d)")
_NEVER_LIVE = re.compile(
    r"(?i).*\.(?:rpmnew|dpkg-dist|dpkg-new|ucf-dist|ucf-new|rej|sw[a-p]|tmp|lock|log|gz|xz|bz2|zst)"
)


class Sighting(Struct, frozen=True):
    """Bytes that were live at a moment."""

    content: bytes
    digest: Digest
    manifest: Manifest
    source: str
    """what proves it: a path on the host, or `git COMMIT`"""
    seen: datetime
    """aware; they were live then"""
    still: datetime | None = None
    """a later moment at which they were live, too"""
    latest: datetime | None = None
    """they were live by then at the latest, whatever the mtime says; None: not known"""
    path: HostPath | None = None
    """the file that holds them; None: nothing but a commit does"""
    hint: str = ""
    """who may have made them"""

    @property
    def last(self) -> datetime:
        """The last moment at which they are known to have been live."""
        return self.still if self.still and self.still > self.seen else self.seen


class Passage(Struct, frozen=True):
    """From one content to the next; `before` is None at the oldest that is left."""

    before: Sighting | None
    after: Sighting
    not_before: datetime | None
    not_after: datetime


class Past(Struct, frozen=True):
    """All passages, oldest first, with what is uncertain about them in sentences."""

    passages: tuple[Passage, ...] = ()
    remarks: tuple[str, ...] = ()


def is_copy(name: str, target: str) -> bool:
    """Whether a file of this name, beside one named `target`, looks like an earlier state of it."""
    rest = name.removeprefix(target)
    return rest != name and bool(rest) and bool(_COPY.fullmatch(rest)) and not _NEVER_LIVE.fullmatch(rest)


def moment_in(name: str, offset: timedelta) -> datetime | None:
    """The moment that a copy's name tells, by a clock `offset` ahead of UTC; None: it tells none."""
    if epoch := _EPOCH.search(name):
        return datetime.fromtimestamp(int(epoch[0]), UTC)
    found = _MOMENT.search(name) or _SHORT.search(name)
    if found is None:
        return None
    year = int(found["y"]) if len(found["y"]) == 4 else 2000 + int(found["y"])
    zone = UTC if found["z"] else timezone(offset)
    try:
        return datetime(
            year,
            int(found["m"]),
            int(found["d"]),
            int(found["H"]),
            int(found["M"]),
            int(found["S"] or 0),
            tzinfo=zone,
        ).astimezone(UTC)
    except ValueError:
        return None


def drift_bounds(known: datetime, mtime: datetime, seen: datetime) -> tuple[datetime, datetime]:
    """When a file was changed that was as recorded at `known` and differs at `seen`: after the first, by the second.

    The mtime is only believed where it lies between them: `cp -p` and `touch -d` set others. Only whole seconds of it are
    known, so all of its second counts.
    """
    end = mtime + timedelta(seconds=1, microseconds=-1)
    return known, min(end, seen) if known <= end and mtime <= seen else seen


def reconstruct(copies: Sequence[Sighting], live: Sighting) -> Past:
    """The changes that lie between copies and the live file, by time, and by content where times are the same."""
    remarks = []
    ordered = sorted(copies, key=lambda item: (item.seen, item.last, -_distance(item, live), item.source))
    for earlier, later in itertools.pairwise(ordered):
        if earlier.seen == later.seen and earlier.last == later.last and earlier.digest != later.digest:
            remarks.append(
                f"{earlier.source} and {later.source} have the same time: taken in the order of their contents, "
                "the least like the live file first"
            )
    chain: list[Sighting] = []
    for item in (*ordered, live):
        if chain and chain[-1].digest == item.digest:
            first = chain[-1]
            chain[-1] = replace(first, still=max(first.last, item.last), path=item.path or first.path)
        else:
            chain.append(item)
    if len(chain) < 2:
        return Past((), tuple(remarks))
    passages = [Passage(None, chain[0], None, chain[0].seen)]
    for before, after in itertools.pairwise(chain):
        start = before.last if before.last <= after.seen else before.seen
        end = after.seen
        if end < start:
            end = after.latest or start
            remarks.append(
                f"{after.source} bears an older time than {before.source}: it was put there with its old times "
                "(`cp -p`, `mv`) or they were set by hand"
            )
        passages.append(Passage(before, after, start, max(start, end)))
    return Past(tuple(passages), tuple(remarks))


def _distance(item: Sighting, live: Sighting) -> float:
    lines = item.content.split(b"\n"), live.content.split(b"\n")
    return 1 - SequenceMatcher(None, *lines, autojunk=False).ratio()
