"""What `lorebus runs list` and `lorebus runs show` do."""

import json
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from lorebus_contracts.workflows import State, WorkflowType
from lorebus_ops.answers import ago, carried_out, say, say_fields, say_json, say_table
from lorebus_ops.errors import RefusedError
from lorebus_ops.system_database import system_database
from lorebus_store.acting import SystemRole
from lorebus_store.run_rows import Run
from lorebus_store.run_search import RunSearch, runs_with_id, search_runs

_TYPES: Final = {kind.value.rpartition("-")[2]: kind for kind in WorkflowType}


def list_found(
    database_url: str,
    *,
    kind: str | None,
    state: str | None,
    older_than: timedelta | None,
    organization: UUID | None,
    limit: int,
    as_json: bool,
) -> None:
    """Tell of the runs that are looked for; with JSON, all that is known of each."""
    search = RunSearch(
        organization_uuid=organization,
        run_type=None if kind is None else _TYPES[kind],
        state_name=None if state is None else State(state),
        older_than=older_than,
    )
    found = carried_out(_search(database_url, search, limit))
    if as_json:
        say_json({"runs": [document(run) for run in found]})
        return
    now = datetime.now(UTC)
    say_table(
        ("workflow id", "type", "state", "changed", "organization", "why"),
        [
            (
                run.id,
                _short(run.type),
                run.state_name,
                ago(run.updated_at, now),
                run.organization_uuid,
                why(run),
            )
            for run in found
        ],
    )


def show_run(database_url: str, run_id: UUID, *, organization: UUID | None, as_json: bool) -> None:
    """Tell all that is known of a run.

    Raises:
        typer.Exit: 1, there is no such run; 3, the database is away.
    """
    run = carried_out(found_run(database_url, run_id, organization))
    if as_json:
        say_json(document(run))
        return
    told = document(run)
    say_fields(
        {name.replace("_", " "): value for name, value in told.items() if not isinstance(value, dict | list)}
    )
    for name, value in run.state_data.items():
        say(f"  {name}: {value if isinstance(value, str) else json.dumps(value)}")
    for step in run.history:
        say(f"{step['at']}  {step['state_name']}")


async def found_run(database_url: str, run_id: UUID, organization: UUID | None) -> Run:
    """The run of this id.

    Raises:
        RefusedError: there is none, or several organizations have one.
        StoreError: the database is away, or refused.
    """
    async with (
        system_database(database_url) as database,
        database.read(SystemRole.HOUSEKEEPING) as connection,
    ):
        found = [
            run
            for run in await runs_with_id(connection, run_id)
            if organization in {None, run.organization_uuid}
        ]
    if not found:
        raise RefusedError(f"there is no run {run_id}; a save that no consumer has come to may have none yet")
    if len(found) > 1:
        raise RefusedError(f"several organizations have a run {run_id}: say which by --organization")
    return found[0]


def document(run: Run) -> dict[str, object]:
    """The run as JSON has it."""
    return run._asdict() | {"type": run.type.value, "state_name": run.state_name.value}


def why(run: Run) -> str | None:
    """Why a run failed or did nothing, in a few words."""
    reason = run.state_data.get("failure_reason") or run.state_data.get("skipped_reason")
    error = run.state_data.get("error")
    if reason is None:
        return None
    return str(reason) if not error or error == reason else f"{reason}: {error}"


def _short(kind: WorkflowType) -> str:
    return kind.value.rpartition("-")[2]


async def _search(database_url: str, search: RunSearch, limit: int) -> tuple[Run, ...]:
    async with (
        system_database(database_url) as database,
        database.read(SystemRole.HOUSEKEEPING) as connection,
    ):
        return await search_runs(connection, search, limit=limit)
