"""All operations, and how often each is drawn."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from tests.isolation import bus_operations as bus
from tests.isolation import organization_operations as organization
from tests.isolation import runner_operations as runner
from tests.isolation.world import Draw, Organization, World

Operation: TypeAlias = Callable[[World, Draw, Organization], Awaitable[None]]

_WEIGHTS: Final[tuple[tuple[int, Operation], ...]] = (
    (20, runner.load),
    (14, runner.save),
    (3, runner.register),
    (2, runner.load_of_another),
    (4, runner.look_at_run),
    (2, runner.recall_over_mcp),
    (1, runner.remember_over_mcp),
    (9, organization.list_entries),
    (2, organization.delete_entry),
    (2, organization.evidence),
    (5, organization.receipt),
    (4, organization.look_at_run),
    (2, organization.list_runs),
    (1, organization.erase),
    (1, organization.look_at_erasure),
    (2, organization.export),
    (1, organization.import_file),
    (4, organization.start_load),
    (3, organization.start_save),
    (1, organization.prune),
    (2, organization.end_session),
    (1, organization.rate_session),
    (2, organization.settings),
    (8, bus.save_requested),
    (6, bus.session_ended),
    (2, bus.session_rated),
    (3, bus.recall_recorded),
    (1, bus.prune_requested),
)
_DRAWN: Final[tuple[Operation, ...]] = tuple(
    operation for weight, operation in _WEIGHTS for _ in range(weight)
)


async def perform(world: World, number: int) -> None:
    """Do the operation that the number says; 0, to which numbers shrink that do not matter, is none."""
    if number == 0:
        return
    draw = Draw(number)
    operation = draw.one_of(_DRAWN)
    await operation(world, draw, draw.one_of(world.organizations))
