"""Each way to turn "may not act" into "did act" that somebody thought of, against real ssh-keygen signatures."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from signing_desk import OLD, Desk, refused

from knobledger import approving
from knobledger.author import Author
from knobledger.binding import Binding
from knobledger.drafting import Options
from knobledger.errors import KnobError
from knobledger.event import id_of, stamp
from knobledger.events.changes import Approved
from knobledger.hosts.config import Config
from knobledger.knobs import Request
from knobledger.report.plans import PlanReport
from knobledger.signing import sign

pytestmark = pytest.mark.tool("ssh-keygen", "git")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_signed_plan_is_applied_once(desk: Desk) -> None:
    plan = desk.plan()
    refused(lambda: desk.apply(plan.id), "no go-ahead")
    desk.approve(plan.id, desk.owner)
    report = desk.apply(plan.id)
    assert report.approval == "signature of owner@example.org"
    assert not desk.untouched
    refused(lambda: desk.apply(plan.id), "used already")


def test_a_key_in_ssh_agent(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("ssh-agent") is None:
        pytest.skip("needs ssh-agent: apt-get install openssh-client")
    socket = tmp_path / "agent"
    agent = subprocess.Popen(("ssh-agent", "-D", "-a", str(socket)), stdout=subprocess.DEVNULL)
    try:
        while not socket.exists():
            assert agent.poll() is None
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        subprocess.run(("ssh-add", "-q", desk.owner), check=True, capture_output=True)
        Path(desk.owner).unlink()
        plan = desk.plan()
        desk.approve(plan.id, f"{desk.owner}.pub")
        desk.apply(plan.id)
        assert not desk.untouched
    finally:
        agent.terminate()
        agent.wait()


@pytest.mark.parametrize(
    "words", [("--go-ahead",), ()], ids=["the flag (claude-code#47891)", "yes piped into the prompt"]
)
def test_no_flag_and_no_input_is_a_signature(desk: Desk, words: tuple[str, ...]) -> None:
    done = desk.knob("set", "gpu1/decode", "KNOB=512", *words)
    assert done.returncode == 1
    assert desk.untouched


@pytest.mark.tool("script")
@pytest.mark.parametrize("typed", ["y", "yes"])
def test_a_terminal_is_no_person(desk: Desk, typed: str) -> None:
    """ShieldCortex#502: an agent satisfied the terminal check with `script -qec`."""
    # Again and again, but not without end: a terminal that nobody reads from yet is full soon.
    typing = f"for n in 1 2 3 4 5 6 7 8; do echo {typed}; sleep 0.5; done"
    knob = f"{sys.executable} -m knobledger set gpu1/decode KNOB=512"
    line = f"{{ {typing}; }} | script -qec '{knob}' /dev/null"
    done = subprocess.run(
        ("sh", "-c", line), cwd=desk.root, capture_output=True, text=True, check=False, timeout=60
    )
    assert desk.untouched, done.stdout
    assert "signature" in done.stdout


@pytest.mark.tool("expect")
def test_expect_is_no_person(desk: Desk) -> None:
    plan = desk.plan()
    for words in ("set gpu1/decode KNOB=512", f"approve {plan.id}", f"apply {plan.id}"):
        # On lines of their own: else expect takes all of it for one pattern.
        talk = (
            f"set timeout 60\nspawn {sys.executable} -m knobledger {words}\n"
            'expect {\n -ex {Go ahead?} { send "y\\r"; exp_continue }\n timeout { exit 9 }\n eof\n}\n'
            "exit [lindex [wait] 3]\n"
        )
        done = subprocess.run(
            ("expect", "-c", talk), cwd=desk.root, capture_output=True, text=True, check=False, timeout=90
        )
        assert done.returncode == 1, done.stdout
        assert desk.untouched


@pytest.mark.parametrize(
    "env",
    [
        {"KNOBLEDGER_ACTOR": "owner@example.org"},
        {"KNOBLEDGER_MODE": "act"},
        {"KNOBLEDGER_ON_BEHALF_OF": "owner@example.org"},
        {"CI": "true", "KNOBLEDGER_APPROVED": "1", "KNOBLEDGER_GO_AHEAD": "1"},
    ],
)
def test_environment_variables(desk: Desk, env: dict[str, str]) -> None:
    plan = desk.plan()
    for words in (("approve", plan.id), ("apply", plan.id), ("set", "gpu1/decode", "KNOB=1", "--go-ahead")):
        assert desk.knob(*words, **env).returncode == 1
    assert desk.untouched


def test_an_approval_event_without_a_signature(desk: Desk) -> None:
    plan = desk.plan()
    with desk.open() as workspace:
        facts = workspace.desk.author.signs()
    desk.forge(
        Approved(
            **facts, plan=plan.id, source="signature of owner@example.org", principal="owner@example.org"
        )
    )
    refused(lambda: desk.apply(plan.id), "is no signature")
    assert desk.untouched


@pytest.mark.parametrize("namespace", ["git", "file", approving.SIGNERS_SPACE, approving.PLANNER_SPACE])
def test_a_signature_in_another_namespace(desk: Desk, namespace: str) -> None:
    plan = desk.plan()
    text = approving.plan_text(plan.id, plan.planned, "signed")
    _forged(desk, plan, sign(text, namespace, desk.owner))
    refused(lambda: desk.apply(plan.id))
    assert desk.untouched


def _forged(desk: Desk, plan: PlanReport, signature: str, **more: object) -> None:
    with desk.open() as workspace:
        facts = workspace.desk.author.signs()
    desk.forge(
        Approved(**facts, plan=plan.id, source="x", policy="signed", signature=signature, **more)  # type: ignore[arg-type]
    )


def test_the_approval_of_another_plan(desk: Desk) -> None:
    """atlantis#1508, GrowthBook#6859: what is approved is exact bytes."""
    good, bad = desk.plan("300"), desk.plan("512")
    desk.approve(good.id, desk.owner)
    with desk.open() as workspace:
        signature = workspace.state.plans[good.id].approvals[0][1].signature
    _forged(desk, bad, signature)
    refused(lambda: desk.apply(bad.id))
    assert desk.untouched


def test_an_edited_plan(desk: Desk) -> None:
    plan = desk.plan("300")
    desk.approve(plan.id, desk.owner)
    [path] = desk.root.rglob(f"{plan.id}.json")
    path.write_bytes(path.read_bytes().replace(b'"after":"300"', b'"after":"512"'))
    with pytest.raises(KnobError) as caught:
        desk.apply(plan.id)
    assert caught.value.exit_code in (1, 30)
    assert desk.untouched


RESTARTABLE = 'start = "true"\nstop = "true"\npid = "true"\n'


def test_a_changed_restart_scope(desk: Desk) -> None:
    """The scope is signed: neither the edited event nor a new one with the old signature is applied."""
    hosts = desk.root / "hosts.toml"
    hosts.write_text(hosts.read_text() + RESTARTABLE)
    plan = desk.plan()
    desk.approve(plan.id, desk.owner)
    with desk.open() as workspace:
        signature = workspace.state.plans[plan.id].approvals[0][1].signature
        facts = workspace.desk.author.signs()
    [path] = desk.root.rglob(f"{plan.id}.json")
    before = path.read_bytes()
    wider = before.replace(b'"restart":"none"', b'"restart":"service"')
    assert wider != before
    other = id_of(wider)
    path.with_name(f"{other}.json").write_bytes(wider)
    desk.forge(Approved(**facts, plan=other, source="x", policy="signed", signature=signature))
    refused(lambda: desk.apply(other), "no go-ahead that the policy 'signed' accepts")
    path.with_name(f"{other}.json").unlink()
    path.write_bytes(wider)
    with pytest.raises(KnobError) as caught:
        desk.apply(plan.id)
    assert caught.value.exit_code in (1, 30)
    assert desk.untouched


@pytest.mark.parametrize(
    ("line", "now"),
    [
        ('transport = "openssh"\naddress = "192.0.2.7"', "'openssh 192.0.2.7'"),
        ('transport = "local"\nsudo = true', "'local with sudo'"),
    ],
)
def test_another_way_to_the_host(desk: Desk, line: str, now: str) -> None:
    """An address that was pointed elsewhere would carry an approved plan to another machine."""
    plan = desk.plan()
    desk.approve(plan.id, desk.owner)
    hosts = desk.root / "hosts.toml"
    hosts.write_text(hosts.read_text().replace('transport = "local"', line))
    refused(lambda: desk.apply(plan.id), f"is reached by {now} now", "was made for 'local'")
    assert desk.untouched


def test_the_ways_to_a_host(tmp_path: Path) -> None:
    (tmp_path / "hosts.toml").write_text(
        '[hosts.a]\naddress = "gpu1.example.org"\nport = 2222\nuser = "root"\nidentity_file = "k"\n'
        '[hosts.b]\ntransport = "openssh"\nssh_config = "conf"\nsudo = true\n'
    )
    binding = Binding(Config.load(tmp_path), lambda name: pytest.fail(name))
    assert binding.way("a") == "fabric root@gpu1.example.org:2222"
    assert binding.way("b") == "openssh b by conf with sudo"


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (
            RESTARTABLE.replace('start = "true"', 'start = "false"'),
            ("commands that start and stop gpu1/decode",),
        ),
        (
            RESTARTABLE + '[groups.pd]\nservices = ["gpu1/decode", "gpu1/router"]\n'
            '[hosts.gpu1.services.router]\nscript = "/x"\n' + RESTARTABLE,
            ("would take gpu1/decode, gpu1/router now", "was made for gpu1/decode"),
        ),
    ],
)
def test_what_is_restarted_was_changed(desk: Desk, now: str, words: tuple[str, ...]) -> None:
    hosts = desk.root / "hosts.toml"
    before = hosts.read_text()
    hosts.write_text(before + RESTARTABLE)
    plan = desk.plan(restart="group")
    desk.approve(plan.id, desk.owner)
    hosts.write_text(before + now)
    with desk.open() as workspace:
        if len(words) > 1:
            workspace.trust_signers("", desk.owner)
    refused(lambda: desk.apply(plan.id), *words)
    with desk.open() as workspace:
        shown = workspace.show(plan.id)
        [listed] = workspace.plans(live=True).plans
    assert isinstance(shown, PlanReport)
    for report in (shown, listed):
        assert report.stale
        assert words[0] in report.stale_because
    assert desk.untouched
    hosts.write_text(before + RESTARTABLE)


def test_a_replayed_approval_after_the_revert(desk: Desk) -> None:
    """terraform#24078, atlantis#1122: the same plan applied twice."""
    plan = desk.plan()
    desk.approve(plan.id, desk.owner)
    desk.apply(plan.id)
    with desk.open() as workspace:
        back = workspace.revert(plan.id, Options())
    assert isinstance(back, PlanReport)
    desk.approve(back.id, desk.owner)
    desk.apply(back.id)
    assert desk.untouched
    with desk.open() as workspace:
        signature = workspace.state.plans[plan.id].approvals[0][1].signature
    _forged(desk, plan, signature)
    refused(lambda: desk.apply(plan.id), "used already")
    assert desk.untouched


def test_a_key_that_nobody_allowed(desk: Desk) -> None:
    plan = desk.plan()
    refused(lambda: desk.approve(plan.id, desk.mallory), "no key that allowed_signers knows")
    text = approving.plan_text(plan.id, plan.planned, "signed")
    _forged(desk, plan, sign(text, approving.PLAN_SPACE, desk.mallory))
    refused(lambda: desk.apply(plan.id))
    assert desk.untouched


def test_an_approver_added_to_the_file(desk: Desk) -> None:
    """The file as it was recorded counts; a change of it needs a signature by somebody allowed before."""
    plan = desk.plan()
    desk.signers("owner", "other", "mallory")
    refused(lambda: desk.approve(plan.id, desk.mallory), "was changed since it was recorded")
    refused(lambda: desk.approve(plan.id, desk.owner), "was changed since it was recorded")
    with desk.open() as workspace:
        refused(lambda: workspace.trust_signers("", ""), "needs a signature")
        refused(lambda: workspace.trust_signers("", desk.mallory))
    assert desk.untouched
    with desk.open() as workspace:
        report = workspace.trust_signers("", desk.owner)
    assert "signed by owner@example.org" in report.by
    desk.approve(plan.id, desk.mallory)
    desk.apply(plan.id)


def test_a_first_trust_put_in_under_an_old_date(desk: Desk) -> None:
    """This clone remembers which one it saw first."""
    from knobledger.events.approving import SignersTrusted
    from knobledger.names import digest_of

    desk.signers("mallory")
    content = (desk.root / "allowed_signers").read_text()
    old = SignersTrusted(
        at=stamp(datetime.now(UTC) - timedelta(days=300)),
        actor="owner",
        digest=digest_of(content.encode()),
        content=content,
        policies='{"break_glass":[],"targets":{}}',
    )
    plan = desk.plan()
    desk.forge(old)
    refused(lambda: desk.approve(plan.id, desk.mallory), "was changed since it was recorded")
    assert desk.untouched


def test_a_revoked_and_an_expired_key(desk: Desk) -> None:
    plan = desk.plan()
    desk.approve(plan.id, desk.owner)
    desk.signers("other")
    with desk.open() as workspace:
        workspace.trust_signers("", desk.other)
    refused(lambda: desk.apply(plan.id), "no key that allowed_signers knows")
    desk.signers("owner", options='valid-before="20200101" ')
    with desk.open() as workspace:
        workspace.trust_signers("", desk.other)
    refused(lambda: desk.apply(plan.id))
    assert desk.untouched


def test_a_policy_that_was_loosened(desk: Desk) -> None:
    desk.hosts(policy="confirm")
    plan = desk.plan()
    assert desk.knob("approve", plan.id).returncode == 1
    assert desk.knob("set", "gpu1/decode", "KNOB=1", "--go-ahead").returncode == 1
    assert desk.untouched


def test_a_symlink_turned_between_approval_and_apply(desk: Desk) -> None:
    real, other = desk.script.with_name("real.sh"), desk.script.with_name("other.sh")
    desk.script.rename(real)
    other.write_bytes(OLD)
    desk.script.symlink_to(real)
    plan = desk.plan()
    desk.approve(plan.id, desk.owner)
    desk.script.unlink()
    desk.script.symlink_to(other)
    refused(lambda: desk.apply(plan.id), "leads to", "other.sh")
    assert real.read_bytes() == other.read_bytes() == OLD


def test_another_file_in_hosts_toml(desk: Desk) -> None:
    plan = desk.plan()
    desk.approve(plan.id, desk.owner)
    other = desk.script.with_name("other.sh")
    other.write_bytes(OLD)
    desk.hosts(path=other)
    refused(lambda: desk.apply(plan.id), "was made for")
    assert other.read_bytes() == OLD


def test_the_bytes_changed(desk: Desk) -> None:
    plan = desk.plan()
    desk.approve(plan.id, desk.owner)
    theirs = OLD + b"# by hand\n"
    desk.script.write_bytes(theirs)
    refused(lambda: desk.apply(plan.id))
    assert desk.script.read_bytes() == theirs


def test_the_clock_set_back(desk: Desk) -> None:
    plan = desk.plan(expires_in=timedelta(hours=1))
    desk.approve(plan.id, desk.owner)
    with desk.open() as workspace:
        workspace.desk.author = Author("owner", now=lambda: datetime.now(UTC) + timedelta(hours=2))
        workspace.note("two hours later", None)
    refused(lambda: desk.apply(plan.id), "expired")
    assert desk.untouched


@pytest.mark.parametrize("tries", [int(os.environ.get("KNOB_APPLY_RACES", "6"))])
def test_two_applies_at_once(desk: Desk, tries: int) -> None:
    """Exactly one wins. `make faults` tries 200 times."""
    for n in range(tries):
        plan = desk.plan(str(1000 + n))
        desk.approve(plan.id, desk.owner)
        codes: list[int] = []

        def apply(plan_id: str = plan.id, codes: list[int] = codes) -> None:
            try:
                desk.apply(plan_id)
                codes.append(0)
            except KnobError as error:
                codes.append(error.exit_code)

        threads = [threading.Thread(target=apply) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert codes.count(0) == 1, codes
        assert set(codes) <= {0, 1, 10, 11}
        assert f"KNOB={1000 + n}".encode() in desk.script.read_bytes()


def test_two_persons(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "two-person")
    git = ("git", "-C", str(desk.root), "config", "user.signingkey")
    subprocess.run(("git", "init", "-q", str(desk.root)), check=True)
    subprocess.run((*git, desk.owner), check=True)
    plan = desk.plan(actor="somebody")
    assert plan.planned.signature
    desk.approve(plan.id, desk.owner)
    refused(lambda: desk.apply(plan.id), "nobody but its planner")
    desk.approve(plan.id, desk.other, actor="owner")
    assert desk.apply(plan.id).approval == "signature of other@example.org"


def test_two_persons_behind_a_plan_that_nobody_signed(tmp_path: Path) -> None:
    """An agent without a key planned it: then two persons have to approve it."""
    desk = Desk(tmp_path, "two-person")
    plan = desk.plan()
    assert not plan.planned.signature
    desk.approve(plan.id, desk.owner)
    refused(lambda: desk.apply(plan.id), "a second approver")
    desk.approve(plan.id, desk.owner)
    refused(lambda: desk.apply(plan.id), "a second approver")
    desk.approve(plan.id, desk.other)
    desk.apply(plan.id)
    assert not desk.untouched


@pytest.mark.parametrize("name", ["actor", "on_behalf_of"])
def test_two_persons_the_one_it_is_for(tmp_path: Path, name: str) -> None:
    desk = Desk(tmp_path, "two-person")
    env = {"KNOBLEDGER_ON_BEHALF_OF": "owner@example.org"} if name == "on_behalf_of" else {}
    with desk.open("owner@example.org" if name == "actor" else "agent", **env) as workspace:
        plan = workspace.set(["gpu1/decode"], [Request("KNOB", "512")], Options())
    assert isinstance(plan, PlanReport)
    refused(lambda: desk.approve(plan.id, desk.owner), "somebody else has to approve")


def test_breaking_the_glass(desk: Desk) -> None:
    plan = desk.plan()
    refused(lambda: desk.approve(plan.id, desk.owner, break_glass="it burns"), "may not break the glass")
    desk.hosts(more='break_glass = ["owner@example.org"]')
    refused(lambda: desk.approve(plan.id, desk.owner, break_glass="it burns"), "may not break the glass")
    with desk.open() as workspace:
        workspace.trust_signers("", desk.owner)
    refused(lambda: desk.approve(plan.id, desk.other, break_glass="it burns"), "may not break the glass")
    desk.approve(plan.id, desk.owner, break_glass="it burns")
    desk.apply(plan.id)
    with desk.open() as workspace:
        assert workspace.status([], recorded=True).unreviewed == (plan.id,)
    refused(lambda: desk.approve(plan.id, desk.owner), "somebody else has to review")
    desk.approve(plan.id, desk.other)
    with desk.open() as workspace:
        assert workspace.status([], recorded=True).unreviewed == ()


def test_the_glass_is_not_broken_under_confirm(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "confirm")
    plan = desk.plan()
    with pytest.raises(KnobError, match="no glass to break"):
        desk.approve(plan.id, desk.owner, break_glass="it burns")
