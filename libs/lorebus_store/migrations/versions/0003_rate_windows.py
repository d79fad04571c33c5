"""How many requests each token and API key has made in its current window; runs looked up by their own key.

The table is not logged: it changes all the time, lives for a minute, and a crash that empties it lets some requests
through. `workflow_runs_listed` gets a condition that always holds and that only listings name: on an empty table the
planner took it for a run's key, and kept to that plan while the table grew.
"""

from typing import Final

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

RATE_WINDOWS: Final = """
CREATE UNLOGGED TABLE lorebus.rate_windows (
    organization_uuid uuid NOT NULL,
    credential bytea NOT NULL,
    ends_at timestamptz NOT NULL,
    taken integer NOT NULL,
    granted integer NOT NULL,
    CONSTRAINT rate_windows_pkey PRIMARY KEY (organization_uuid, credential)
) WITH (fillfactor = 50)
"""
LISTED: Final = """
CREATE INDEX workflow_runs_listed ON lorebus.workflow_runs
    (organization_uuid, type, state_name, created_at DESC, id DESC) {condition}
"""
COMMENT: Final = "COMMENT ON INDEX lorebus.workflow_runs_listed IS 'runs.list_runs, of one type and state'"


def upgrade() -> None:
    """Make the table, and the index anew."""
    op.execute(RATE_WINDOWS)
    _list_anew("WHERE attempts >= 0")


def downgrade() -> None:
    """Count nothing."""
    op.execute("DROP TABLE lorebus.rate_windows")
    _list_anew("")


def _list_anew(condition: str) -> None:
    op.execute("DROP INDEX lorebus.workflow_runs_listed")
    op.execute(LISTED.format(condition=condition))
    op.execute(COMMENT)
