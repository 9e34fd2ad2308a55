"""A restart makes live whatever the files hold: where a policy wants a signature, so does a restart. Real processes."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from signing_desk import Desk, refused

from knobledger import approving
from knobledger.drafting import Options
from knobledger.errors import KnobError, PlanMode
from knobledger.events.changes import Approved
from knobledger.events.serving import Before, RestartStarted
from knobledger.knobs import Request
from knobledger.names import EventId
from knobledger.report.plans import PlanReport
from knobledger.report.serving import RestartPreview

pytestmark = pytest.mark.tool("ssh-keygen", "git")


class Stand(Desk):
    """`decode` is under the policy; `router` comes after it, and anybody may restart it."""

    def hosts(self, policy: str = "", more: str = "", path: Path | None = None) -> None:
        super().hosts(policy, more, path)
        text = (self.root / "hosts.toml").read_text()
        text += self.control("decode")
        text += f'[hosts.gpu1.services.router]\nscript = "{self.script}.router"\n{self.control("router")}'
        text += 'after = ["decode"]\napproval = "confirm"\n'
        (self.root / "hosts.toml").write_text(text)

    def control(self, name: str) -> str:
        file = self.pid_file(name)
        # In a shell that goes away, so that the process has no parent that would have to collect it.
        start = f"(setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo $! >{file})"
        return f"start = {json.dumps(start)}\npid = {json.dumps(f'cat {file}')}\n"

    def pid_file(self, name: str) -> Path:
        return self.script.with_name(f"{name}.pid")

    def pid(self, name: str = "decode") -> str:
        file = self.pid_file(name)
        return file.read_text() if file.exists() else ""

    def wish(self, *names: str, scope: str = "service", **more: object) -> RestartPreview | PlanReport:
        with self.open() as workspace:
            return workspace.restart_wish(names or ("gpu1/decode",), scope, **more)  # type: ignore[arg-type]

    def planned(self, *names: str, scope: str = "service") -> PlanReport:
        report = self.wish(*names, scope=scope)
        assert isinstance(report, PlanReport)
        return report

    def stop(self) -> None:
        for file in self.script.parent.glob("*.pid"):
            with suppress(OSError, ValueError):
                pid = int(file.read_text())
                if b"sleep\x001000" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[[str], Stand]]:
    stands: list[Stand] = []

    def make(policy: str) -> Stand:
        stands.append(Stand(tmp_path, policy))
        return stands[-1]

    yield make
    for stand in stands:
        stand.stop()


@pytest.fixture
def desk(made: Callable[[str], Stand]) -> Stand:
    return made("signed")


@pytest.mark.parametrize(
    "words", [("--go-ahead",), ("--go-ahead", "--why", "it burns"), ()], ids=["flag", "with why", "yes piped"]
)
def test_who_has_no_key_restarts_nothing(desk: Stand, words: tuple[str, ...]) -> None:
    done = desk.knob("restart", "gpu1/decode", *words)
    assert (done.returncode, desk.pid()) == (1, "")
    assert "knob approve" in done.stderr
    with desk.open() as workspace:
        refused(lambda: workspace.restart(["gpu1/decode"], "service"), "asks for a signature")
        [plan] = workspace.plans().plans
    assert plan.planned.where == ("gpu1/decode",)
    assert desk.pid() == ""


def test_a_signed_restart_is_carried_out_once(desk: Stand) -> None:
    plan = desk.planned()
    refused(lambda: desk.apply(plan.id), "no go-ahead")
    desk.approve(plan.id, desk.owner)
    report = desk.apply(plan.id)
    assert report.restarted is not None
    assert report.restarted.done
    assert report.approval == "signature of owner@example.org"
    assert report.to_json()["restart"]["services"][0]["pids"] == [int(first := desk.pid())]
    refused(lambda: desk.apply(plan.id), "used already")
    with desk.open() as workspace:
        assert workspace.since(workspace.moment("1h"), None).to_json()["restarts"][0]["change"] is None
        with pytest.raises(KnobError, match="only restarts"):
            workspace.revert(plan.id, Options())
    assert desk.pid() == first


def test_what_people_see_of_it(desk: Stand) -> None:
    done = desk.knob("restart", "gpu1", "--scope", "dependents", "--plan", "--why", "new driver")
    assert done.returncode == 0, done.stderr
    for words in (("show", "@"), ("plans",), ("log",)):
        plan = desk.planned() if words == ("show", "@") else None
        shown = desk.knob(*((words[0], plan.id) if plan else words))
        assert shown.returncode == 0, shown.stderr
        assert "gpu1/decode" in shown.stdout
        if plan:
            assert "expected outage" in shown.stdout
    assert "new driver" in desk.knob("plans").stdout
    assert "policy: signed" in done.stdout


def test_the_strictest_of_all_services_in_the_scope(desk: Stand) -> None:
    assert isinstance(desk.wish("gpu1/router"), RestartPreview)
    assert isinstance(desk.wish("gpu1/decode", scope="dependents"), PlanReport)
    assert isinstance(desk.wish("gpu1/*"), PlanReport)


def test_a_change_of_a_free_file_that_restarts_a_guarded_service(desk: Stand) -> None:
    """`router` is free, and in one group with `decode`."""
    file = Path(f"{desk.script}.router")
    file.write_text("export KNOB=1\n")
    hosts = desk.root / "hosts.toml"
    hosts.write_text(hosts.read_text() + '[groups.all]\nservices = ["gpu1/*"]\n')
    done = desk.knob("set", "gpu1/router", "KNOB=2", "--restart", "group", "--go-ahead")
    assert (done.returncode, file.read_text(), desk.pid()) == (1, "export KNOB=1\n", "")
    with desk.open() as workspace:
        plan = workspace.set(["gpu1/router"], [Request("KNOB", "2")], Options(restart="group"))
    assert isinstance(plan, PlanReport)
    assert plan.planned.policy == "signed"
    assert desk.knob("set", "gpu1/router", "KNOB=2", "--restart", "service", "--go-ahead").returncode == 0
    assert desk.pid("router")
    assert desk.pid() == ""


def test_a_policy_that_was_loosened(desk: Stand) -> None:
    desk.hosts(policy="confirm")
    assert desk.knob("restart", "gpu1/decode", "--go-ahead").returncode == 1
    assert desk.pid() == ""


def test_another_start_command_since(desk: Stand) -> None:
    plan = desk.planned()
    desk.approve(plan.id, desk.owner)
    path = desk.root / "hosts.toml"
    path.write_text(path.read_text().replace("sleep 1000", "sleep 999"))
    with desk.open() as workspace:
        shown = workspace.show(plan.id)
    assert isinstance(shown, PlanReport)
    assert shown.stale
    refused(lambda: desk.apply(plan.id), "commands that start and stop gpu1/decode were changed")
    assert desk.pid() == ""


def test_two_persons(made: Callable[[str], Stand]) -> None:
    desk = made("two-person")
    plan = desk.planned()
    desk.approve(plan.id, desk.owner)
    refused(lambda: desk.apply(plan.id), "a second approver")
    desk.approve(plan.id, desk.other)
    desk.apply(plan.id)
    assert desk.pid()


def test_breaking_the_glass_stays_on_status(desk: Stand) -> None:
    desk.hosts(more='break_glass = ["owner@example.org"]')
    with desk.open() as workspace:
        workspace.trust_signers("", desk.owner)
    plan = desk.planned()
    desk.approve(plan.id, desk.owner, break_glass="it burns")
    desk.apply(plan.id)
    with desk.open() as workspace:
        assert workspace.status([], recorded=True).unreviewed == (plan.id,)
    desk.approve(plan.id, desk.other)
    with desk.open() as workspace:
        assert workspace.status([], recorded=True).unreviewed == ()


def test_plan_mode_plans_and_restarts_nothing(made: Callable[[str], Stand]) -> None:
    desk = made("confirm")
    with desk.open(KNOBLEDGER_MODE="plan") as workspace:
        with pytest.raises(PlanMode) as caught:
            workspace.restart_wish(["gpu1/decode"], "service")
        assert "--plan" in caught.value.hint
        for act in (
            lambda: workspace.restart(["gpu1/decode"], "service"),
            lambda: workspace.recover("finish"),
        ):
            with pytest.raises(PlanMode):
                act()
        plan = workspace.restart_wish(["gpu1/decode"], "service", plan=True)
        assert isinstance(plan, PlanReport)
        for act in (lambda: workspace.approve(plan.id, "flag"), lambda: workspace.apply(plan.id)):
            with pytest.raises(KnobError):
                act()
        assert not workspace.state.serving.chains
    assert desk.pid() == ""
    assert desk.knob("approve", plan.id).returncode == 0
    assert desk.knob("apply", plan.id).returncode == 0
    assert desk.pid()


def test_one_of_two_at_once(desk: Stand) -> None:
    plan = desk.planned()
    desk.approve(plan.id, desk.owner)
    codes: list[int] = []

    def apply() -> None:
        try:
            desk.apply(plan.id)
            codes.append(0)
        except KnobError as error:
            codes.append(error.exit_code)

    threads = [threading.Thread(target=apply) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes.count(0) == 1, codes
    with desk.open() as workspace:
        assert len(workspace.state.serving.chains) == 1


def chain(desk: Stand, plan: str | None, *services: str) -> None:
    """A restart that was begun and has no end, as a killed command leaves it, or somebody writes it."""
    with desk.open() as workspace:
        facts = workspace.desk.author.signs()
    befores = tuple(Before(service=name) for name in services)
    desk.forge(
        RestartStarted(
            **facts, cause="asked", scope="service", services=befores, plan=EventId(plan) if plan else None
        )
    )


def recovered(desk: Stand, how: str = "finish") -> str:
    with desk.open() as workspace:
        [one] = workspace.recover(how).restarts  # type: ignore[arg-type]
    return f"{one.outcome}: {one.message}"


def test_recover_finishes_what_was_signed(desk: Stand) -> None:
    plan = desk.planned()
    desk.approve(plan.id, desk.owner)
    chain(desk, plan.id, "gpu1/decode")
    refused(lambda: desk.apply(plan.id), "used already")
    assert recovered(desk, "roll back").startswith("failed: this restart belongs to no change")
    assert recovered(desk).startswith("finished")
    assert desk.pid()


def test_recover_finishes_nothing_that_was_not_signed(desk: Stand) -> None:
    chain(desk, None, "gpu1/decode")
    assert "nobody has signed for this restart" in recovered(desk)
    plan = desk.planned()
    chain(desk, plan.id, "gpu1/decode")
    with desk.open() as workspace:
        found = workspace.recover("finish").restarts
    assert [one.outcome for one in found] == ["failed", "failed"]
    assert desk.pid() == ""


def test_recover_does_not_do_again_what_was_done(desk: Stand) -> None:
    plan = desk.planned()
    desk.approve(plan.id, desk.owner)
    desk.apply(plan.id)
    first = desk.pid()
    chain(desk, plan.id, "gpu1/decode")
    assert "done already" in recovered(desk)
    assert desk.pid() == first


def test_recover_takes_back_only_what_was_signed_to_be(desk: Stand) -> None:
    plan = desk.plan(restart="service")
    desk.approve(plan.id, desk.owner)
    desk.apply(plan.id)
    assert not desk.untouched
    chain(desk, plan.id, "gpu1/decode")
    assert "was not signed with it" in recovered(desk, "roll back")
    assert not desk.untouched


def test_the_text_that_is_signed_says_what_is_done(desk: Stand) -> None:
    plan = desk.planned("gpu1", scope="dependents")
    text = approving.plan_text(plan.id, plan.planned, "signed").decode()
    assert 'service "gpu1/decode"' in text
    assert all(one.digest in text for one in plan.planned.services)
    with desk.open() as workspace:
        facts = workspace.desk.author.signs()
    desk.forge(Approved(**facts, plan=plan.id, source="signature of owner@example.org"))
    refused(lambda: desk.apply(plan.id), "is no signature")
