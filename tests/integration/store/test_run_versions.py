"""Seeing that runs have changed."""

from uuid import UUID

import pytest

from lorebus_contracts.workflows import State
from lorebus_store import run_versions, runs
from lorebus_store.statements import Statement
from tests.integration.store.builders import (
    NOON,
    ORGANIZATION,
    OTHER_ORGANIZATION,
    StoreDatabase,
    finished_run,
    initiated_run,
    plan,
)

FIRST, SECOND, UNKNOWN = UUID(int=1), UUID(int=2), UUID(int=3)


async def test_runs_have_a_version_by_organization_and_those_without_a_row_have_none(
    database: StoreDatabase,
) -> None:
    async with database.begin() as conn:
        await runs.insert_initiated(conn, initiated_run(FIRST))
        await runs.record_finished(conn, [finished_run(SECOND)])
        keys = {
            (ORGANIZATION, FIRST),
            (ORGANIZATION, SECOND),
            (ORGANIZATION, UNKNOWN),
            (OTHER_ORGANIZATION, FIRST),
        }
        found = await run_versions.versions(conn, keys)

    assert set(found) == {(ORGANIZATION, FIRST), (ORGANIZATION, SECOND)}
    assert found[ORGANIZATION, FIRST].state_name is State.INITIATED
    assert found[ORGANIZATION, SECOND] == (State.COMPLETED, NOON)


@pytest.mark.parametrize("statement", [run_versions._VERSIONS, runs._GET, runs._KNOWN])
async def test_a_run_is_looked_up_by_its_key_from_the_first_one_on(
    database: StoreDatabase, statement: Statement
) -> None:
    async with database.read() as conn:
        assert "workflow_runs_pkey" in await plan(conn, statement)


async def test_runs_of_a_type_and_state_are_listed_from_their_index(database: StoreDatabase) -> None:
    async with database.read() as conn:
        lines = await plan(conn, runs._BY_TYPE)
    assert "workflow_runs_listed" in lines
    assert "Sort" not in lines
