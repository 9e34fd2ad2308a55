"""The rows that an event becomes in the SQL index and in the replica (`tables.py`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field

from knobledger.names import EventId


def _standing(kind: str, id_: str, raw: dict[str, Any]) -> list[tuple[str, str]]:
    """Facets (name, value) that excerpts are found by; the index drops those of `filling.close` at their end."""
    match kind:
        case "planned":
            return [("waiting", raw["expires"])]
        case "approved":
            return [("glass", raw["plan"])] if raw.get("break_glass") else []
        case "started":
            return [("doubt", id_)]
        case "applied":
            return [("written", raw["target"])]
        case "settled":
            return [("written", raw["target"])] if raw["outcome"] == "applied" else []
        case "observed":
            return [("past", raw["target"])] if raw.get("source") else []
        case "seen_live":
            return [("live", raw["target"])]
        case "arming":
            return [("armed", raw["plan"])]
        case "restart_started":
            return [("chain open", id_), *([("resumed", raw["resumes"])] if raw.get("resumes") else [])]
        case "service_restarted":
            service, health = raw["service"], "healthy" if raw["outcome"] == "healthy" else "unhealthy"
            fresh = [("renewed", service)] if raw.get("after") else []
            return [("chain", raw["chain"]), (health, service), *fresh]
        case "restart_ended":
            return [("chain", raw["chain"]), ("ended", raw["chain"])]
        case _:
            return []


class PlanFacets(Struct, frozen=True):
    """What the events of a plan can be found by because the plan can."""

    targets: tuple[str, ...]
    knobs: tuple[str, ...]


class Owed(Struct, frozen=True):
    """An event that can be found by the facets of its plan too, once that is known."""

    plan: str
    at: str
    event: str
    whole: bool
    """it names no target of its own, so it is about all of the plan's"""


class Rows(Struct):
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
        if kind == "observed":
            knobs |= set(raw.get("knobs", ()))
        if kind == "seen_live":
            knobs = {knob["name"] for knob in raw["knobs"] if knob["state"] == "present"}
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
        self._about(targets, at, id_, whole=target is None)
        self.facets.extend(("knob", name, at, id_) for name in knobs)
        self.facets.extend((facet, value, at, id_) for facet, value in _standing(kind, id_, raw))

    def inherit(self, owed: Owed, plan: PlanFacets) -> None:
        """Let an event be found by its plan's knobs and, if it is about the whole plan, its targets."""
        self.facets.extend(("knob", name, owed.at, owed.event) for name in plan.knobs)
        if owed.whole:
            self._about(plan.targets, owed.at, owed.event, whole=True)

    def _about(self, targets: Iterable[str], at: str, id_: str, *, whole: bool) -> None:
        """Targets that an event is found by; `shared` are those that its row does not name."""
        for name in targets:
            self.facets.append(("target", name, at, id_))
            if whole:
                self.facets.append(("shared", name, at, id_))
