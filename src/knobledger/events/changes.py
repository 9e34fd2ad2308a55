"""Events of changes: what was found, planned, allowed, tried, and how it ended."""

from __future__ import annotations

from typing import Literal

from knobledger.events.entry import Event
from knobledger.names import Digest, EventId, HostPath, TargetName
from knobledger.plan import Ask, Edit, PlannedFile, PlannedService, Policy, Purpose, RestartScope, Verb
from knobledger.receipt import Manifest, Receipt


class Observed(Event):
    """The bytes of a target as found: on first contact, or after somebody changed them by hand."""

    kind: Literal["observed"] = "observed"
    target: TargetName
    path: HostPath
    digest: Digest
    previous: Digest | None = None
    """the digest recorded before; None on first contact"""
    edits: tuple[Edit, ...] = ()
    """the knobs that differ from the previous bytes, where a snapshot of these was at hand"""
    diff: str = ""
    manifest: Manifest
    """of the target, or of the copy named by `source`"""
    not_before: str = ""
    """UTC with microseconds: the previous bytes were still there; empty: not known"""
    not_after: str = ""
    """UTC with microseconds: these bytes were there by then, as far as the file's times can be trusted"""
    source: str = ""
    """what is left of these bytes, where they were reconstructed: a path on the host, or `git COMMIT`; else empty"""
    kept: HostPath | None = None
    """a file on the host that held the previous bytes when this was written"""
    hints: tuple[str, ...] = ()
    """who it may have been, by the host's own records; never a fact"""

    @property
    def reconstructed(self) -> bool:
        """It tells of a time before the target was known; `at` is only when somebody wrote it down."""
        return bool(self.source)

    @property
    def happened(self) -> str:
        """When these bytes were there at the latest: of the past that was reconstructed, else when they were seen."""
        return self.not_after if self.source and self.not_after else self.at


class Planned(Event):
    """A plan. Its id is also the id of the change, once applied."""

    kind: Literal["planned"] = "planned"
    verb: Verb
    files: tuple[PlannedFile, ...]
    asks: tuple[Ask, ...] = ()
    why: str = ""
    hypotheses: tuple[str, ...] = ()
    """slugs of the hypotheses that it is made under"""
    purpose: Purpose = "other"
    label: str = ""
    """a word for the backup's name"""
    undoes: EventId | None = None
    """the change (or the observed edit by hand) whose effect a revert or restore takes back"""
    exact: bool = False
    add: bool = False
    line: int | None = None
    force: bool = False
    in_place: bool = False
    despite: str = ""
    restart: RestartScope = "none"
    confirm_within_s: int = 0
    """seconds after which the change puts itself back unless it is confirmed; 0: it stays"""
    roll_back_on_failure: bool = False
    """files and services go back if a service does not become healthy"""
    policy: Policy = "confirm"
    expires: str
    """UTC with microseconds"""
    warnings: tuple[str, ...] = ()
    batches: tuple[str, ...] = ()
    """how many targets at a time, such as `1`, `10%`, `100%`; the last is repeated; empty: all at once"""
    max_failures: int = 0
    """when more targets than this have failed at the end of a batch, no further batch is begun"""
    services: tuple[PlannedService, ...] = ()
    """what `restart` takes in, in the order of the start; each must still be started and stopped the same way"""
    signature: str = ""
    """the planner's, armoured, in the namespace `knobledger-planner`, where the policy asks for two persons"""

    @property
    def only_restarts(self) -> bool:
        """It has no files: its services are restarted as they are."""
        return self.verb == "restart"

    @property
    def where(self) -> tuple[str, ...]:
        """The targets, or the services of a plan that only restarts."""
        return tuple(file.target for file in self.files) or tuple(one.service for one in self.services)


ROLLS_BACK = "roll back of "
"""how the source of an approval begins that a failed change gives to its own undoing"""


class Approved(Event):
    """A go-ahead for one plan, and what stood behind it."""

    kind: Literal["approved"] = "approved"
    plan: EventId
    source: str
    """`confirm at a terminal`, `flag`, `no terminal`, `signature of ...`, `roll back of ...`"""
    policy: Policy = "confirm"
    """the policy under which it was given"""
    signature: str = ""
    """armoured, in the namespace `knobledger-plan`; empty under `confirm`"""
    principal: str = ""
    """who signed, by allowed_signers"""
    fingerprint: str = ""
    """of the key that signed"""
    signers: Digest | None = None
    """of allowed_signers as it was"""
    break_glass: str = ""
    """the reason of an emergency, in which this one signature is enough"""
    review: bool = False
    """a look afterwards at what was done in an emergency"""


class Rejected(Event):
    """A plan that somebody turned down."""

    kind: Literal["rejected"] = "rejected"
    plan: EventId
    why: str = ""


class Started(Event):
    """An attempt on one target, written before the host is touched. Its id names the attempt."""

    kind: Literal["started"] = "started"
    plan: EventId
    target: TargetName
    base: Digest
    result: Digest


class Applied(Event):
    """The attempt succeeded, proven by fresh reads."""

    kind: Literal["applied"] = "applied"
    plan: EventId
    attempt: EventId
    target: TargetName
    receipt: Receipt


class RolledBack(Event):
    """The attempt failed after the swap; the backup is proven to be back."""

    kind: Literal["rolled_back"] = "rolled_back"
    plan: EventId
    attempt: EventId
    target: TargetName
    reason: str


class Failed(Event):
    """The attempt failed. `unchanged`: the file was never touched. `unknown`: `recover` has to look."""

    kind: Literal["failed"] = "failed"
    plan: EventId
    attempt: EventId
    target: TargetName
    outcome: Literal["unchanged", "unknown"]
    error: str
    """the error's kind, such as `drifted`"""
    reason: str


class Settled(Event):
    """What `recover` found out about an attempt in doubt, from the live file's digest."""

    kind: Literal["settled"] = "settled"
    plan: EventId
    attempt: EventId
    target: TargetName
    outcome: Literal["applied", "unchanged", "overwritten"]
    """`overwritten`: the file holds neither base nor result"""
    digest: Digest
    """of the live file, read afresh"""
    manifest: Manifest
    backup: HostPath | None = None
    """found beside the file, holding exactly the base"""


ChangeEvent = Observed | Planned | Approved | Rejected | Started | Applied | RolledBack | Failed | Settled
