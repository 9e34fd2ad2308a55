"""The incident's last act: an agent prepares the restore, a key that it can't read signs it, and the agent applies it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from knobledger.demo.owner import NAME, OWNER, Agent, Owner
from knobledger.demo.stage import KNOB
from knobledger.quoting import command_line

if TYPE_CHECKING:
    from knobledger.demo.play import Play

_SHOWN = {
    "clawback": ("items", "change", "target", "finding", "restorable", "command"),
    "plan_restore": ("plan", "status", "target", "edits", "name", "before", "after", "restart", "policy"),
    "wait_for_approval": ("plan", "status", "may_apply", "go_ahead"),
    "apply_plan": ("error", "kind", "message", "plan", "status", "approval", "fate"),
}
"""of each result, the fields that are shown"""


def entrust(play: Play, owner: Owner) -> None:
    """From now on only a signature counts."""
    root = play.stage.root
    play.tell(
        f"Who may act from now on: whoever has {OWNER}'s key. It lives in an ssh-agent, and in no file."
    )
    (root / "allowed_signers").write_text(f"{OWNER} {owner.public}\n", encoding="ascii")
    hosts = root / "hosts.toml"
    text = hosts.read_text("utf-8")
    signed = 'approval = "signed"\nallowed_signers = "allowed_signers"'
    hosts.write_text(text.replace('approval = "confirm"', signed), encoding="utf-8")
    key = os.fspath(owner.key.relative_to(root)) + ".pub"
    play.here("git", "-C", os.fspath(root), "config", "user.signingkey", os.fspath(owner.key) + ".pub",
              shown=f"git config user.signingkey {key}")  # fmt: skip
    play.here("grep", "-n", "sign", os.fspath(hosts), shown="grep -n sign hosts.toml")
    play.knob("signers", "trust")
    play.environment |= owner.environment


def restore(play: Play, agent: Agent) -> None:
    """Plan, refusal, signature, restore and restart; nobody but the owner could have said go ahead."""
    play.tell(
        "An agent's session (a few lines in place of a model; client, server and refusals are real), no key."
    )
    asked = "The proxy was at fault. Bring back what the revert took, and restart what needs it."
    play.console.print(Text(f"{OWNER} to the agent: {asked}", style="bold"))
    agent.ask(asked)
    _tool(play, agent)
    plan = str(_tool(play, agent).get("plan", ""))[:8]
    play.tell(
        "It tries to apply its own plan, and then to approve it by the command line of its own session."
    )
    refused = _tool(play, agent, refused=True)
    play.prove("the agent is refused without a signature", _kind(refused) == "not_approved")
    play.knob("approve", plan, expect=1, env=agent.environment, prompt="agent$")
    untouched = KNOB not in play.stage.script("decode").read_text("utf-8")
    play.prove("nothing was changed so far", untouched)
    play.tell(
        "The owner reads what would be done, and signs exactly that; the agent has been waiting for it."
    )
    play.knob("show", plan)
    play.begin_picture()
    play.knob("approve", plan)
    go = _tool(play, agent).get("go_ahead", {}).get("untrusted_text", "")
    play.prove("the agent sees who signed", go == f"signature of {OWNER}")
    play.tell("The agent applies it: restore, then the restart in order, each healthy before the next.")
    play.prove("the agent applied it", _tool(play, agent).get("status") == "used")
    proof = play.knob("show", plan)
    for line in ("restored", f"5:export {KNOB}=512", "matches backup"):
        play.prove(f"the chain prints {line!r}", f"  {line}\n" in proof)
    ended = [line.split(":")[0].strip() for line in proof.splitlines() if ": healthy after" in line]
    play.prove(
        "prefill, decode and router came up in this order",
        ended[:3] == ["gpu1/prefill", "gpu1/decode", "gpu1/router"],
    )
    done = play.facts("show", plan)
    play.prove("the entry names the agent", done["actor"] == f"agent {NAME}/1 via mcp")
    play.prove("and whom it worked for", done["on_behalf_of"] == OWNER)
    play.prove("and whose signature let it", done["approval"] == f"signature of {OWNER}")


def _tool(play: Play, agent: Agent, *, refused: bool = False) -> Mapping[str, Any]:
    """Shows the agent's next call and what came back; the result."""
    told = agent.next()
    tool = str(told.get("tool", "its session has ended"))
    words = [f"{name}={value}" for name, value in told.get("arguments", {}).items()]
    play.console.print(
        Text(f"agent> {command_line((tool, *words))}", style="bold"), soft_wrap=not play.console.record
    )
    result: Mapping[str, Any] = told.get("result", {})
    shown = json.dumps(_picked(result, _SHOWN.get(tool, ())), ensure_ascii=False)
    play.console.print(Text(f"  {shown}"), soft_wrap=not play.console.record)
    play.prove(f"{tool} is {'refused' if refused else 'answered'}", told.get("refused") is refused)
    return result


def _picked(value: Any, names: tuple[str, ...]) -> Any:
    """The fields with these names, at any depth; lists keep their order, and texts come without their mark."""
    match value:
        case {"untrusted_text": str(text)}:
            return text
        case dict():
            return {name: _picked(item, names) for name, item in value.items() if name in names}
        case list():
            return [_picked(item, names) for item in value]
        case _:
            return value


def _kind(result: Mapping[str, Any]) -> str:
    return str(result.get("error", {}).get("kind", ""))
