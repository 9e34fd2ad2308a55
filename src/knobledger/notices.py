"""What webhooks are told: an event as a notice, as generic JSON and for Slack. Pure; `notifying` sends it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from msgspec import Struct

from knobledger.events.entry import Event
from knobledger.folds.arming import Pending
from knobledger.hosts.sections import NoticeKind
from knobledger.names import EventId, digest_of, short
from knobledger.plan import Edit
from knobledger.state import State

_KINDS: dict[str, NoticeKind] = {
    "planned": "planned",
    "approved": "approved",
    "applied": "applied",
    "failed": "failed",
    "rolled_back": "rolled_back",
    "expired": "expired",
}
"""kinds of events that somebody wants to be told of"""
_MOST_EDITS = 10
_LONGEST = 300
"""characters of a text"""
LATE = 0.25
"""share of its window in which a pending confirmation is about to expire"""


class Notice(Struct, frozen=True):
    """One thing to be told."""

    kind: NoticeKind
    id: str
    """the same however often it is sent"""
    at: str
    body: dict[str, Any]


def notice_of(state: State, id_: EventId, mask: Callable[[str], str]) -> Notice | None:
    """The notice of an event; None for one that nobody is told of. `mask` takes secrets out of a text."""
    event = state.events[id_]
    kind = _KINDS.get(event.kind)
    about = id_ if event.kind == "planned" else getattr(event, "plan", None)
    if kind is None or about not in state.plans:
        return None
    return _notice(state, about, kind, id_, event, _reason(event), mask)


def expiring(state: State, now: datetime, mask: Callable[[str], str]) -> list[Notice]:
    """Of each armed change that will soon put itself back: one, the same at every look."""
    found = []
    for pending in state.pending():
        left = (pending.deadline - now).total_seconds()
        if not 0 < left <= max(60.0, pending.arming.window_s * LATE) or pending.plan not in state.plans:
            continue
        reason = f"puts itself back at {pending.deadline:%H:%M:%S} UTC"
        found.append(
            _notice(state, pending.plan, "expiring", _name_of(pending), pending.arming, reason, mask)
        )
    return found


def _reason(event: Event) -> str:
    """Why it failed, or what stands behind a go-ahead."""
    return str(getattr(event, "reason", "") or getattr(event, "source", ""))


def _name_of(pending: Pending) -> str:
    return digest_of(f"{pending.plan} {pending.target} {pending.arming.at}".encode())


def _notice(
    state: State,
    plan: EventId,
    kind: NoticeKind,
    id_: str,
    event: Event,
    reason: str,
    mask: Callable[[str], str],
) -> Notice:
    planned = state.plans[plan].planned
    edits = [(file.target, edit) for file in planned.files for edit in file.edits]

    def said(text: str) -> str:
        clean = mask(text)
        return clean if len(clean) <= _LONGEST else f"{clean[:_LONGEST]}…"

    by = f"{event.actor} for {event.on_behalf_of}" if event.on_behalf_of else event.actor
    more = f" and {len(edits) - _MOST_EDITS} more" if len(edits) > _MOST_EDITS else ""
    where = ", ".join(planned.where[:_MOST_EDITS])
    what = "; ".join(_edit(edit) for _, edit in edits[:_MOST_EDITS]) + more
    text = f"{kind.replace('_', ' ')} {short(plan)}: {planned.verb} {where}   {what}   by {by}"
    if tail := reason or planned.why:
        text += f": {tail}"
    body = {
        "notice": kind,
        "id": id_,
        "at": event.at,
        "plan": plan,
        "verb": planned.verb,
        "targets": list(planned.where),
        "edits": [
            {
                "target": target,
                "name": said(edit.name),
                "before": None if edit.before is None else said(edit.before),
                "after": None if edit.after is None else said(edit.after),
            }
            for target, edit in edits[:_MOST_EDITS]
        ],
        "why": said(planned.why),
        "reason": said(reason),
        "actor": said(event.actor),
        "on_behalf_of": said(event.on_behalf_of),
        "text": mask(text)[: 10 * _LONGEST],
        "command": _command(kind, short(plan)),
    }
    return Notice(kind, id_, event.at, body)


def _edit(edit: Edit) -> str:
    before, after = ("(absent)" if side is None else side[:60] for side in (edit.before, edit.after))
    return f"{edit.name} {before} → {after}"


def _command(kind: NoticeKind, plan: str) -> str:
    match kind:
        case "planned":
            return f"knob show {plan}; knob approve {plan}"
        case "approved":
            return f"knob apply {plan}"
        case "expiring":
            return f"knob confirm {plan}"
        case _:
            return f"knob show {plan}"


def slack(body: dict[str, Any]) -> dict[str, Any]:
    """The same for a Slack incoming webhook. Nobody's text becomes markup, a link or a mention."""
    plain = text = f"{body['text']}\n{body['command']}"
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(character, entity)
    return {
        "text": text,
        "unfurl_links": False,
        "blocks": [{"type": "section", "text": {"type": "plain_text", "text": plain[:2900], "emoji": False}}],
    }
