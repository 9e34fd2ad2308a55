"""The tables of the index, and the replica's identity."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Integer, Text, text

revision = "0001"
down_revision = None


def _text(name: str, *, null: bool = False, key: bool = False) -> Column[str]:
    # the order of bytes, as in the index: moments and ids are compared as text
    return Column(name, Text(collation="C"), nullable=null, primary_key=key)


def upgrade() -> None:
    """Makes them."""
    op.create_table(
        "event",
        _text("id", key=True),
        *(_text(name) for name in ("at", "kind", "actor", "on_behalf_of")),
        *(_text(name, null=True) for name in ("target", "plan")),
        _text("body"),
    )
    op.create_index("event_order", "event", ["at", "id"])
    op.create_index("event_plan", "event", ["plan"])
    op.create_table(
        "edit",
        _text("change", key=True),
        Column("position", Integer, primary_key=True),
        *(_text(name) for name in ("target", "knob", "kind")),
        *(_text(name, null=True) for name in ("before", "after")),
    )
    op.create_table("parent", _text("event", key=True), _text("parent", key=True))
    op.create_table("facet", *(_text(name, key=True) for name in ("facet", "value", "at", "event")))
    op.create_table("replica", _text("identity", key=True))
    op.execute(text("INSERT INTO replica VALUES (gen_random_uuid()::text)"))


def downgrade() -> None:
    """Drops them: a replica can be made anew from the event files."""
    for table in ("replica", "facet", "parent", "edit", "event"):
        op.drop_table(table)
