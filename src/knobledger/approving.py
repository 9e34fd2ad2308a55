"""Go-aheads that hold: who may approve what, and whether what was approved still is what would be applied.

A name proves nothing, since anybody can set it; a terminal proves no person. Under `signed` and `two-person` only
signatures count, each over the text of one plan, checked again at the moment of applying.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from msgspec import Struct

from knobledger.drafting import Desk
from knobledger.errors import KnobError, NotApproved, Refused
from knobledger.event import encode, moment_of
from knobledger.events.approving import SignersTrusted
from knobledger.events.changes import Approved, Planned
from knobledger.folds.plans import Plan
from knobledger.hosts.config import Config
from knobledger.ledger.writing import private_folder, write_once
from knobledger.names import EventId, digest_of, short
from knobledger.plan import Policy, strictest
from knobledger.restarting import restarted_by
from knobledger.signing import check, sign

PLAN_SPACE = "knobledger-plan"
PLANNER_SPACE = "knobledger-planner"
SIGNERS_SPACE = "knobledger-signers"
"""namespaces of signatures: one made for one purpose is none for another"""


class Go(Struct, frozen=True):
    """What stands behind an approval, now checked."""

    source: str
    """as it is shown: `signature of anna@example.org`"""
    principal: str = ""
    """empty for one without a signature"""


def plan_text(plan: EventId, planned: Planned, policy: Policy) -> bytes:
    """What an approver signs: everything that will happen, and until when.

    The plan's id names its bytes already; the lines are for people who look at what they sign.
    """
    lines = [
        "knobledger: the go-ahead for one plan, format 1",
        f"plan {plan}",
        f"policy {policy}",
        f"expires {planned.expires}",
        f"restart {planned.restart}",
        f"roll-back-on-failure {'yes' if planned.roll_back_on_failure else 'no'}",
        f"confirm-within {planned.confirm_within_s}",
        f"batches {' '.join(planned.batches)}",
        f"max-failures {planned.max_failures}",
        f"in-place {'yes' if planned.in_place else 'no'}",
    ]
    for file in planned.files:
        lines += [
            f"target {json.dumps(file.target)}",
            f"path {json.dumps(file.path)}",
            f"leads-to {json.dumps(file.resolved)}",
            f"base {file.base}",
            f"result {file.result}",
        ]
        # What plans of older versions lack is no part of their text, so that their signatures hold.
        lines += [f"way {json.dumps(file.way)}"] if file.way else []
    lines += [f"service {json.dumps(one.service)} {one.digest}" for one in planned.services]
    return "\n".join((*lines, "")).encode()


def planner_text(planned: Planned) -> bytes:
    """What a planner signs: the plan but for the signature."""
    bare = planned.but(signature="", parents=())
    return f"knobledger: I made this plan, format 1\n{digest_of(encode(bare))}\n".encode()


def sign_plan(planned: Planned, key: str) -> Planned:
    """The plan with its planner's signature, which counts as one of two persons."""
    return planned.but(signature=sign(planner_text(planned), PLANNER_SPACE, key))


def policies(config: Config) -> dict[str, object]:
    """What hosts.toml says about approvals, in a form that can be compared."""
    return {
        "break_glass": sorted(config.workspace.break_glass),
        "services": {name: config.approval_of(name) for name in config.services},
        "targets": {str(target.name): target.approval for target in config.targets()},
    }


def policy_of(desk: Desk, config: Config, planned: Planned) -> Policy:
    """The strictest of what held at planning, what hosts.toml says now, and what was recorded with the signers.

    So neither an old plan nor an edited hosts.toml opens what a signature closed. A restart counts like a change.
    """
    targets = [file.target for file in planned.files]
    return policy_for(desk, config, targets, restarted_by(config, planned), at_least=planned.policy)


def policy_for(
    desk: Desk,
    config: Config,
    targets: Iterable[str],
    services: Iterable[str],
    *,
    at_least: Policy = "confirm",
) -> Policy:
    """The same for targets that are changed and services that are restarted."""
    wanted: list[Policy] = [at_least]
    kept = recorded(desk)
    known: Mapping[str, Mapping[str, Policy]] = json.loads(kept.policies) if kept else {}
    of_targets = known.get("targets", {})
    for target in targets:
        wanted += [config.target(target).approval, of_targets.get(target, at_least)]
    of_services = {**of_targets, **known.get("services", {})}
    for service in services:
        wanted += [config.approval_of(service), of_services.get(service, at_least)]
    return strictest(wanted)


def require(desk: Desk, config: Config, plan: Plan) -> Go:
    """What lets this plan be applied now. Raises `NotApproved` with what is missing."""
    policy = policy_of(desk, config, plan.planned)
    name = short(plan.id)
    if not plan.approvals:
        raise NotApproved(
            f"plan {name} has no go-ahead yet", hint=f"see `knob show {name}`, then `knob approve {name}`"
        )
    if policy == "confirm":
        return Go(plan.approvals[-1][1].source)
    signers = trusted(desk, config)
    found: dict[str, Go] = {}
    reasons: list[str] = []
    for _, approved in plan.approvals:
        try:
            go = _approval(desk, config, plan, approved, policy, signers)
        except KnobError as error:
            reasons.append(error.message)
        else:
            found[go.principal] = go
            if approved.break_glass:
                return go
    return _enough(desk, plan, policy, signers, found, reasons)


def _enough(
    desk: Desk, plan: Plan, policy: Policy, signers: bytes, found: Mapping[str, Go], reasons: Iterable[str]
) -> Go:
    """`signed`: one. `two-person`: two principals stand behind it, the planner's own signature being one of them."""
    name = short(plan.id)
    said = "; ".join(dict.fromkeys(reasons))
    why = f": {said}" if said else ""
    if not found:
        raise NotApproved(
            f"plan {name} has no go-ahead that the policy {policy!r} accepts{why}",
            hint=f"somebody of allowed_signers: `knob approve {name}`",
            plan=plan.id,
        )
    if policy == "signed":
        return next(iter(found.values()))
    planned = plan.planned
    planner = ""
    if planned.signature:
        planner = check(
            planner_text(planned), PLANNER_SPACE, planned.signature, signers, desk.author.now()
        ).principal
    others = {
        who: go for who, go in found.items() if who not in (planner, planned.actor, planned.on_behalf_of)
    }
    behind = others.keys() | ({planner} if planner else set())
    if not others or len(behind) < 2:
        missing = (
            "nobody but its planner has approved it"
            if not others
            else "its planner signed nothing, so a second approver is needed"
        )
        raise NotApproved(
            f"plan {name} needs two persons, and {missing}{why}",
            hint=f"somebody else of allowed_signers: `knob approve {name}`",
            plan=plan.id,
        )
    return next(iter(others.values()))


def _approval(
    desk: Desk, config: Config, plan: Plan, approved: Approved, policy: Policy, signers: bytes
) -> Go:
    """One approval, checked by its signature. Raises `NotApproved`."""
    if approved.review:
        raise NotApproved("a review is no go-ahead")
    if not approved.signature:
        raise NotApproved(f"a go-ahead by {approved.source!r} is no signature")
    text = plan_text(plan.id, plan.planned, approved.policy) + _emphasis(approved.break_glass, review=False)
    who = check(text, PLAN_SPACE, approved.signature, signers, desk.author.now())
    if approved.break_glass:
        if who.principal not in _glass_breakers(desk, config):
            raise NotApproved(f"{who.principal} may not break the glass here")
        return Go(f"break glass by signature of {who.principal}", who.principal)
    if strictest((approved.policy, policy)) != approved.policy:
        raise NotApproved(f"it was signed under the policy {approved.policy!r}, and now {policy!r} holds")
    return Go(f"signature of {who.principal}", who.principal)


def _glass_breakers(desk: Desk, config: Config) -> set[str]:
    """Who may, by hosts.toml now and as it was recorded with the signers."""
    kept = recorded(desk)
    known = set(json.loads(kept.policies).get("break_glass", ())) if kept else set()
    return set(config.workspace.break_glass) & known


def approve(desk: Desk, config: Config, plan: Plan, key: str, break_glass: str = "") -> Approved:
    """Signs the plan, and records it if the signature counts. Raises `NotApproved`, `Refused`."""
    policy = policy_of(desk, config, plan.planned)
    signers = trusted(desk, config)
    approved = _signed(desk, plan, policy, signers, key, break_glass=break_glass)
    _approval(desk, config, plan, approved, policy, signers)
    if policy == "two-person" and not break_glass:
        _somebody_else(plan, approved.principal)
    desk.write(approved)
    return approved


def review(desk: Desk, config: Config, plan: Plan, key: str) -> Approved:
    """Somebody else's signature on what was done in an emergency. Raises `NotApproved`."""
    policy = policy_of(desk, config, plan.planned)
    approved = _signed(desk, plan, policy, trusted(desk, config), key, review=True)
    if approved.principal in {one.principal for _, one in plan.approvals if one.break_glass}:
        raise NotApproved(
            f"{approved.principal} broke the glass: somebody else has to review it",
            hint=f"another of allowed_signers: `knob approve {short(plan.id)}`",
        )
    desk.write(approved)
    return approved


def _signed(
    desk: Desk,
    plan: Plan,
    policy: Policy,
    signers: bytes,
    key: str,
    *,
    break_glass: str = "",
    review: bool = False,
) -> Approved:
    """A signature over the plan as it would be recorded, by somebody whom the file knows."""
    text = plan_text(plan.id, plan.planned, policy) + _emphasis(break_glass, review=review)
    signature = sign(text, PLAN_SPACE, key)
    who = check(text, PLAN_SPACE, signature, signers, desk.author.now())
    kind = "break glass by " if break_glass else "review, " if review else ""
    return Approved(
        **desk.author.signs(),
        plan=plan.id,
        source=f"{kind}signature of {who.principal}",
        policy=policy,
        signature=signature,
        principal=who.principal,
        fingerprint=who.fingerprint,
        signers=digest_of(signers),
        break_glass=break_glass,
        review=review,
    )


def _emphasis(break_glass: str, *, review: bool) -> bytes:
    """What a signature says besides the go-ahead, so that one can't stand for the other."""
    if break_glass:
        return f"break-glass {json.dumps(break_glass)}\n".encode()
    return b"review\n" if review else b""


def _somebody_else(plan: Plan, principal: str) -> None:
    planned = plan.planned
    if principal in (planned.actor, planned.on_behalf_of):
        raise NotApproved(
            f"{principal} made this plan, or it was made for them: somebody else has to approve it",
            hint=f"another of allowed_signers: `knob approve {short(plan.id)}`",
        )


def trusted(desk: Desk, config: Config) -> bytes:
    """The allowed_signers file, if it is the one that was recorded. Raises `NotApproved`."""
    path = config.allowed_signers
    if path is None:
        raise NotApproved(
            "signatures are asked for, and hosts.toml names no allowed_signers file",
            hint='`allowed_signers = "allowed_signers"` in [workspace], then `knob signers trust`',
        )
    try:
        content = path.read_bytes()
    except OSError as error:
        raise NotApproved(f"{str(path)!r} can't be read: {error.strerror}") from error
    kept = recorded(desk)
    if kept is None:
        raise NotApproved(
            f"nobody has recorded yet who may sign: {str(path)!r} is not trusted",
            hint=f"look at it, then `knob signers trust {path.name}`",
        )
    if kept.digest != digest_of(content):
        raise NotApproved(
            f"{str(path)!r} was changed since it was recorded ({short(kept.digest)}, now {short(digest_of(content))}): "
            "no approval counts until somebody who was allowed before signs the change",
            hint=f"`knob signers trust {path.name} --key FILE`",
        )
    return content


def recorded(desk: Desk) -> SignersTrusted | None:
    """The newest link of the chain: the first that this workspace saw, then only what the one before had signed.

    An event put in before the first, or beside the chain, changes nothing here.
    """
    links = [(id_, event) for id_, event in desk.state.events.items() if isinstance(event, SignersTrusted)]
    if not links:
        return None
    first = _pinned(desk, links[0][0], [id_ for id_, _ in links])
    newest: SignersTrusted | None = None
    for id_, event in links:
        if newest is None:
            newest = event if id_ == first else None
            continue
        if event.previous != newest.digest or not event.signature:
            continue
        try:
            # Valid when it was made: a key that expired later has still signed.
            check(
                _signers_text(event),
                SIGNERS_SPACE,
                event.signature,
                newest.content.encode(),
                moment_of(event.at),
            )
        except KnobError:
            continue
        newest = event
    return newest


def _pinned(desk: Desk, oldest: EventId, known: list[EventId]) -> EventId:
    """The first link that this clone saw, kept in `.knobledger/signers`."""
    path = desk.ledger.root / ".knobledger" / "signers"
    try:
        kept = EventId(path.read_text("ascii").strip())
    except OSError:
        kept = EventId("")
    if kept in known:
        return kept
    private_folder(desk.ledger.root)
    write_once(path, f"{oldest}\n".encode(), mode=0o600, folder_mode=0o700)
    return oldest


def _signers_text(event: SignersTrusted) -> bytes:
    return (
        "knobledger: these may sign from now on, format 1\n"
        f"previous {event.previous}\nsigners {event.digest}\npolicies {digest_of(event.policies.encode())}\n"
    ).encode()


def trust(desk: Desk, config: Config, key: str) -> tuple[SignersTrusted, bool]:
    """Records the allowed_signers file and the policies; whether that was the first time, which is believed.

    Every later time needs a signature by somebody whom the recorded file allows. Raises `Refused`, `NotApproved`.
    """
    path = config.allowed_signers
    if path is None:
        raise Refused(
            "hosts.toml names no allowed_signers file", hint='`allowed_signers = "FILE"` in [workspace]'
        )
    try:
        content = path.read_bytes()
        text = content.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{str(path)!r} can't be read: {error}") from error
    kept = recorded(desk)
    event = SignersTrusted(
        **desk.author.signs(),
        digest=digest_of(content),
        content=text,
        policies=json.dumps(policies(config), sort_keys=True, separators=(",", ":")),
        previous=kept.digest if kept else None,
    )
    if kept is None:
        id_ = desk.write(event)
        _pinned(desk, id_, [id_])
        return event, True
    if kept.digest == event.digest and kept.policies == event.policies:
        raise Refused(f"{str(path)!r} and the policies are recorded as they are: there is nothing to sign")
    if not key:
        raise NotApproved(
            f"a change of {str(path)!r} or of the policies needs a signature by somebody who is allowed already",
            hint=f"`knob signers trust {path.name} --key FILE`",
        )
    signature = sign(_signers_text(event), SIGNERS_SPACE, key)
    who = check(_signers_text(event), SIGNERS_SPACE, signature, kept.content.encode(), desk.author.now())
    event = event.but(signature=signature, principal=who.principal)
    desk.write(event)
    return event, False
