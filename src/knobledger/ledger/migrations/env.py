"""What alembic runs: the migrations, in the transaction that was handed over."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"], version_table_schema="knobledger")
context.run_migrations()
