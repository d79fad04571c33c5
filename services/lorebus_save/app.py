"""The save consumer put together."""

from lorebus_contracts.events import SaveRequested
from lorebus_contracts.topics import SAVE_GROUP, SAVE_REQUESTED
from lorebus_contracts.workflows import WorkflowType
from lorebus_kit.bus import BusProducer
from lorebus_kit.consumer import ConsumerProcess
from lorebus_kit.failures import failure_recorder
from lorebus_kit.relay import Relay
from lorebus_kit.subscription import Subscription
from lorebus_kit.sweeper import Sweeper
from lorebus_save.handlers import on_save_requested
from lorebus_save.settings import SaveSettings
from lorebus_store.database import Database


def build(settings: SaveSettings, database: Database, bus: BusProducer) -> ConsumerProcess:
    """The process: `memory.save-requested` in, entries and runs into PostgreSQL."""
    relay = Relay(database, bus)
    subscription = Subscription(
        group=SAVE_GROUP,
        events={SAVE_REQUESTED: SaveRequested},
        handler=on_save_requested,
        record_failure=failure_recorder(WorkflowType.MEMORY_SAVE),
        after_commit=relay.wake,
    )
    return ConsumerProcess(
        settings,
        subscription,
        database=database,
        bus=bus,
        background=(relay.run, Sweeper(database, relay).run),
    )
