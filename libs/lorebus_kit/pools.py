"""The process's pools of connections as a gauge, read when the metrics are."""

from collections.abc import Callable
from typing import Final
from weakref import WeakSet

from lorebus_kit.metrics import CONNECTIONS
from lorebus_store.database import Database, PoolStatus

_POOLS: Final[WeakSet[Database]] = WeakSet()
_STATES: Final[dict[str, Callable[[PoolStatus], int]]] = {
    "size": lambda status: status.size,
    "in_use": lambda status: status.in_use,
    "idle": lambda status: status.idle,
}


def watch_pool(database: Database) -> None:
    """Count this pool's connections from now on, for as long as somebody holds it."""
    _POOLS.add(database)
    for state, number in _STATES.items():
        CONNECTIONS.labels(state).set_function(_total(number))


def _total(number: Callable[[PoolStatus], int]) -> Callable[[], float]:
    return lambda: float(sum(number(database.pool_status()) for database in _POOLS))
