"""`lorebus runs`: finding workflow runs of any organization, and running one again that failed."""

from datetime import timedelta
from typing import Annotated, Final, Literal
from uuid import UUID

import typer

from lorebus_ops.options import AsJson, BootstrapServers, DatabaseUrl, Prefix, duration, local, stores

app: Final = typer.Typer(no_args_is_help=True, help="Workflow runs: saves, distills and prunes.")

RunId = Annotated[UUID, typer.Argument(help="The run's workflow id.", metavar="WORKFLOW_ID")]
Organization = Annotated[UUID | None, typer.Option(help="Only this organization's.")]


@app.command(
    "list",
    epilog="""Examples:

lorebus runs list --state failed

lorebus runs list --type distill --state run --older-than 10min --json""",
)
def list_runs(
    *,
    kind: Annotated[
        Literal["save", "distill", "prune"] | None, typer.Option("--type", help="Only runs of this type.")
    ] = None,
    state: Annotated[
        Literal["initiated", "run", "completed", "failed"] | None, typer.Option(help="Only in this state.")
    ] = None,
    older_than: Annotated[
        timedelta | None,
        typer.Option(parser=duration, metavar="TIME", help="Unchanged for longer: 30s, 10min, 2h or 7d."),
    ] = None,
    organization: Organization = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")] = 50,
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first, of all organizations or of one.

    Runs in `initiated` or `run` that have not changed for minutes are stuck: is their consumer up (`lorebus lag`)?
    """
    from lorebus_ops.run_care import list_found  # noqa: PLC0415 - Slow to import.

    list_found(
        database_url or local().database_url,
        kind=kind,
        state=state,
        older_than=older_than,
        organization=organization,
        limit=limit,
        as_json=as_json,
    )


@app.command(epilog="Example: lorebus runs show 0190a0c5-2f4e-8c1b-9d0e-5a6b7c8d9e0f")
def show(
    workflow_id: RunId,
    organization: Organization = None,
    database_url: DatabaseUrl = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Show a run with its history, oldest first. A run holds ids, numbers and errors, never a memory's text.

    Exit code 1: there is no such run. A save that no consumer has come to may have none yet.
    """
    from lorebus_ops.run_care import show_run  # noqa: PLC0415 - Slow to import.

    show_run(database_url or local().database_url, workflow_id, organization=organization, as_json=as_json)


@app.command(
    epilog="""Examples:

lorebus runs retry 0190a0c5-2f4e-8c1b-9d0e-5a6b7c8d9e0f --dry-run

lorebus runs retry 0190a0c5-2f4e-8c1b-9d0e-5a6b7c8d9e0f"""
)
def retry(
    workflow_id: RunId,
    organization: Organization = None,
    database_url: DatabaseUrl = None,
    bootstrap_servers: BootstrapServers = None,
    prefix: Prefix = "",
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say whether it would be retried.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a failed save, distill or prune again, under its own id, so that it counts once whatever happens.

    Its event is looked for among the dead letters and in its topic, which may take a while in a long one.

    Exit code 1: it is not retried, and the line says why (not failed, its event is gone from the bus, its subject was
    erased, a prune to a number would now take what was saved since).
    """
    from lorebus_ops.run_retry import retry_run  # noqa: PLC0415 - Slow to import.

    retry_run(
        stores(database_url, bootstrap_servers, prefix),
        workflow_id,
        organization=organization,
        dry_run=dry_run,
        as_json=as_json,
    )
