"""Runs the migrations over the connection that `lorebus_store.migrate` hands in, in one transaction."""

from alembic import context
from sqlalchemy import text

from lorebus_store import tables

# Behind a migration that waits for a table, everybody waits who wants that table: rather give up and be run again.
LOCK_TIMEOUT = "3s"

connection = context.config.attributes["connection"]
# Alembic keeps its own table in the schema, so the schema is there before the first migration.
connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {tables.SCHEMA}"))
context.configure(connection=connection, target_metadata=tables.metadata, **tables.COMPARED)
connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'"))
with context.begin_transaction():
    context.run_migrations()
