"""The bus as a command of operators has it: a producer that is connected, or an error."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from lorebus_kit.bus import BusProducer
from lorebus_ops.errors import UnreachableError
from lorebus_ops.options import Stores

CONNECT_SECONDS: Final = 10.0


@asynccontextmanager
async def system_bus(stores: Stores) -> AsyncIterator[BusProducer]:
    """A connected producer, closed at the end.

    Raises:
        UnreachableError: the broker does not answer.
    """
    bus = BusProducer(stores.bootstrap_servers, topic_prefix=stores.prefix)
    try:
        await bus.start(wait_seconds=CONNECT_SECONDS)
        if not bus.connected:
            raise UnreachableError(f"the broker at {stores.bootstrap_servers} does not answer")
        yield bus
    finally:
        await bus.stop()
