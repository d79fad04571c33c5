"""Which version of a run there is: enough to see that it has changed, for any number of runs in one query."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final, NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_contracts.workflows import State
from lorebus_store.run_rows import RunKey
from lorebus_store.statements import Statement


class RunVersion(NamedTuple):
    """The state that a run is in, and when its row last changed."""

    state_name: State
    updated_at: datetime


_VERSIONS: Final = Statement(
    """
    SELECT r.organization_uuid, r.id, r.state_name, r.updated_at FROM lorebus.workflow_runs r
    JOIN unnest(CAST(:organizations AS uuid[]), CAST(:ids AS uuid[])) AS asked (organization_uuid, id)
        USING (organization_uuid, id)
    """
)


async def versions(conn: AsyncConnection, keys: Collection[RunKey]) -> Mapping[RunKey, RunVersion]:
    """The versions of those runs that have a row; `keys` are distinct."""
    rows = await _VERSIONS.rows(conn, {"organizations": [o for o, _ in keys], "ids": [i for _, i in keys]})
    return {(row[0], row[1]): RunVersion(State(row[2]), row[3]) for row in rows}
