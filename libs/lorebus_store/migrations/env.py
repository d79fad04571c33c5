"""Runs the migrations over the connection that `lorebus_store.migrate` hands in, in one transaction."""

from alembic import context
from sqlalchemy import text

from lorebus_store import tables

connection = context.config.attributes["connection"]
# Alembic keeps its own table in the schema, so the schema is there before the first migration.
connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {tables.SCHEMA}"))
context.configure(connection=connection, target_metadata=tables.metadata, **tables.COMPARED)
with context.begin_transaction():
    context.run_migrations()
