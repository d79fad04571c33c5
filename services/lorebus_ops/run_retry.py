"""What `lorebus runs retry` does: the run's own event again, so that whatever happens it counts once.

The rules that must not break:
- Only a run that failed is retried, and only by the event that it came from, whose id makes it count once.
- Nothing of a subject that was erased goes on the bus or to a model again.
- A prune to a number is not retried: it would take away what was saved since.
"""

from datetime import UTC, datetime
from uuid import UUID

from lorebus_contracts.events import PruneRequested
from lorebus_contracts.workflows import State, WorkflowType
from lorebus_kit.bus import BusProducer, Record
from lorebus_kit.erased import erased_events
from lorebus_kit.letters import header_fault
from lorebus_kit.replaying import replay
from lorebus_kit.run_events import RunEvent, event_of_run
from lorebus_ops.answers import carried_out, say, say_json
from lorebus_ops.errors import RefusedError, UnreachableError
from lorebus_ops.options import Stores
from lorebus_ops.run_care import found_run
from lorebus_ops.system_bus import system_bus
from lorebus_ops.system_database import system_database
from lorebus_store import leases
from lorebus_store.acting import Tenants
from lorebus_store.run_rows import DEAD_LETTERED, Run


def retry_run(
    stores: Stores, run_id: UUID, *, organization: UUID | None, dry_run: bool, as_json: bool
) -> None:
    """Retry the run and tell how.

    Raises:
        typer.Exit: 1, it is not retried; 3, a store is away.
    """
    how = carried_out(_retry(stores, run_id, organization, dry_run=dry_run))
    if as_json:
        say_json({"workflow_id": run_id, "how": how, "dry_run": dry_run})
    elif dry_run:
        say(f"it would be retried: {how}")
    else:
        say(f"retried: {how}; follow it with `lorebus runs show {run_id}`")


async def _retry(stores: Stores, run_id: UUID, organization: UUID | None, *, dry_run: bool) -> str:
    run = await found_run(stores.database_url, run_id, organization)
    if run.state_name is not State.FAILED:
        raise RefusedError(_why_not_failed(run))
    source = await event_of_run(stores.bootstrap_servers, run, prefix=stores.prefix)
    if source is None:
        raise RefusedError(
            f"the event of this run is no longer on the bus (topics keep 7 days, dead letters 30):"
            f" whoever asked for the {run.type} has to ask again"
        )
    await _refuse_unsafe(stores, source)
    if run.type is WorkflowType.MEMORY_DISTILL and run.state_data.get("failure_reason") != DEAD_LETTERED:
        return await _begin_again(stores, run, source, dry_run=dry_run)
    return await _publish(stores, source, dry_run=dry_run)


def _why_not_failed(run: Run) -> str:
    if run.state_name is State.COMPLETED:
        return "this run is completed: nothing is left to do, and it would change nothing"
    return (
        f"this run is `{run.state_name}`, not failed: it is tried again by itself;"
        " where it stands still, look at `lorebus lag` and `lorebus doctor`"
    )


async def _refuse_unsafe(stores: Stores, source: RunEvent) -> None:
    if isinstance(source.event, PruneRequested) and source.event.max_entries is not None:
        raise RefusedError(
            f"this prune was to {source.event.max_entries} entries: now it would also take what was saved since;"
            " ask for a new one where that is wanted"
        )
    tenants = Tenants.of(source.event.organization_uuid)
    async with system_database(stores.database_url) as database, database.begin(tenants) as connection:
        if await erased_events(connection, [source.event]):
            raise RefusedError("whom this run is about was erased: its event stays where it is")


async def _begin_again(stores: Stores, run: Run, source: RunEvent, *, dry_run: bool) -> str:
    """A distill that a model failed: its consumer would find it done, so it is made due again in its row."""
    if not dry_run:
        tenants = Tenants.of(run.organization_uuid)
        async with system_database(stores.database_url) as database, database.begin(tenants) as connection:
            if not await leases.begin_again(
                connection, run.organization_uuid, run.id, pending_input=source.value, at=datetime.now(UTC)
            ):
                raise RefusedError("somebody else has just retried this run")
    return "the distill is due again, and a worker takes it"


async def _publish(stores: Stores, source: RunEvent, *, dry_run: bool) -> str:
    topic = source.event.topic.name
    if not dry_run:
        async with system_bus(stores) as bus:
            error = await _sent(bus, source)
        if error is not None:
            raise UnreachableError(f"{error}; it may be retried, it counts once")
    where = "" if source.letter is None else f" from its dead letter {source.letter.place}"
    return f"its event goes to {topic} again{where}"


async def _sent(bus: BusProducer, source: RunEvent) -> Exception | None:
    if source.letter is not None and header_fault(source.letter.headers) is None:
        return (await replay([source.letter], bus))[0]
    record = Record(source.event.topic.name, source.event.key(), source.value)
    return (await bus.publish_all([record]))[0]
