"""The trace in which a run was caused, so that it goes on in the worker that takes the run up.

The code of the release before does not know the column and leaves it null. Housekeeping, which hands runs to workers,
may read it: it is an id.
"""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.execute("ALTER TABLE lorebus.workflow_runs ADD COLUMN traceparent text")
    op.execute("GRANT SELECT (traceparent) ON lorebus.workflow_runs TO lorebus_housekeeping")


def downgrade() -> None:
    """Take it away again."""
    op.execute("ALTER TABLE lorebus.workflow_runs DROP COLUMN traceparent")
