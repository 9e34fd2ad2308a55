"""The agent's session in the demo: a few lines in place of a model, over a real client and a real `knob mcp`.

A process of its own, with an environment of its own. One line on stdin is what it is asked for; each tool that it
calls becomes one line of JSON on stdout, the call and what came back.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from mcp_types import Implementation

from knobledger.demo.owner import NAME
from mcp import Client, StdioServerParameters


async def _session(root: str) -> None:
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "knobledger", "-C", root, "mcp"], env=dict(os.environ)
    )
    async with Client(server, client_info=Implementation(name=NAME, version="1")) as client:
        asked = await asyncio.to_thread(sys.stdin.readline)
        if not asked:
            return  # nobody wants anything
        found = await _call(client, "clawback")
        item = found["items"][0]
        because = item["refuted"][0]["cause"]["untrusted_text"]
        plan = await _call(
            client, "plan_restore", change=item["change"], restart="group", why=f"wrongly taken: {because}"
        )
        id_ = plan["plan"]
        await _call(client, "apply_plan", plan=id_)
        await _call(client, "wait_for_approval", plan=id_, seconds=120)
        await _call(client, "apply_plan", plan=id_)


async def _call(client: Client, tool: str, **arguments: str | int) -> dict[str, Any]:
    """One tool's result, or what it refused with; told on stdout either way."""
    done = await client.call_tool(tool, arguments)
    if done.is_error:
        text = "".join(getattr(part, "text", "") for part in done.content)
        found: dict[str, Any] = json.loads(text[text.index("{") :])
    else:
        found = dict(done.structured_content or {})
    told = {"tool": tool, "arguments": arguments, "refused": bool(done.is_error), "result": found}
    print(json.dumps(told), flush=True)
    return found


if __name__ == "__main__":
    asyncio.run(_session(sys.argv[1]))
