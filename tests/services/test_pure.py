"""What needs no host: the order of a chain, what systemd prints, the fold of restarts."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knobledger.errors import BadConfig, Unknown
from knobledger.events.changes import Applied
from knobledger.events.entry import Event
from knobledger.events.serving import Before as BeforeRestart
from knobledger.events.serving import RestartEnded, RestartStarted, SeenRunning, ServiceRestarted
from knobledger.folds.serving import Serving
from knobledger.hosts.config import Config
from knobledger.names import Digest, EventId, HostPath, TargetName
from knobledger.receipt import Frozen, Manifest, Receipt
from knobledger.services.graph import in_scope, ordered, services_named
from knobledger.services.running import unit_facts

PD = """\
[hosts.gpu1.services.router]
script = "/r"
after = ["decode", "gpu2/prefill"]
[hosts.gpu1.services.decode]
script = "/d"
after = ["gpu2/prefill"]
[hosts.gpu1.services.other]
script = "/o"
[hosts.gpu2.services.prefill]
script = "/p"
[groups.pd]
services = ["gpu1/router", "*/decode", "*/prefill"]
"""
SIGNED = {"at": "2026-11-30T20:25:00.000000Z", "actor": "anna"}


def config(text: str = PD) -> Config:
    return Config.parse(text, Path("/ws"))


def test_scopes() -> None:
    pd = config()
    assert in_scope(pd, ["gpu2/prefill"], "none") == ()
    assert in_scope(pd, ["gpu2/prefill"], "service") == ("gpu2/prefill",)
    assert in_scope(pd, ["gpu2/prefill"], "dependents") == ("gpu2/prefill", "gpu1/decode", "gpu1/router")
    assert in_scope(pd, ["gpu1/router"], "dependents") == ("gpu1/router",)
    assert in_scope(pd, ["gpu1/router"], "group") == ("gpu2/prefill", "gpu1/decode", "gpu1/router")
    assert in_scope(pd, ["gpu1/other"], "group") == ("gpu1/other",)


def test_the_order_holds_through_a_service_that_is_left_out() -> None:
    chain = PD.replace('after = ["decode", "gpu2/prefill"]', 'after = ["decode"]')
    assert ordered(config(chain), ["gpu1/router", "gpu2/prefill"]) == ("gpu2/prefill", "gpu1/router")


def test_names_stand_for_services() -> None:
    pd = config()
    assert services_named(pd, ["pd"]) == ("gpu1/router", "gpu1/decode", "gpu2/prefill")
    assert services_named(pd, ["gpu*/decode", "gpu1/decode"]) == ("gpu1/decode",)
    assert services_named(pd, ["gpu2"]) == ("gpu2/prefill",)
    with pytest.raises(Unknown):
        services_named(pd, ["gpu1/decoder"])


def test_a_circle_is_refused_at_load() -> None:
    with pytest.raises(BadConfig, match="circle"):
        config(PD.replace('script = "/p"', 'script = "/p"\nafter = ["gpu1/router"]'))


@given(st.data())
def test_every_order_keeps_every_edge(data: st.DataObject) -> None:
    names = [f"s{n}" for n in range(data.draw(st.integers(1, 6)))]
    edges = {
        name: data.draw(st.lists(st.sampled_from(names[:n]), unique=True)) if n else []
        for n, name in enumerate(names)
    }
    shuffled = data.draw(st.permutations(names))
    text = "".join(f'[hosts.h.services.{n}]\nscript = "/{n}"\nafter = {edges[n]!r}\n' for n in shuffled)
    order = ordered(config(text), [f"h/{n}" for n in names])
    assert sorted(order) == sorted(f"h/{n}" for n in names)
    for name, needed in edges.items():
        assert all(order.index(f"h/{other}") < order.index(f"h/{name}") for other in needed)


def test_what_systemd_prints() -> None:
    facts = unit_facts(
        {
            "Environment": [r'A=1 "B=x y" "C=say \"hi\" \$HOME" $' + r"'D=it\'s\ttab'" + " E="],
            "EnvironmentFiles": ["/etc/a.env (ignore_errors=no)", "/etc/b c.env (ignore_errors=yes)"],
            "TimeoutStopUSec": ["1min 30s"],
            "NRestarts": ["4"],
        }
    )
    assert facts.environment == (
        ("A", "1"), ("B", "x y"), ("C", 'say "hi" $HOME'), ("D", "it's\ttab"), ("E", ""),
    )  # fmt: skip
    assert facts.environment_files == (("/etc/a.env", False), ("/etc/b c.env", True))
    assert (facts.stop_timeout_s, facts.restarts) == (90.0, 4)
    assert unit_facts({"TimeoutStopUSec": ["infinity"]}).stop_timeout_s is None


def applied(change: str) -> Applied:
    path = HostPath("/s")
    manifest = Manifest(path=path, resolved=path, uid=0, gid=0, mode="0644", size=1, mtime=0)
    digest = Digest("0" * 64)
    receipt = Receipt(backup=path, backup_digest=digest, digest=digest, manifest=manifest)
    return Applied(
        **SIGNED,
        plan=EventId(change),
        attempt=EventId("a"),
        target=TargetName("gpu1/decode"),
        receipt=receipt,
    )


def restarted(outcome: str, *pids: int, took_s: float = 1.0) -> ServiceRestarted:
    after = tuple(SeenRunning(pid=pid, parent=1, started=1.0, command="x") for pid in pids)
    return ServiceRestarted.of(
        {
            **SIGNED,
            "chain": "r",
            "service": "gpu1/decode",
            "outcome": outcome,
            "after": after,
            "stopped_after_s": 0.5,
            "healthy_after_s": took_s if outcome == "healthy" else None,
        }
    )


def fold(*events: Event) -> Serving:
    serving = Serving()
    for n, event in enumerate(events):
        serving.take(EventId(str(n)), event)
    return serving


def test_a_new_process_ends_an_owed_restart_whatever_the_gates_said() -> None:
    target = TargetName("gpu1/decode")
    assert fold(applied("c")).owed[target].changes == ["c"]
    assert target in fold(applied("c"), restarted("not stopped")).owed
    unhealthy = fold(applied("c"), restarted("unhealthy", 7))
    assert unhealthy.owed == {}
    assert list(unhealthy.unhealthy) == ["gpu1/decode"]
    assert fold(applied("c"), restarted("unhealthy", 7), restarted("healthy", 8)).unhealthy == {}
    assert fold(restarted("healthy", 7), applied("c")).owed[target].changes == ["c"]


class LiveProcess(Frozen):
    pid: int
    after_write: bool | None


class LiveValue(Frozen):
    state: str
    value: str | None
    pids: tuple[int, ...]


class LiveKnob(Frozen):
    name: str = "CTAS"
    written: str | None = "512"
    state: str = "present"
    value: str | None = None
    values: tuple[LiveValue, ...]


class Live(Event):
    kind: str = "seen_live"
    target: TargetName = TargetName("gpu1/decode")
    processes: tuple[LiveProcess, ...]
    knobs: tuple[LiveKnob, ...]


def live(value: str | None, after_write: bool) -> Live:
    state = "present" if value is not None else "absent"
    knob = LiveKnob(state=state, value=value, values=(LiveValue(state=state, value=value, pids=(7,)),))
    return Live(**SIGNED, processes=(LiveProcess(pid=7, after_write=after_write),), knobs=(knob,))


def test_what_was_seen_in_a_process_counts_more() -> None:
    assert fold(applied("c"), live("512", after_write=True)).owed == {}
    assert fold(applied("c"), live("256", after_write=False)).owed
    again = fold(applied("c"), restarted("healthy", 7), live("256", after_write=True))
    assert [one.seen for one in again.owed.values()] == ["CTAS is '512' in the file and '256' in the process"]


def test_expected_starts_are_of_the_newest() -> None:
    serving = fold(*(restarted("healthy", 7, took_s=float(n)) for n in (90, 1, 2, 3, 4, 5)))
    assert serving.expected_start_s("gpu1/decode") == 3.0
    assert serving.slowest_start_s("gpu1/decode") == 90.0
    assert serving.expected_start_s("gpu1/other") is None


def test_a_chain_without_an_end_is_in_the_middle_until_another_takes_it_over() -> None:
    services = (BeforeRestart(service="gpu1/decode"),)
    first = RestartStarted(**SIGNED, cause="asked", scope="service", services=services)
    second = RestartStarted(
        **SIGNED, cause="recover", scope="service", services=services, resumes=EventId("0")
    )
    assert [chain.id for chain in fold(first).in_the_middle()] == ["0"]
    both = fold(first, second)
    assert [chain.id for chain in both.in_the_middle()] == ["1"]
    assert both.root_of(both.chains[EventId("1")]).id == "0"
    ended = RestartEnded(**SIGNED, chain=EventId("1"), outcome="done")
    assert fold(first, second, ended).in_the_middle() == []
