"""Where the tools work: each call opens the workspace anew, as a command does, in the name of the agent that calls."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from msgspec import Struct

from knobledger.delegate import Delegate
from knobledger.errors import KnobError
from knobledger.mcp.marking import marked

_ODD = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)


class AgentDesk(Struct, frozen=True):
    """What one server knows: the workspace, the environment that it was started in, the principal."""

    root: Path
    env: Mapping[str, str]
    on_behalf_of: str = ""

    def open(self, context: Context[Any, Any] | None = None) -> Delegate:
        """The workspace for one call; without a context for one that writes nothing."""
        env = {**self.env, "KNOBLEDGER_ACTOR": self.actor(context)} if context else self.env
        return Delegate(self.root, env, on_behalf_of=self.on_behalf_of)

    def actor(self, context: Context[Any, Any]) -> str:
        """`agent NAME/VERSION via mcp`, as the client calls itself, then `KNOBLEDGER_ACTOR` if it is set."""
        params = context.session.client_params
        info = params.client_info if params else None
        name = f"{_plain(info.name)}/{_plain(info.version)}" if info else "unnamed"
        own = self.env.get("KNOBLEDGER_ACTOR", "")
        return f"agent {name} via mcp" + (f" ({own})" if own else "")

    def call(
        self, context: Context[Any, Any], act: Callable[[Delegate], Mapping[str, Any]]
    ) -> dict[str, Any]:
        """One tool's work; its result with the text of others marked. Raises `ToolError` with the error as JSON."""
        delegate = self.open(context)
        try:
            with delegate:
                found = dict(act(delegate))
        except KnobError as error:
            raise ToolError(json.dumps(_error(error, delegate))) from error
        out = marked({**found, "notes": delegate.notes})
        assert isinstance(out, dict)
        return out


def _error(error: KnobError, delegate: Delegate) -> dict[str, Any]:
    body = _masked({**error.values, "message": error.message, "hint": error.hint}, delegate.masker.text)
    return {"error": {"kind": error.kind, "exit_code": error.exit_code, **marked(body)}}


def _masked(value: Any, mask: Callable[[str], str]) -> Any:
    match value:
        case str():
            return mask(value)
        case Mapping():
            return {str(name): _masked(item, mask) for name, item in value.items()}
        case list() | tuple():
            return [_masked(item, mask) for item in value]
        case None | bool() | int() | float():
            return value
        case _:
            return mask(str(value))


def _plain(text: str) -> str:
    """A client may call itself what it likes, but it gets no further than its own word in the name."""
    return _ODD.sub("-", text)[:40] or "-"
