"""Stories: events one second apart, as a ledger would hold them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from knobledger.event import encode, id_of, stamp
from knobledger.events.changes import Applied, Approved, Observed, Planned, Started
from knobledger.events.entry import Event
from knobledger.names import Digest, EventId, HostPath, TargetName
from knobledger.plan import Edit, PlannedFile
from knobledger.receipt import Manifest, Receipt
from knobledger.state import State

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
TARGET = TargetName("gpu1/decode")
PATH = HostPath("/root/serve.sh")
MANIFEST = Manifest(path=PATH, resolved=PATH, uid=0, gid=0, mode="0755", size=1, mtime=0)
BASE, RESULT = Digest("a" * 64), Digest("b" * 64)


class Story:
    """Writes events one second apart, as a ledger would."""

    def __init__(self) -> None:
        self.events: list[tuple[EventId, Event]] = []
        self.clock = NOON

    def tell(self, kind: type[Event], **facts: object) -> EventId:
        at = stamp(self.clock)
        self.clock += timedelta(seconds=1)
        event = kind.of({"at": at, "actor": "anna", **facts})
        id_ = id_of(encode(event))
        self.events.append((id_, event))
        return id_

    def plan(self, *edits: tuple[str, str | None, str | None], **facts: object) -> EventId:
        file = PlannedFile(
            target=TARGET,
            path=PATH,
            dialect="bash",
            edits=tuple(Edit(name=n, kind="env", before=b, after=a) for n, b, a in edits),
            base=BASE,
            result=RESULT,
            diff="",
        )
        expires = stamp(NOON + timedelta(hours=24))
        return self.tell(Planned, **{"verb": "set", "files": (file,), "expires": expires, **facts})

    def start(self, plan: EventId) -> EventId:
        return self.tell(Started, plan=plan, target=TARGET, base=BASE, result=RESULT)

    def apply(self, *edits: tuple[str, str | None, str | None], **facts: object) -> EventId:
        plan = self.plan(*edits, **facts)
        self.tell(Approved, plan=plan, source="flag")
        attempt = self.start(plan)
        receipt = Receipt(backup=HostPath("/b"), backup_digest=BASE, digest=RESULT, manifest=MANIFEST)
        self.tell(Applied, plan=plan, attempt=attempt, target=TARGET, receipt=receipt)
        return plan

    def by_hand(self, *edits: tuple[str, str | None, str | None]) -> EventId:
        return self.tell(
            Observed,
            target=TARGET,
            path=PATH,
            digest=Digest("c" * 64),
            previous=RESULT,
            edits=tuple(Edit(name=n, kind="env", before=b, after=a) for n, b, a in edits),
            manifest=MANIFEST,
        )

    @property
    def state(self) -> State:
        return State.of(self.events)

    def fates(self, *changes: EventId) -> list[str]:
        return [self.state.fate(change)[0] for change in changes]
