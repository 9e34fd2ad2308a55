"""A workspace opened for one command: its config, ledger, hosts and author; what the verbs stand on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self
from zoneinfo import ZoneInfo

from knobledger.author import Author
from knobledger.binding import Binding
from knobledger.collecting import no_collection
from knobledger.drafting import Desk
from knobledger.errors import KnobError, Refused, Unknown, Usage
from knobledger.events.changes import Planned
from knobledger.finding import workspace_folder
from knobledger.folds.plans import Plan
from knobledger.hosts.config import Config, Target
from knobledger.hosts.connect import connect as connect_host
from knobledger.hosts.host import Host
from knobledger.hosts.reach import HostConfig
from knobledger.hosts.readonly import ReadOnly
from knobledger.knobs import Masker
from knobledger.ledger.key import key
from knobledger.ledger.snapshots import Snapshots
from knobledger.ledger.store import Ledger
from knobledger.moment import Resolved, parse
from knobledger.names import EventId, short, steps_back
from knobledger.services.progress import Progress, Silent
from knobledger.state import State
from knobledger.syntax import complaint
from knobledger.watch import Unwatched, Watch
from knobledger.who import author, signing_key

if TYPE_CHECKING:
    from knobledger.ledger.history import Looked
    from knobledger.ledger.replica import Replica
    from knobledger.ledger.working import WorkingExcerpt

Connect = Callable[[HostConfig, Path], Host]


class Opening:
    """A folder with `hosts.toml`, `ledger/` and `templates/`, opened for one command.

    A context manager: leaving it lets the connections go and commits what was written, in one commit.
    """

    def __init__(
        self, root: Path, env: Mapping[str, str], *, on_behalf_of: str = "", connect: Connect | None = None
    ) -> None:
        self.root = root
        self.config = Config.load(root)
        self.env = env
        self.notes: list[str] = []
        """sentences for the footer of the command"""
        self.progress: Progress = Silent()
        """told the steps of what takes long"""
        self.watch: Watch = Unwatched()
        """is told which hosts are waited for"""
        self.from_replica = False
        """set before the ledger is first asked for: it is read from the replica then"""
        self._on_behalf_of = on_behalf_of
        self._connect = connect or (lambda host, root: connect_host(host, root=root))
        self._hosts: dict[str, Host] = {}
        self._looked: Callable[[], Looked | None] | None = None
        self._excerpt: State | None = None
        """what the footer is made from where the question needed only a part of the ledger"""
        self._known: WorkingExcerpt | None = None
        """what of the ledger the desk knows (`verbs/knowing.py`); None: all of it, or nothing yet"""

    @classmethod
    def open(
        cls,
        directory: Path | None,
        env: Mapping[str, str],
        *,
        on_behalf_of: str = "",
        connect: Connect | None = None,
    ) -> Self:
        """See `workspace_folder`, which finds it."""
        return cls(workspace_folder(directory, env), env, on_behalf_of=on_behalf_of, connect=connect)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for host in self._hosts.values():
            host.close()
        written = list(self.desk.ledger.written) if "desk" in self.__dict__ else []
        self._commit()
        self._say_what_waits()
        if self.config.file.notify:
            self._tell(written)

    def _tell(self, written: Sequence[EventId]) -> None:
        """Tells the webhooks what happened, and what is about to. Never fails a command."""
        from knobledger import notices, notifying

        with suppress(KnobError):
            mask = self.masker.text
            found = [notices.notice_of(self.state, id_, mask) for id_ in written]
            told = [notice for notice in found if notice] + notices.expiring(self.footing, self.now, mask)
            self.notes.extend(notifying.tell(self.root, self.config.file.notify, told))

    def _say_what_waits(self) -> None:
        """Under every command: changes that put themselves back. A ledger that can't be read has been said already."""
        with suppress(KnobError):
            if self.footing.not_put_back():
                from knobledger.report.pending import not_put_back, promises_not_kept

                self.notes.extend(map(not_put_back, promises_not_kept(self.footing)))
            if waiting := self.footing.pending():
                from knobledger.report.pending import footer

                self.notes.extend(footer(pending, self.now) for pending in waiting)
            self._remind()

    def _remind(self) -> None:
        """What is owed, for the footer of every command."""
        serving = self.footing.serving
        if owed := sorted({one.service for one in serving.owed.values()}):
            from knobledger.report.serving import owed_notes

            self.notes.extend(owed_notes(owed, self.config))
        for name, outcome in sorted(serving.unhealthy.items()):
            self.notes.append(f"{name} was {outcome.outcome} when it was last restarted")
        for chain in serving.in_the_middle():
            from knobledger.services.working import worked_on

            if not worked_on(chain.started):
                self.notes.append(
                    f"restart {short(chain.id)} has no end in the ledger: `knob recover` says what is up"
                )

    def _commit(self) -> None:
        if "desk" not in self.__dict__ or not self.desk.ledger.written:
            return
        from knobledger.ledger.history import commit

        looked = self._looked() if self._looked else None
        done = commit(self.root, self.desk.ledger.written, self._subject(), looked=looked)
        self.desk.ledger.written.clear()
        if done.note:
            self.notes.append(done.note)
        self.catch_up()

    def will_commit(self) -> None:
        """Has git asked what a commit needs to know, while the hosts are at work."""
        from knobledger.ledger.history import look_ahead

        self._looked = look_ahead(self.root)

    def catch_up(self) -> None:
        """Writes to the replica what it lacks, if there is one; that it can't be reached is no more than a note."""
        if self.config.file.ledger.replica is None:
            return
        replica = self.replica()
        try:
            replica.catch_up(Ledger(self.root))
        except KnobError as error:
            self.notes.append(f"the replica is behind: {error.message}; a later command catches up")
        finally:
            replica.close()

    def _subject(self) -> str:
        """What the command did, for the git commit: the plan that its events are about."""
        events = [self.state.events[id_] for id_ in self.desk.ledger.written]
        kinds = ", ".join(dict.fromkeys(event.kind.replace("_", " ") for event in events))
        for id_, event in zip(self.desk.ledger.written, events, strict=True):
            about = id_ if isinstance(event, Planned) else getattr(event, "plan", None)
            if about in self.state.plans:
                planned = self.state.plans[about].planned
                more = f" and {len(planned.where) - 1} more" if len(planned.where) > 1 else ""
                return f"{planned.verb} {planned.where[0]}{more}: {kinds} {short(about)}"
        return f"ledger: {kinds}"

    # -- what a verb needs -------------------------------------------------

    @cached_property
    def planning_only(self) -> bool:
        """Plan mode: either source suffices, and nothing in the environment can leave what hosts.toml says."""
        return self.config.workspace.mode == "plan" or self.env.get("KNOBLEDGER_MODE") == "plan"

    @cached_property
    def ledger(self) -> Ledger:
        """The event files, or the replica where the command asks for it."""
        if not self.from_replica:
            return Ledger(self.root)
        from knobledger.ledger.replica import ReplicaLedger

        return ReplicaLedger(self.root, self.replica())

    def replica(self) -> Replica:
        """The PostgreSQL of hosts.toml. Raises `Refused` if it names none."""
        url = self.config.file.ledger.replica
        if url is None:
            raise Refused("hosts.toml names no replica", hint="`[ledger] replica = ...`; see docs/team.md")
        from knobledger.ledger.replica import Replica

        return Replica(url)

    @cached_property
    def desk(self) -> Desk:
        """The ledger with its state, and who writes; read once per command. It knows the whole ledger, unless
        `decides_on` came first."""
        return self._whole_desk()

    @property
    def _knows_all(self) -> bool:
        """The desk has read the whole ledger already."""
        return "desk" in self.__dict__ and self._known is None

    def _whole_desk(self) -> Desk:
        with no_collection():
            return self._desk(State.of((stored.id, stored.event) for stored in self.ledger.events()))

    def _desk(self, state: State) -> Desk:
        return Desk(
            ledger=self.ledger,
            snapshots=Snapshots(self.root),
            state=state,
            masker=self.masker,
            author=self.author,
            syntax=complaint,
            sign=self._signed,
            binding=Binding(self.config, self.host),
            settles=not self.planning_only,
        )

    def _signed(self, planned: Planned) -> Planned:
        """The plan with its planner's signature, if git names a key to sign with."""
        key = signing_key(self.root)
        if not key:
            self.notes.append(
                "the plan is not signed, because git's user.signingkey is not set: it needs two approvers"
            )
            return planned
        from knobledger.approving import sign_plan

        return sign_plan(planned, key)

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
    def footing(self) -> State:
        """What the footer is made from: all of the ledger, if it was read, else what was taken from it."""
        return self._excerpt if self._excerpt is not None and "desk" not in self.__dict__ else self.state

    @cached_property
    def author(self) -> Author:
        """Who types, and the one clock."""
        zone = self.config.workspace.timezone or ""
        return author(self.root, self.env, on_behalf_of=self._on_behalf_of, zone=zone)

    @property
    def now(self) -> datetime:
        """The moment, by the author's clock."""
        return self.author.now()

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

    def only(self, target: str) -> tuple[Target, Host]:
        """The one target that a name stands for. Raises `Usage` where it stands for several."""
        found = self.targets([target])
        if len(found) != 1:
            raise Usage(f"{target!r} stands for {len(found)} targets; this command takes one")
        return found[0]

    def find_change(self, text: str) -> EventId:
        """A change by `@`, `@-1` (or `@-`), an id or a prefix of it, or the id of an event about it. Raises `Unknown`."""
        changes = self.state.changes
        if (back := steps_back(text)) is not None:
            if back >= len(changes):
                raise Unknown(
                    f"there is no change {text!r}: the ledger has {len(changes)}", hint="see `knob log`"
                )
            return changes[-1 - back]
        plan = self.find_plan(text)
        if not plan.is_change:
            what = (
                "a plan that only restarts" if plan.planned.only_restarts else "a plan that was never applied"
            )
            raise Unknown(
                f"{short(plan.id)} is {what}, not a change",
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

    def moment(self, text: str) -> Resolved:
        """A WHEN, in the workspace's zone or else the operator's. Raises `Usage`."""
        return parse(text, now=self.now, zone=ZoneInfo(self.author.zone))
