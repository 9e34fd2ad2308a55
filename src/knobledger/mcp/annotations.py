"""What clients are told of a tool: hints for people, no guard."""

from __future__ import annotations

from mcp_types import ToolAnnotations

LOOKS = ToolAnnotations(read_only_hint=True, open_world_hint=True)
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
PLANS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=True
)
"""writes an entry into the ledger, and nothing on a host"""
APPLIES = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
)
