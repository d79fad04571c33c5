"""The terms of an entry as numbers, so that a pack is ranked without taking any apart.

The code of the release before does not know the column and leaves it null; a load works it out for such an entry. What
is there already is filled in by the prune consumer, chunk after chunk (`reach.extend`).
"""

from alembic import op

from lorebus_store.table_locks import lock_tables

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, and have what is there filled in."""
    op.execute(lock_tables(("agent_configs", "memories")))
    op.execute("ALTER TABLE lorebus.memories ADD COLUMN term_hashes bytea")
    op.execute("ALTER TABLE lorebus.agent_configs NO FORCE ROW LEVEL SECURITY")
    op.execute("UPDATE lorebus.agent_configs SET reach_pending = true, reach_cursor = NULL")
    op.execute("ALTER TABLE lorebus.agent_configs FORCE ROW LEVEL SECURITY")


def downgrade() -> None:
    """Take it away again."""
    op.execute("ALTER TABLE lorebus.memories DROP COLUMN term_hashes")
