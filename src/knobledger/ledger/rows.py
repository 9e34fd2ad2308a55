"""The tables of the SQL index, and the rows that an event becomes.

Importing this loads sqlmodel (0.5 s), so only `index.py` does, and only inside functions. A row
never holds anything that its event's bytes don't say; `body` is these bytes, so rows can rebuild files.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Index as SqlIndex
from sqlmodel import Field, SQLModel

from knobledger.names import EventId


class EventRow(SQLModel, table=True):
    """One event."""

    __tablename__ = "event"
    __table_args__ = (SqlIndex("event_order", "at", "id"), SqlIndex("event_plan", "plan"))
    id: str = Field(primary_key=True)
    at: str
    kind: str
    actor: str
    on_behalf_of: str
    target: str | None
    """where the event concerns exactly one"""
    plan: str | None
    """the change that the event belongs to; a plan belongs to itself"""
    body: str
    """the canonical JSON"""


class EditRow(SQLModel, table=True):
    """One knob's edit in a plan or in what was observed."""

    __tablename__ = "edit"
    __table_args__ = {"sqlite_with_rowid": False}
    change: str = Field(primary_key=True)
    position: int = Field(primary_key=True)
    """from 0, in the order of the event"""
    target: str
    knob: str
    kind: str
    before: str | None
    after: str | None


class ParentRow(SQLModel, table=True):
    """One parent of one event."""

    __tablename__ = "parent"
    __table_args__ = {"sqlite_with_rowid": False}
    event: str = Field(primary_key=True)
    parent: str = Field(primary_key=True)


class FacetRow(SQLModel, table=True):
    """One thing that an event can be found by, in the order in which it is listed.

    `facet` is `target`, `knob`, `kind` (an event's kind, a plan's verb and purpose) or `actor` (who
    did it and on whose behalf). The primary key is the order of a query, so a screenful costs the same
    at any size.
    """

    __tablename__ = "facet"
    __table_args__ = {"sqlite_with_rowid": False}
    facet: str = Field(primary_key=True)
    value: str = Field(primary_key=True)
    at: str = Field(primary_key=True)
    event: str = Field(primary_key=True)


class DayRow(SQLModel, table=True):
    """A day folder that is in the index completely, while it has this stamp."""

    __tablename__ = "day"
    day: str = Field(primary_key=True)
    stamp: str


TABLES = [SQLModel.metadata.tables[name] for name in ("event", "edit", "parent", "facet", "day")]


@dataclass(frozen=True, slots=True)
class PlanFacets:
    """What the events of a plan can be found by because the plan can."""

    targets: tuple[str, ...]
    knobs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Owed:
    """An event that can be found by the facets of its plan too, once that is known."""

    plan: str
    at: str
    event: str
    whole: bool
    """it names no target of its own, so it is about all of the plan's"""


@dataclass(slots=True)
class Rows:
    """The rows of some events, as tuples in the order of the tables' columns."""

    events: list[tuple[str | None, ...]] = field(default_factory=list)
    edits: list[tuple[str | int | None, ...]] = field(default_factory=list)
    parents: list[tuple[str, str]] = field(default_factory=list)
    facets: list[tuple[str, str, str, str]] = field(default_factory=list)
    plans: dict[str, PlanFacets] = field(default_factory=dict)
    """the plans among the events"""
    owed: list[Owed] = field(default_factory=list)

    def add(self, id_: EventId, raw: dict[str, Any], body: str) -> None:
        """Take in one event. Raises `KeyError`, `TypeError`, `AttributeError` if `raw` is no event."""
        at, kind, actor = raw["at"], raw["kind"], raw["actor"]
        behalf, target, plan = raw.get("on_behalf_of", ""), raw.get("target"), raw.get("plan")
        words: set[str] = {kind}
        targets: set[str] = {target} if target else set()
        if kind == "planned":
            plan, words = id_, {kind, raw["verb"], raw["purpose"]}
            edits = [(file["target"], edit) for file in raw["files"] for edit in file["edits"]]
            targets = {file["target"] for file in raw["files"]}
            target = next(iter(targets)) if len(targets) == 1 else None
        else:
            edits = [(target, edit) for edit in raw.get("edits", ())] if target else []
            if plan:
                self.owed.append(Owed(plan, at, id_, whole=not target))
        knobs = {edit["name"] for _, edit in edits}
        if kind == "planned":
            self.plans[id_] = PlanFacets(tuple(targets), tuple(knobs))
        self.events.append((id_, at, kind, actor, behalf, target, plan, body))
        self.edits.extend(
            (id_, n, where, edit["name"], edit["kind"], edit["before"], edit["after"])
            for n, (where, edit) in enumerate(edits)
        )
        self.parents.extend((id_, parent) for parent in raw["parents"])
        self.facets.extend(("kind", word, at, id_) for word in words)
        self.facets.extend(("actor", who, at, id_) for who in {actor, behalf} - {""})
        self.facets.extend(("target", name, at, id_) for name in targets)
        self.facets.extend(("knob", name, at, id_) for name in knobs)

    def inherit(self, owed: Owed, plan: PlanFacets) -> None:
        """Let an event be found by its plan's knobs and, if it is about the whole plan, its targets."""
        self.facets.extend(("knob", name, owed.at, owed.event) for name in plan.knobs)
        if owed.whole:
            self.facets.extend(("target", name, owed.at, owed.event) for name in plan.targets)
