"""The composition root: opens a folder and offers one method per verb.

Methods return report values; they print nothing and ask nothing. A workspace is a context manager:
leaving it commits what was written to git, in one commit, and lets the connections go.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self
from zoneinfo import ZoneInfo

from knobledger import looking
from knobledger.apply import attempt, ready, settle
from knobledger.drafting import Desk, Draft, Options, draft_content, draft_edit, look
from knobledger.errors import KnobError, NotApproved, PlanMode, Refused, Unknown, Usage
from knobledger.event import Approved, Noted, Planned, Rejected
from knobledger.hosts.config import Config, HostConfig, Target
from knobledger.hosts.connect import connect as connect_host
from knobledger.hosts.host import Host
from knobledger.hosts.readonly import ReadOnly
from knobledger.knobs import Masker, Request
from knobledger.ledger.key import key
from knobledger.ledger.snapshots import Snapshots
from knobledger.ledger.store import Ledger
from knobledger.moment import Resolved, parse
from knobledger.names import EventId, TargetName, short
from knobledger.plan import PlannedFile, Verb
from knobledger.report.changes import Blame, Log, Since
from knobledger.report.plans import NothingToDo, PlanReport, plan_report
from knobledger.report.status import Status
from knobledger.report.upkeep import Backups, Difference, Indexed, Plans, Recovered, Verified
from knobledger.state import Plan, State
from knobledger.syntax import complaint
from knobledger.undoing import change_of_backup, change_to_restore, change_to_revert, draft_undo
from knobledger.who import author

Connect = Callable[[HostConfig, Path], Host]


class Workspace:
    """A folder with `hosts.toml`, `ledger/` and `templates/`, opened for one command."""

    def __init__(
        self, root: Path, env: Mapping[str, str], *, on_behalf_of: str = "", connect: Connect | None = None
    ) -> None:
        self.root = root
        self.config = Config.load(root)
        self.env = env
        self.notes: list[str] = []
        """sentences for the footer of the command"""
        self._on_behalf_of = on_behalf_of
        self._connect = connect or (lambda host, root: connect_host(host, root=root))
        self._hosts: dict[str, Host] = {}

    @classmethod
    def open(
        cls,
        directory: Path | None,
        env: Mapping[str, str],
        *,
        on_behalf_of: str = "",
        connect: Connect | None = None,
    ) -> Self:
        """The workspace named, else `KNOBLEDGER_WORKSPACE`, else the nearest folder upwards with a `hosts.toml`."""
        named = directory or (Path(env["KNOBLEDGER_WORKSPACE"]) if env.get("KNOBLEDGER_WORKSPACE") else None)
        if named is not None:
            if not (named / "hosts.toml").is_file():
                raise Unknown(
                    f"{os.fspath(named)!r} is no workspace: it has no hosts.toml", hint=f"`knob init {named}`"
                )
            return cls(named.resolve(), env, on_behalf_of=on_behalf_of, connect=connect)
        here = Path.cwd()
        for folder in (here, *here.parents):
            if (folder / "hosts.toml").is_file():
                return cls(folder, env, on_behalf_of=on_behalf_of, connect=connect)
        raise Unknown(
            f"no workspace here: neither {os.fspath(here)!r} nor a folder above it has a hosts.toml",
            hint="`knob init` makes one here; `knob -C DIR ...` names another",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for host in self._hosts.values():
            host.close()
        self._commit()

    def _commit(self) -> None:
        if "desk" not in self.__dict__ or not self.desk.ledger.written:
            return
        from knobledger.ledger.history import commit

        events = [self.state.events[id_] for id_ in self.desk.ledger.written]
        subject = next(
            (f"{e.verb} {e.files[0].target}" for e in events if isinstance(e, Planned)), events[0].kind
        )
        done = commit(self.root, self.desk.ledger.written, f"ledger: {subject}")
        self.desk.ledger.written.clear()
        if done.note:
            self.notes.append(done.note)

    # -- what a verb needs -------------------------------------------------

    @cached_property
    def planning_only(self) -> bool:
        """Plan mode: either source suffices, and nothing in the environment can leave what hosts.toml says."""
        return self.config.workspace.mode == "plan" or self.env.get("KNOBLEDGER_MODE") == "plan"

    @cached_property
    def desk(self) -> Desk:
        """The ledger with its state, and who writes; read once per command."""
        zone = self.config.workspace.timezone or ""
        ledger = Ledger(self.root)
        return Desk(
            ledger=ledger,
            snapshots=Snapshots(self.root),
            state=State.of((stored.id, stored.event) for stored in ledger.events()),
            masker=self.masker,
            author=author(self.root, self.env, on_behalf_of=self._on_behalf_of, zone=zone),
            syntax=complaint,
        )

    @cached_property
    def masker(self) -> Masker:
        """Masks secrets with the workspace's own key."""
        secrets = self.config.secrets
        return Masker(key(self.root), add=secrets.add, keep=secrets.keep)

    @property
    def state(self) -> State:
        """Everything derived from the ledger."""
        return self.desk.state

    @property
    def now(self) -> datetime:
        """The moment, by the author's clock."""
        return self.desk.author.now()

    def host(self, name: str, *, fresh: bool = False) -> Host:
        """The connection to a host, opened at first use and kept; read-only in plan mode."""
        if fresh and name in self._hosts:
            self._hosts.pop(name).close()
        if name not in self._hosts:
            host = self._connect(self.config.hosts[name], self.root)
            self._hosts[name] = ReadOnly(host) if self.planning_only else host
        return self._hosts[name]

    def targets(self, names: Sequence[str]) -> list[tuple[Target, Host]]:
        """Targets by name, glob or group, each with its host; connecting begins at once, in the background."""
        return [(target, self.host(target.host)) for target in self.config.targets(names)]

    def find_change(self, text: str) -> EventId:
        """A change by `@`, `@-`, an id or a prefix of it, or the id of an event about it. Raises `Unknown`."""
        changes = self.state.changes
        if text.startswith("@") and set(text[1:]) <= {"-"}:
            back = len(text)
            if back > len(changes):
                raise Unknown(
                    f"there is no change {text!r}: the ledger has {len(changes)}", hint="see `knob log`"
                )
            return changes[-back]
        plan = self.find_plan(text)
        if not plan.is_change:
            raise Unknown(
                f"{short(plan.id)} is a plan that was never applied, not a change",
                hint=f"see `knob show {short(plan.id)}`",
            )
        return plan.id

    def find_plan(self, text: str) -> Plan:
        """A plan by id or prefix, or by an event about it. Raises `Unknown`."""
        id_ = self.desk.ledger.resolve(text)
        about = id_ if id_ in self.state.plans else getattr(self.state.events[id_], "plan", None)
        if about is None or about not in self.state.plans:
            raise Unknown(
                f"{short(id_)} is an entry of kind {self.state.events[id_].kind!r}, neither a plan nor a change",
                hint=f"see `knob show {short(id_)}`",
            )
        return self.state.plans[about]

    # -- changing ----------------------------------------------------------

    def set(
        self, targets: Sequence[str], requests: Sequence[Request], options: Options
    ) -> PlanReport | NothingToDo:
        """Plans knob values (or, with None, their absence) on targets."""
        verb: Verb = "unset" if all(request.value is None for request in requests) else "set"
        if not requests:
            raise Usage("no knob was named", hint="`knob set TARGET NAME=VALUE`")
        return self._drafted(draft_edit(self.desk, verb, self.targets(targets), requests, options))

    def edit(
        self, target: str, editor: Callable[[bytes, str], bytes], options: Options
    ) -> PlanReport | NothingToDo:
        """Plans a whole file as `editor` returns it; it is given the live bytes and the file's name."""
        [(where, host)] = self._only(target)
        seen = look(self.desk, where, host)
        content = editor(seen.remote.content, Path(where.path).name)
        return self._drafted(draft_content(self.desk, seen, content, options))

    def revert(self, change: str, options: Options) -> PlanReport | NothingToDo:
        """Plans the undoing of a change."""
        return self._undo("revert", change_to_revert(self.state, self.find_change(change)), options)

    def restore(self, what: str, options: Options) -> PlanReport | NothingToDo:
        """Plans the undoing of a revert, named by itself, by the change it took back, or by a backup's name."""
        found = change_of_backup(self.state, what)
        if found is None and what.endswith(".bak"):
            raise Unknown(f"no recorded backup has the name {what!r}", hint="`knob backups TARGET` lists them")
        found = found or self.find_change(what)
        return self._undo("restore", change_to_restore(self.state, found), options)

    def _undo(self, verb: Verb, change: EventId, options: Options) -> PlanReport | NothingToDo:
        plan = self.state.plans[change]
        applied = [a.started.target for a in plan.attempts if a.succeeded]
        return self._drafted(draft_undo(self.desk, verb, change, self.targets(applied), options))

    def _only(self, target: str) -> list[tuple[Target, Host]]:
        found = self.targets([target])
        if len(found) != 1:
            raise Usage(f"{target!r} stands for {len(found)} targets; this command takes one")
        return found

    def _drafted(self, draft: Draft) -> PlanReport | NothingToDo:
        if draft.plan is None:
            return NothingToDo(tuple(seen.target.name for seen in draft.seen), draft.remarks)
        return plan_report(
            self.state, self.state.plans[draft.plan], self.now, stale=False, remarks=draft.remarks
        )

    def approve(self, plan: str, source: str) -> PlanReport:
        """Records a go-ahead for one plan, with what stands behind it."""
        found = self.find_plan(plan)
        name = short(found.id)
        if self.planning_only:
            raise PlanMode(
                "plan mode: looking and planning is allowed, a go-ahead is not",
                hint=f"somebody who may act: `knob approve {name}`, then `knob apply {name}`",
                plan=found.id,
            )
        policy = found.planned.policy
        if policy != "confirm":
            raise NotApproved(
                f"the policy of this target is {policy!r}: a go-ahead needs a signature, and this version can't check one",
                hint="the plan stays open",
                plan=found.id,
            )
        if found.status(self.now) not in ("open", "approved"):
            ready(self.desk, found)
        if not found.approvals:
            self.desk.write(Approved(**self.desk.author.signs(), plan=found.id, source=source))
        return plan_report(self.state, found, self.now)

    def reject(self, plan: str, why: str) -> PlanReport:
        """Turns a plan down, for good."""
        found = self.find_plan(plan)
        if found.status(self.now) not in ("open", "approved"):
            ready(self.desk, found)
        self.desk.write(Rejected(**self.desk.author.signs(), plan=found.id, why=self.masker.text(why)))
        return plan_report(self.state, found, self.now)

    def apply(self, plan: str) -> PlanReport:
        """Applies an approved plan, target by target, stopping at the first that fails.

        With one target its error is raised; with several the report carries each outcome.
        """
        found = self.find_plan(plan)
        ready(self.desk, found)
        failures: dict[TargetName, KnobError] = {}
        differences: dict[TargetName, tuple[str, ...]] = {}
        for file in found.planned.files:
            target = self.config.target(file.target)
            try:
                self._apply_to(found, file, target, differences)
            except KnobError as error:
                if len(found.planned.files) == 1:
                    raise
                failures[file.target] = error
                break
        return plan_report(self.state, found, self.now, failures=failures, differences=differences)

    def _apply_to(
        self, plan: Plan, file: PlannedFile, target: Target, differences: dict[TargetName, tuple[str, ...]]
    ) -> None:
        host = self.host(target.host)
        attempt(self.desk, plan, target, host, lambda: self.host(target.host, fresh=True))
        if file.backup and not file.clean:
            differences[target.name] = looking.differences(self.desk, host, file, target)

    # -- looking -----------------------------------------------------------

    def plans(self) -> Plans:
        """Plans that wait: open, approved, in doubt; newest first."""
        return looking.plans(self.state, self.now)

    def show(self, text: str) -> PlanReport | Log:
        """A plan or change in full; of another event, that event."""
        if text.startswith("@"):
            return self._shown(self.state.plans[self.find_change(text)])
        id_ = self.desk.ledger.resolve(text)
        if id_ in self.state.plans:
            return self._shown(self.state.plans[id_])
        return looking.entry(self.state, id_)

    def _shown(self, plan: Plan) -> PlanReport:
        stale = None
        if plan.status(self.now) in ("open", "approved"):
            try:
                stale = any(
                    self.host(target.host).read(target.path).digest != file.base
                    for file in plan.planned.files
                    for target in [self.config.target(file.target)]
                )
            except KnobError as error:
                self.notes.append(f"whether the plan is stale could not be looked up: {error.message}")
        return plan_report(self.state, plan, self.now, stale=stale)

    def status(self, targets: Sequence[str], *, recorded: bool = False) -> Status:
        """The knobs of targets (default: all) with who set them; live unless `recorded`."""
        wanted = self.config.targets(targets or ["*"]) if self.config.hosts else ()
        return looking.status(self.desk, wanted, None if recorded else self.host)

    def since(
        self, start: Resolved, until: Resolved | None, target: str | None = None, *, live: bool = False
    ) -> Since:
        """What changed between two moments, oldest first; `live` asks the hosts for drift, too."""
        only = self.config.target(target) if target else None
        wanted = (only,) if only else (self.config.targets(["*"]) if self.config.hosts else ())
        return looking.since(
            self.desk, start, until, only.name if only else None, wanted, self.host if live else None
        )

    def log(self, query: looking.Query) -> Log:
        """Events that match, newest first, by the SQL index."""
        return looking.log(self.desk, query)

    def blame(self, target: str) -> Blame:
        """Each line of a target with the entry that brought it."""
        [(where, host)] = self._only(target)
        return looking.blame(self.desk, where, host)

    def diff(self, target: str, a: str | None, b: str | None) -> Difference:
        """The difference of two states of a target (a change, a backup, `live`), or of two targets."""
        [(where, _)] = self._only(target)
        other = None
        if a and "/" in a and change_of_backup(self.state, a) is None:
            [(other, _)] = self._only(a)
            a = "live"
        return looking.diff(self.desk, where, self.host, a, b, other)

    def backups(self, target: str) -> Backups:
        """The backups of a target, recorded ones and others, as they lie on the host."""
        [(where, host)] = self._only(target)
        return looking.backups(self.desk, where, host)

    # -- upkeep ------------------------------------------------------------

    def recover(self) -> Recovered:
        """Settles every attempt in doubt by a fresh look at its host."""
        if self.planning_only:
            raise PlanMode("plan mode: nothing is settled", hint="somebody who may act: `knob recover`")
        settled, unsettled = [], []
        for doubt in self.state.in_doubt():
            started = doubt.started
            try:
                target = self.config.target(started.target)
                outcome = settle(self.desk, doubt, target, self.host(target.host)).outcome
                settled.append((started.plan, started.target, outcome))
            except KnobError as error:
                unsettled.append((started.plan, started.target, error.message, error.exit_code))
        self.desk.ledger.tidy()
        return Recovered(tuple(settled), tuple(unsettled))

    def verify(self) -> Verified:
        """Whether the ledger on disk, its snapshots and its git history are what was written."""
        from knobledger.ledger.verify import TAIL_NOTE, verify

        return Verified(verify(Ledger(self.root)), TAIL_NOTE)

    def index(self, *, rebuild: bool) -> Indexed:
        """Brings the SQL index up to date, or makes it anew."""
        from knobledger.ledger.index import Index

        index = Index(Ledger(self.root))
        return Indexed(index.rebuild() if rebuild else len(index.find()), rebuild)

    def moment(self, text: str) -> Resolved:
        """A WHEN, in the workspace's zone or else the operator's. Raises `Usage`."""
        return parse(text, now=self.now, zone=ZoneInfo(self.desk.author.zone))

    def note(self, text: str, about: str | None) -> Log:
        """Free text in the ledger, about an entry or about nothing."""
        if not text.strip():
            raise Refused("the note is empty", hint="`knob note TEXT`")
        on = self.find_change(about) if about and about.startswith("@") else None
        on = on or (self.desk.ledger.resolve(about) if about else None)
        id_ = self.desk.write(Noted(**self.desk.author.signs(), text=self.masker.text(text), about=on))
        return looking.entry(self.state, id_)
