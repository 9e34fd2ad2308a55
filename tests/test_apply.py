"""What an operator is told when a plan can't be applied or its end is not known, and what the record says then."""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from knobledger import apply, settling
from knobledger.author import Author
from knobledger.drafting import Options
from knobledger.errors import (
    Busy,
    Drifted,
    Interrupted,
    KnobError,
    LedgerUnwritable,
    NotApproved,
    NotWritten,
    PlanSpent,
    Refused,
    StateUnknown,
    Unreachable,
)
from knobledger.events.changes import Applied, Failed, RolledBack, Settled, Started
from knobledger.events.entry import Event
from knobledger.hosts.host import Transaction
from knobledger.hosts.memory import MemoryHost
from knobledger.knobs import Request
from knobledger.ledger import excerpt
from knobledger.ledger.store import Ledger
from knobledger.names import EventId, HostPath, TargetName, digest_of
from knobledger.receipt import GrepLine, Step
from workspaces import HOSTS, KNOB, SCRIPT, SERVE, Bench

NEW = SERVE.replace(b"CTAS=256", b"CTAS=512")
OTHER = SERVE + b"# by hand\n"
SUM = f"sha256sum {SCRIPT}"


@pytest.fixture(params=["the whole ledger", "a part of it"])
def bench(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Bench:
    if request.param == "a part of it":
        monkeypatch.setattr(excerpt, "worthwhile", lambda _: True)
    return Bench(tmp_path / "ws")


def last(bench: Bench, kind: type) -> object:
    with bench.open() as workspace:
        return [event for event in workspace.state.events.values() if isinstance(event, kind)][-1]


def refused(bench: Bench, plan: str, error: type[KnobError], message: str, hint: str) -> KnobError:
    """Applying the plan is refused in these words, and leaves the file alone."""
    before = bench.live
    with bench.open() as workspace, pytest.raises(error) as caught:
        workspace.apply(plan)
    assert (caught.value.message, caught.value.hint) == (message, hint)
    assert bench.live == before
    return caught.value


def lost(bench: Bench, **faults: KnobError) -> None:
    """The answer to the next transaction is lost after the swap, and these faults strike from then on."""

    def lose() -> None:
        bench.host.faults = dict(faults)
        raise StateUnknown("the connection was lost")

    bench.host.faults["verify"] = lose


def test_what_stands_in_the_way_of_a_plan_is_said_with_what_to_type(bench: Bench) -> None:
    waits, rejected, unknown = (bench.plan((KNOB, value)).id for value in ("1", "2", "3"))
    refused(
        bench,
        waits,
        NotApproved,
        f"plan {waits[:8]} has no go-ahead yet",
        f"see `knob show {waits[:8]}`, then `knob approve {waits[:8]}`",
    )
    with bench.open(KNOBLEDGER_ACTOR="bert") as workspace:
        workspace.reject(rejected, "no")
    refused(bench, rejected, PlanSpent, f"plan {rejected[:8]} was rejected by bert", "make a new plan")
    lost(bench, read=Unreachable("down"))
    with pytest.raises(StateUnknown):
        bench.apply(unknown)
    words = f"plan {unknown[:8]} has an attempt whose outcome is not known"
    refused(bench, unknown, PlanSpent, words, "first `knob recover`")
    bench.host.faults.clear()
    with bench.open() as workspace:
        workspace.recover()
    words = f"plan {unknown[:8]} was used already"
    refused(bench, unknown, PlanSpent, words, f"see `knob show {unknown[:8]}`; a plan is good for one use")


def test_an_expired_plan_names_its_end(bench: Bench) -> None:
    plan = bench.plan((KNOB, "512"), expires_in=timedelta(seconds=-1)).id
    with bench.open() as workspace:
        expires = workspace.state.plans[EventId(plan)].planned.expires
    refused(bench, plan, PlanSpent, f"plan {plan[:8]} expired at {expires}", "make a new plan")


@pytest.mark.parametrize("policy", ["confirm", "signed"])
def test_a_clock_set_back_revives_no_plan_that_needs_a_signature(bench: Bench, policy: str) -> None:
    id_ = EventId(bench.plan((KNOB, "512"), expires_in=timedelta(hours=1)).id)
    with bench.open() as workspace:
        workspace.approve(id_, "flag")
        workspace.desk.author = Author("anna", now=lambda: datetime.now(UTC) + timedelta(hours=2))
        workspace.note("two hours later", None)
    with bench.open() as workspace:
        plan = workspace.state.plans[id_]
        plan.planned = plan.planned.but(policy=policy)
        if policy == "confirm":
            apply.ready(workspace.desk, plan)
        else:
            with pytest.raises(PlanSpent, match="expired"):
                apply.ready(workspace.desk, plan)


def test_a_target_that_moved_in_the_configuration_stops_it(bench: Bench) -> None:
    plan = bench.plan((KNOB, "512")).id
    with bench.open() as workspace:
        workspace.approve(plan, "flag")
    (bench.root / "hosts.toml").write_text(HOSTS.replace(SCRIPT, "/root/other.sh"), encoding="utf-8")
    refused(
        bench,
        plan,
        Drifted,
        f"gpu1/decode is '/root/other.sh' now, and plan {plan[:8]} was made for {SCRIPT!r}; nothing was written",
        f"hosts.toml was changed since: make a new plan: `knob set gpu1/decode {KNOB}=512`",
    )
    assert bench.kinds()[-1] == "approved"


def test_a_target_that_the_plan_does_not_name_is_refused(bench: Bench) -> None:
    plan = EventId(bench.plan((KNOB, "512")).id)
    with bench.open() as workspace:
        target = workspace.config.target(TargetName("gpu1/decode"))
        found = workspace.state.plans[plan]
        elsewhere = found.planned.files[0].but(target="gpu2/decode")
        found.planned = found.planned.but(files=(elsewhere,))
        with pytest.raises(Refused, match=f"^plan {plan[:8]} does not touch 'gpu1/decode'$"):
            apply.attempt(workspace.desk, found, target, bench.host, lambda: bench.host)


def test_what_the_host_is_asked_to_do(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Transaction] = []
    replace = MemoryHost.replace
    monkeypatch.setattr(MemoryHost, "replace", lambda host, one: sent.append(one) or replace(host, one))  # type: ignore[func-returns-value]
    named = bench.set((KNOB, "512"), label="before-noon").id
    undone = bench.undo("revert", named)
    first, second = sent
    with bench.open() as workspace:
        since = f"{workspace.state.plans[EventId(undone.id)].attempts[0].started.at:.10}"
    assert (first.path, first.resolved, first.base, first.result) == (
        SCRIPT,
        SCRIPT,
        digest_of(SERVE),
        digest_of(NEW),
    )
    assert first.backup_name == "serve_dsv4_decode.sh.before-noon.bak"
    assert (first.check, first.matches, first.in_place) == ("bash", None, False)
    assert (first.grep, first.gone) == ((KNOB,), ())
    assert first.holder.startswith(f"anna (plan {named[:8]}) since {since} ")
    assert first.holder.endswith("Z")
    stamp = datetime.strptime(second.backup_name.split(".")[2][:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    assert abs(stamp - datetime.now(UTC)) < timedelta(hours=1)
    assert second.backup_name.endswith(f"Z-{undone.id[:8]}.bak")
    assert second.matches == f"/root/.knobledger/{first.backup_name}"


@pytest.mark.parametrize(
    ("dialect", "check"), [("sh", "sh"), ("env", "sh"), ("env-docker", "none"), ("env-systemd", "none")]
)
def test_a_file_is_checked_by_what_reads_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, dialect: str, check: str
) -> None:
    sent: list[Transaction] = []
    replace = MemoryHost.replace
    monkeypatch.setattr(MemoryHost, "replace", lambda host, one: sent.append(one) or replace(host, one))  # type: ignore[func-returns-value]
    files = f'[hosts.gpu1.services.decode.files.env]\npath = "/root/decode.env"\ndialect = "{dialect}"\n'
    (bench.root / "hosts.toml").write_text(HOSTS + files, encoding="utf-8")
    bench.host.put("/root/decode.env", b"A=1\n")
    with bench.open() as workspace:
        plan = workspace.set(["gpu1/decode:env"], [Request("A", "2")], Options())
    bench.apply(plan.id)  # type: ignore[union-attr]
    assert [one.check for one in sent] == [check]


def test_a_line_that_goes_is_looked_for_as_gone(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Transaction] = []
    replace = MemoryHost.replace
    monkeypatch.setattr(MemoryHost, "replace", lambda host, one: sent.append(one) or replace(host, one))  # type: ignore[func-returns-value]
    bench.set((KNOB, None))
    assert sent[0].grep == ()
    assert sent[0].gone
    assert all(text.encode() not in bench.live and text.encode() in SERVE for text in sent[0].gone)


def test_the_record_of_a_failure(bench: Bench) -> None:
    plan = bench.plan((KNOB, "512")).id
    bench.host.faults["stage"] = NotWritten("disk full")
    with pytest.raises(NotWritten) as caught:
        bench.apply(plan)
    assert caught.value.values["change"] == plan
    event = last(bench, Failed)
    assert isinstance(event, Failed)
    with bench.open() as workspace:
        [attempt] = workspace.state.plans[EventId(plan)].attempts
    assert (event.plan, event.attempt, event.target) == (plan, attempt.id, "gpu1/decode")
    assert (event.actor, event.outcome, event.error, event.reason) == (
        "anna",
        "unchanged",
        "not_written",
        "disk full",
    )


def test_the_record_of_a_roll_back(bench: Bench) -> None:
    plan = bench.plan((KNOB, "512")).id
    bench.host.faults["verify"] = KnobError("digest differs")
    with pytest.raises(KnobError):
        bench.apply(plan)
    event = last(bench, RolledBack)
    assert isinstance(event, RolledBack)
    with bench.open() as workspace:
        [attempt] = workspace.state.plans[EventId(plan)].attempts
    assert (event.plan, event.attempt, event.target) == (plan, attempt.id, "gpu1/decode")
    assert "digest differs; the backup was put back" in event.reason


def test_the_record_of_a_success(bench: Bench) -> None:
    plan = bench.set((KNOB, "512")).id
    event, started = last(bench, Applied), last(bench, Started)
    assert isinstance(event, Applied)
    assert isinstance(started, Started)
    assert (started.plan, started.target, started.base, started.result) == (
        plan,
        "gpu1/decode",
        digest_of(SERVE),
        digest_of(NEW),
    )
    with bench.open() as workspace:
        assert workspace.state.attempts[event.attempt].started == started
    assert (event.plan, event.target, event.receipt.digest) == (plan, "gpu1/decode", digest_of(NEW))


def test_a_success_that_can_not_be_recorded_is_told_and_recovered(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = bench.plan((KNOB, "512")).id
    append = Ledger.append_each

    def full(self: Ledger, events: Sequence[Event]) -> tuple[list[EventId], LedgerUnwritable | None]:
        if isinstance(events[0], Applied):
            return [], LedgerUnwritable("no space left on device")
        return append(self, events)

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "append_each", full)
        with pytest.raises(StateUnknown) as caught:
            bench.apply(plan)
    assert caught.value.message == (
        "the change is in gpu1/decode, proven on the host, but it could not be recorded: no space left on device"
    )
    assert caught.value.hint == (
        "make room for the ledger, then `knob recover` looks at the host again and records it"
    )
    assert caught.value.values["change"] == plan
    assert bench.live == NEW
    with bench.open() as workspace:
        assert workspace.recover().settled == ((plan, "gpu1/decode", "applied"),)


def test_a_lost_answer_that_can_not_be_looked_after_says_how_to_look_by_hand(bench: Bench) -> None:
    plan = bench.plan((KNOB, "512")).id
    lost(bench, read=Unreachable("no route"))
    with pytest.raises(StateUnknown) as caught:
        bench.apply(plan)
    assert caught.value.message == "the connection was lost; a second look failed too: no route"
    assert caught.value.hint == (
        f"when gpu1 can be reached again: `knob recover`; by hand: `{SUM}` is {digest_of(SERVE)[:8]}... if "
        f"nothing was changed, {digest_of(NEW)[:8]}... if the change is in"
    )
    assert caught.value.values["change"] == plan
    assert caught.value.values["commands"] == [SUM]
    event = last(bench, Failed)
    assert isinstance(event, Failed)
    with bench.open() as workspace:
        [attempt] = workspace.state.plans[EventId(plan)].attempts
    assert (event.plan, event.attempt, event.target) == (plan, attempt.id, "gpu1/decode")
    assert (event.outcome, event.error, event.reason) == (
        "unknown",
        "state_unknown",
        "the connection was lost",
    )


def test_a_lost_answer_with_other_bytes_in_the_file_names_the_backup(bench: Bench) -> None:
    plan = bench.plan((KNOB, "512")).id

    def lose() -> None:
        bench.host.faults.clear()
        bench.host.put(SCRIPT, OTHER, mode="0755")
        raise StateUnknown("the connection was lost")

    bench.host.faults["verify"] = lose
    with pytest.raises(StateUnknown) as caught:
        bench.apply(plan)
    [backup] = (path for path in bench.host.files if path.endswith(".bak"))
    assert caught.value.message == (
        "the connection was lost; a fresh look shows bytes that are neither those before nor those planned"
    )
    assert caught.value.hint == (
        f"`knob revert {plan[:8]} --exact` puts back what was there before, unless somebody else has written since: "
        f"see `knob diff gpu1/decode`; the backup is at {backup}"
    )
    assert caught.value.values["change"] == plan
    assert caught.value.values["commands"] == [SUM]
    assert bench.live == OTHER
    event = last(bench, Settled)
    assert isinstance(event, Settled)
    assert (event.outcome, event.digest, event.backup) == ("overwritten", digest_of(OTHER), backup)
    assert event.manifest.mode == "0755"
    with bench.open() as workspace:
        assert workspace.state.in_doubt() == []


def test_a_lost_answer_without_any_backup_says_so(bench: Bench) -> None:
    plan = bench.plan((KNOB, "512")).id

    def lose() -> None:
        bench.host.faults.clear()
        bench.host.files = {}
        bench.host.put(SCRIPT, OTHER)
        raise StateUnknown("the connection was lost")

    bench.host.faults["verify"] = lose
    with pytest.raises(StateUnknown) as caught:
        bench.apply(plan)
    assert caught.value.hint == "see `knob diff gpu1/decode`; the backup is at a place not known"


def test_a_lost_answer_of_a_change_that_was_not_made_says_to_try_again(bench: Bench) -> None:
    plan = bench.plan((KNOB, "512")).id

    def lose() -> None:
        bench.host.faults.clear()
        raise StateUnknown("the connection was lost")

    bench.host.faults["stage"] = lose
    with pytest.raises(NotWritten) as caught:
        bench.apply(plan)
    assert caught.value.message == (
        "the connection was lost; a fresh look shows that gpu1/decode is as before"
    )
    assert caught.value.hint == "make a new plan and try again"
    assert caught.value.values["change"] == plan
    event = last(bench, Settled)
    assert isinstance(event, Settled)
    assert (event.plan, event.target, event.outcome, event.backup) == (plan, "gpu1/decode", "unchanged", None)


def test_an_interrupted_attempt_says_what_is_true_and_what_to_type(bench: Bench) -> None:
    plan = bench.plan((KNOB, "512")).id

    def interrupt() -> None:
        raise KeyboardInterrupt

    bench.host.faults["verify"] = interrupt
    with pytest.raises(Interrupted) as caught:
        bench.apply(plan)
    assert caught.value.message == (
        f"interrupted while {plan[:8]} was being applied to gpu1/decode; the live file is exactly the old or exactly "
        "the new one"
    )
    assert caught.value.hint == "`knob recover` looks which, and records it"
    assert caught.value.values["change"] == plan


@pytest.fixture
def shared(bench: Bench) -> Bench:
    """The script has a second name, so it can only be written in place."""
    bench.host.files[SCRIPT] = replace(bench.host.files[SCRIPT], links=2)
    return bench


def test_an_attempt_in_place_that_was_interrupted_may_have_torn_the_file(shared: Bench) -> None:
    plan = shared.plan((KNOB, "512"), in_place=True).id

    def interrupt() -> None:
        raise KeyboardInterrupt

    shared.host.faults["verify"] = interrupt
    with pytest.raises(Interrupted) as caught:
        shared.apply(plan)
    assert caught.value.message.endswith(
        "the live file is exactly the old or exactly the new one, or torn if it was written in place"
    )


def test_other_bytes_in_a_file_written_in_place_are_put_back_in_place(shared: Bench) -> None:
    plan = shared.plan((KNOB, "512"), in_place=True).id

    def lose() -> None:
        shared.host.faults.clear()
        shared.host.files[SCRIPT] = replace(shared.host.files[SCRIPT], content=SERVE[:40])
        raise StateUnknown("the connection was lost")

    shared.host.faults["verify"] = lose
    with pytest.raises(StateUnknown) as caught:
        shared.apply(plan)
    assert caught.value.hint.startswith(f"`knob revert {plan[:8]} --exact --in-place` puts back ")


@pytest.mark.parametrize("commands", [["cp -p a b"], None])
def test_a_failed_proof_names_the_way_back(bench: Bench, commands: list[str] | None) -> None:
    plan = bench.plan((KNOB, "512")).id
    values = {"objection": "mode is 700, not 755", **({"commands": commands} if commands else {})}

    def objects() -> None:
        bench.host.faults.clear()
        raise StateUnknown("the backup could not be put back", **values)

    bench.host.faults["verify"] = objects
    with pytest.raises(StateUnknown) as caught:
        bench.apply(plan)
    assert caught.value.message == (
        "gpu1/decode: mode is 700, not 755; a fresh look shows that the new content is in the file"
    )
    assert caught.value.hint == (
        f"`knob revert {plan[:8]}` takes it back; by hand on the host: the commands above"
    )
    assert caught.value.values["change"] == plan
    assert list(caught.value.values["commands"]) == (commands or [])


def test_a_settled_change_names_the_backup_it_can_be_undone_with(bench: Bench) -> None:
    first = bench.set((KNOB, "300")).id
    bench.undo("revert", first)
    plan = bench.plan((KNOB, "512")).id
    lost(bench)
    bench.apply(plan)
    event = last(bench, Settled)
    assert isinstance(event, Settled)
    found = [path for path, file in bench.host.files.items() if file.content == SERVE and path != SCRIPT]
    assert len(found) == 2
    assert event.backup == sorted(found)[-1], "of several with the same bytes, the newest by name"
    with bench.open() as workspace:
        assert workspace.state.attempts[event.attempt].started.plan == plan


def test_a_transaction_that_goes_on_without_us_is_waited_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = bench.plan((KNOB, "512")).id
    looks = itertools.count(1)

    def held() -> None:
        if next(looks) < 4:
            raise Busy("held", holder="anna", since=1)

    def lose() -> None:
        bench.host.faults = {"tidy": held}
        raise StateUnknown("the connection was lost")

    bench.host.faults["verify"] = lose
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    assert bench.apply(plan).is_change
    assert slept == [0.5, 0.5, 0.5]


def test_the_patience_ends_and_the_outcome_is_unknown(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = bench.plan((KNOB, "512")).id
    lost(bench, tidy=Busy("held by anna", holder="anna", since=1))
    now = 1000.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    with monkeypatch.context() as patch:
        patch.setattr(settling.time, "sleep", sleep)
        patch.setattr(settling.time, "monotonic", lambda: now)
        with pytest.raises(StateUnknown, match="a second look failed too: held by anna"):
            bench.apply(plan)
    assert now == pytest.approx(1010.5)
    bench.host.faults.clear()
    with bench.open() as workspace:
        assert workspace.recover().settled == ((plan, "gpu1/decode", "applied"),)


def without_snapshots(bench: Bench, **plan: object) -> str:
    """A plan as another clone has it: without the bytes."""
    made = bench.plan((KNOB, "512"), **plan).id
    shutil.rmtree(bench.root / ".knobledger" / "snapshots")
    with bench.open() as workspace:
        workspace.approve(made, "flag")
    return made


def test_another_clone_rebuilds_exactly_the_edit_that_was_planned(bench: Bench) -> None:
    twice = SERVE.replace(b"export NCCL", f"export {KNOB}=1\nexport NCCL".encode())
    bench.host.put(SCRIPT, twice)
    plan = without_snapshots(bench, line=5)
    bench.apply(plan)
    assert bench.live == twice.replace(b"CTAS=256\n", b"CTAS=512\n")
    with bench.open() as workspace:
        assert workspace.desk.snapshots.get(digest_of(bench.live)) == bench.live


@pytest.mark.parametrize("option", ["add", "force"])
def test_another_clone_rebuilds_what_had_to_be_allowed(bench: Bench, option: str) -> None:
    script = {
        "add": SERVE.replace(f"export {KNOB}=256\n".encode(), b""),
        "force": SERVE.replace(b"CTAS=256", b"CTAS=$(nproc)"),
    }[option]
    bench.host.put(SCRIPT, script)
    with bench.open() as workspace, pytest.raises(KnobError):
        workspace.set(["gpu1/decode"], [Request(KNOB, "512")], Options())
    plan = without_snapshots(bench, **{option: True})
    bench.apply(plan)
    assert f"{KNOB}=512".encode() in bench.live


def test_another_clone_never_edits_other_bytes_than_the_plan_was_made_for(bench: Bench) -> None:
    plan = without_snapshots(bench)
    bench.host.put(SCRIPT, OTHER)
    error = refused(
        bench,
        plan,
        Drifted,
        f"gpu1/decode is not what the plan was made for: its digest is {digest_of(OTHER)[:8]}, the plan's base is "
        f"{digest_of(SERVE)[:8]}; nothing was written",
        f"make a new plan: `knob set gpu1/decode {KNOB}=512`",
    )
    assert error.values["expected"] == digest_of(SERVE)
    assert error.values["found"] == digest_of(OTHER)


def test_another_clone_can_not_rebuild_a_secret(bench: Bench) -> None:
    bench.host.put(SCRIPT, SERVE.replace(b"NCCL_DEBUG=WARN", b"HF_TOKEN=hf_aaaaaaaaaaaaaaaa"))
    plan = bench.plan(("HF_TOKEN", "hf_bbbbbbbbbbbbbbbb")).id
    shutil.rmtree(bench.root / ".knobledger" / "snapshots")
    with bench.open() as workspace:
        workspace.approve(plan, "flag")
    refused(
        bench,
        plan,
        Refused,
        "the bytes of this plan for gpu1/decode can't be rebuilt here",
        "apply it in the workspace that made it, or make a new plan here",
    )
    assert bench.kinds()[-1] == "approved"


def test_another_clone_takes_an_undo_from_the_backup_on_the_host(bench: Bench) -> None:
    change = bench.set((KNOB, "512")).id
    with bench.open() as workspace:
        undo = workspace.revert(change, Options()).id  # type: ignore[union-attr]
    shutil.rmtree(bench.root / ".knobledger" / "snapshots")
    bench.apply(undo)
    assert bench.live == SERVE


def _undo_beside_a_later_edit(bench: Bench) -> tuple[str, HostPath]:
    change = bench.set((KNOB, "512")).id
    bench.host.put(SCRIPT, NEW.replace(b"WARN", b"INFO"), mode="0755")
    with bench.open() as workspace:
        undo = workspace.revert(change, Options()).id  # type: ignore[union-attr]
        file = workspace.state.plans[EventId(undo)].planned.files[0]
        workspace.approve(undo, "flag")
    assert file.backup
    assert not file.clean
    return undo, file.backup


def test_one_flipped_byte_in_the_backup_stops_an_undo(bench: Bench) -> None:
    undo, backup = _undo_beside_a_later_edit(bench)
    flipped = SERVE.replace(b"decode on", b"Decode on")
    bench.host.put(backup, flipped)
    refused(
        bench,
        undo,
        NotWritten,
        f"backup {backup!r} is damaged: its digest is {digest_of(flipped)[:8]}, recorded is "
        f"{digest_of(SERVE)[:8]}; nothing was written",
        "make a new plan: it will take the bytes from a snapshot",
    )
    bench.host.put(backup, SERVE)
    assert bench.apply(undo).is_change
    assert bench.live == SERVE.replace(b"WARN", b"INFO")


def test_the_lines_of_the_proof_are_those_of_the_file_whatever_their_bytes(bench: Bench) -> None:
    bench.host.put(SCRIPT, SERVE.replace(b"CTAS=256\n", b"CTAS=256 # caf\xe9\r\n"))
    bench.set((KNOB, "512"))
    event = last(bench, Applied)
    assert isinstance(event, Applied)
    assert [(line.line, line.text) for line in event.receipt.grep] == [(5, f"export {KNOB}=512 # caf\\xe9")]


def test_the_last_line_and_a_line_that_is_no_more_are_masked_too(bench: Bench) -> None:
    token = "hf_aaaaaaaaaaaaaaaaaaaa"
    content = f"export HF_TOKEN={token}".encode()
    bench.set((KNOB, "512"))
    event = last(bench, Applied)
    assert isinstance(event, Applied)
    grep = tuple(GrepLine(line=line, text=f"export HF_TOKEN={token}") for line in (1, 2))
    with bench.open() as workspace:
        target = workspace.config.target(TargetName("gpu1/decode"))
        receipt = apply._masked(workspace.desk, event.receipt.but(grep=grep), content, target)
    assert [line.line for line in receipt.grep] == [1, 2]
    assert receipt.grep[0].text == receipt.grep[1].text
    assert receipt.grep[0].text.startswith("export HF_TOKEN=")
    assert token not in str(receipt.plain())


def test_what_only_the_lines_above_tell_to_be_secret_is_masked_in_the_last_one(bench: Bench) -> None:
    content = b"exec serve \\\n  --api-key \\\n  plainvalue"
    bench.set((KNOB, "512"))
    event = last(bench, Applied)
    assert isinstance(event, Applied)
    told = event.receipt.but(
        grep=(GrepLine(line=3, text="  plainvalue"),),
        steps=(Step(step="verify", ok=True, detail="`HF_TOKEN=hf_aaaaaaaaaaaaaaaaaaaa`"),),
    )
    with bench.open() as workspace:
        target = workspace.config.target(TargetName("gpu1/decode"))
        receipt = apply._masked(workspace.desk, told, content, target)
    assert "plainvalue" not in str(receipt.plain())
    assert "hf_a" not in str(receipt.plain())


def test_a_secret_beside_the_edit_is_masked_in_the_record(bench: Bench) -> None:
    token = "hf_aaaaaaaaaaaaaaaaaaaa"
    bench.host.put(SCRIPT, SERVE.replace(b"NCCL_DEBUG=WARN", f"HF_TOKEN={token}".encode()))
    bench.set(("HF_TOKEN", "hf_bbbbbbbbbbbbbbbbbbbb"))
    event = last(bench, Applied)
    assert isinstance(event, Applied)
    [line] = event.receipt.grep
    assert line.line == 6
    assert line.text.startswith("export HF_TOKEN=")
    assert "hf_b" not in str(event.plain())
    assert [step.step for step in event.receipt.steps][-1] == "verify"
    assert all("hf_" not in step.detail for step in event.receipt.steps)
    assert any(step.detail for step in event.receipt.steps)
