"""What the bus was told of one agent config's memory."""

from collections import Counter
from uuid import UUID

from lorebus_contracts.events import ChangeKind, MemoryChanged
from lorebus_contracts.topics import MEMORY_CHANGED
from lorebus_contracts.wire import parse
from tests.support.events import Scope
from tests.support.waiting import eventually
from tests.support.wire import Wire


async def changes_of(wire: Wire, scope: Scope) -> list[MemoryChanged]:
    """Every change told so far, in the order of the bus."""
    records = await wire.read(MEMORY_CHANGED.name)
    changes = [parse(MemoryChanged, record.value) for record in records]
    return [change for change in changes if change.agent_config_uuid == scope.agent_config_uuid]


async def told(wire: Wire, scope: Scope, expected: dict[ChangeKind, int]) -> dict[ChangeKind, set[UUID]]:
    """The ids of each kind of change, once the counts are as expected."""

    async def as_expected() -> bool:
        counts: Counter[ChangeKind] = Counter()
        for change in await changes_of(wire, scope):
            counts[change.kind] += change.count
        return counts == expected

    await eventually(as_expected, what=f"the bus has been told {expected}")
    ids: dict[ChangeKind, set[UUID]] = {}
    for change in await changes_of(wire, scope):
        ids.setdefault(change.kind, set()).update(change.ids)
    return ids
