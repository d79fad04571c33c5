"""The trace in which an outbox row was caused, so that it goes on behind the relay.

The code of the release before does not know the column and leaves it null.
"""

from alembic import op

revision = "0006"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.execute("ALTER TABLE lorebus.outbox ADD COLUMN traceparent text")


def downgrade() -> None:
    """Take it away again."""
    op.execute("ALTER TABLE lorebus.outbox DROP COLUMN traceparent")
