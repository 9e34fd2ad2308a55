"""What an event can be found by besides its kind, its people, its knobs and its places: how things stand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ledgers import DECODE, PREFILL, SCRIPT, at, manifest, note, observed, planned

from knobledger.event import encode, id_of
from knobledger.events.arming import Arming
from knobledger.events.changes import Applied, Approved, Settled, Started
from knobledger.events.serving import Before, RestartEnded, RestartStarted, SeenRunning, ServiceRestarted
from knobledger.events.watching import SeenLive
from knobledger.ledger.rows import Rows
from knobledger.names import EventId, HostPath, TargetName, digest_of
from knobledger.receipt import Receipt

PLAN, ATTEMPT, CHAIN, EARLIER = (EventId(digit * 64) for digit in "1234")
RECEIPT = Receipt(
    backup=HostPath("/b"), backup_digest=digest_of(b"old"), digest=digest_of(b"new"), manifest=manifest()
)
SERVICE = {"chain": CHAIN, "service": DECODE}
RUNNING = SeenRunning(pid=7, parent=1, started=1.0, command="x")


def _event(kind: type[Any], **facts: Any) -> Any:
    return kind.of({"at": at(), "actor": "anna@example.org", **facts})


def _settled(outcome: str) -> Any:
    facts = {"plan": PLAN, "attempt": ATTEMPT, "target": DECODE, "outcome": outcome}
    return _event(Settled, **facts, digest=digest_of(b"new"), manifest=manifest())


@pytest.mark.parametrize(
    ("event", "facets"),
    [
        (note(), []),
        (planned(), [("waiting", at(1440))]),
        (_event(Approved, plan=PLAN, source="flag"), []),
        (_event(Approved, plan=PLAN, source="glass", break_glass="down"), [("glass", PLAN)]),
        (
            _event(Started, plan=PLAN, target=DECODE, base=digest_of(b"old"), result=digest_of(b"new")),
            [("doubt", "its id")],
        ),
        (
            _event(Applied, plan=PLAN, attempt=ATTEMPT, target=DECODE, receipt=RECEIPT),
            [("written", DECODE)],
        ),
        (_settled("applied"), [("written", DECODE)]),
        (_settled("unchanged"), []),
        (observed(), []),
        (observed().but(source="/root/serve.sh.bak"), [("past", DECODE)]),
        (_event(SeenLive, target=DECODE, service=DECODE, path=SCRIPT), [("live", DECODE)]),
        (_event(Arming, plan=PLAN, target=DECODE, window_s=60, token="t"), [("armed", PLAN)]),
        (
            _event(RestartStarted, cause="asked", scope="service", services=(Before(service=DECODE),)),
            [("chain open", "its id")],
        ),
        (
            _event(RestartStarted, cause="asked", scope="service", services=(), resumes=EARLIER),
            [("chain open", "its id"), ("resumed", EARLIER)],
        ),
        (
            _event(ServiceRestarted, **SERVICE, outcome="healthy"),
            [("chain", CHAIN), ("healthy", DECODE)],
        ),
        (
            _event(ServiceRestarted, **SERVICE, outcome="unhealthy", after=(RUNNING,)),
            [("chain", CHAIN), ("unhealthy", DECODE), ("renewed", DECODE)],
        ),
        (_event(RestartEnded, chain=CHAIN, outcome="done"), [("chain", CHAIN), ("ended", CHAIN)]),
    ],
)
def test_how_things_stand(event: Any, facets: list[tuple[str, str]]) -> None:
    content = encode(event)
    id_, rows = id_of(content), Rows()
    rows.add(id_, json.loads(content), content.decode())
    usual = ("kind", "actor", "target", "knob")
    assert [facet for facet in rows.facets if facet[0] not in usual] == [
        (name, id_ if value == "its id" else value, at(), id_) for name, value in facets
    ]


def test_an_event_is_found_by_its_people_and_its_kind_and_by_nothing_that_is_empty() -> None:
    raw = {"at": at(), "kind": "measured", "actor": "anna", "parents": [PLAN], "edits": [{"name": "A"}]}
    rows = Rows()
    rows.add(CHAIN, raw, "{}")
    assert rows.events == [(CHAIN, at(), "measured", "anna", "", None, None, "{}")]
    assert rows.facets == [("kind", "measured", at(), CHAIN), ("actor", "anna", at(), CHAIN)]
    assert rows.parents == [(CHAIN, PLAN)]
    assert rows.edits == []  # of what is changed nowhere


@pytest.mark.parametrize(("targets", "one"), [((DECODE,), DECODE), ((DECODE, PREFILL), None)])
def test_a_plan_has_a_target_of_its_own_if_it_has_only_one(
    targets: tuple[TargetName, ...], one: TargetName | None
) -> None:
    rows = Rows()
    rows.add(PLAN, json.loads(encode(planned(targets=targets, behalf="ben"))), "{}")
    assert rows.events == [(PLAN, at(), "planned", "anna@example.org", "ben", one, PLAN, "{}")]
