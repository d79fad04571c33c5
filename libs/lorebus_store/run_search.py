"""Runs as an operator looks for them: of one organization or of all.

This is the system's own view (`SystemRole.HOUSEKEEPING`); what an organization is shown comes from `runs`. Runs are
found by their ids, states and times, and then read for the organizations alone that were found.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_contracts.workflows import State, WorkflowType
from lorebus_store.acting import Tenants, narrow
from lorebus_store.run_rows import Run, run_of
from lorebus_store.statements import Statement

_RUN: Final = ", ".join(Run._fields)


@dataclass(frozen=True, slots=True)
class RunSearch:
    """Which runs: None stands for any. `older_than` counts from the last change."""

    organization_uuid: UUID | None = None
    run_type: WorkflowType | None = None
    state_name: State | None = None
    older_than: timedelta | None = None


_SEARCH: Final = Statement(
    """
    SELECT organization_uuid, id FROM lorebus.workflow_runs
    WHERE (CAST(:organization_uuid AS uuid) IS NULL OR organization_uuid = :organization_uuid)
        AND (CAST(:type AS text) IS NULL OR type = :type)
        AND (CAST(:state_name AS text) IS NULL OR state_name = :state_name)
        AND (CAST(:older_than AS interval) IS NULL OR updated_at < now() - CAST(:older_than AS interval))
    ORDER BY created_at DESC, id DESC LIMIT :limit
    """
)
_WITH_ID: Final = Statement("SELECT organization_uuid, id FROM lorebus.workflow_runs WHERE id = :id")
_READ: Final = Statement(
    f"""
    SELECT {_RUN} FROM lorebus.workflow_runs
    JOIN unnest(CAST(:organizations AS uuid[]), CAST(:ids AS uuid[])) AS found (organization_uuid, id)
        USING (organization_uuid, id)
    ORDER BY created_at DESC, id DESC, organization_uuid
    """
)


async def search_runs(conn: AsyncConnection, search: RunSearch, *, limit: int) -> tuple[Run, ...]:
    """The runs that are looked for, at most `limit`, newest first. It may read the whole table.

    The transaction goes on for the organizations that were found.
    """
    values = {
        "organization_uuid": search.organization_uuid,
        "type": search.run_type,
        "state_name": search.state_name,
        "older_than": search.older_than,
        "limit": limit,
    }
    return await _read(conn, await _SEARCH.rows(conn, values))


async def runs_with_id(conn: AsyncConnection, run_id: UUID) -> tuple[Run, ...]:
    """The runs of this id: an organization has one at most, and ids are made so that two hardly ever share one.

    The transaction goes on for the organizations that were found.
    """
    return await _read(conn, await _WITH_ID.rows(conn, {"id": run_id}))


async def _read(conn: AsyncConnection, found: Sequence[Any]) -> tuple[Run, ...]:
    if not found:
        return ()
    await narrow(conn, Tenants.of_all(row[0] for row in found))
    values = {"organizations": [row[0] for row in found], "ids": [row[1] for row in found]}
    return tuple(map(run_of, await _READ.rows(conn, values)))
