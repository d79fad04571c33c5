"""The prune consumer put together."""

from lorebus_contracts.events import PruneRequested
from lorebus_contracts.topics import PRUNE_GROUP, PRUNE_REQUESTED
from lorebus_contracts.workflows import WorkflowType
from lorebus_kit.bus import BusProducer
from lorebus_kit.consumer import ConsumerProcess
from lorebus_kit.failures import failure_recorder
from lorebus_kit.reaching import Reaching
from lorebus_kit.relay import Relay
from lorebus_kit.retention import Retention
from lorebus_kit.sampler import Sampler
from lorebus_kit.subscription import Subscription
from lorebus_prune.handlers import on_prune_requested
from lorebus_prune.settings import PruneSettings
from lorebus_store.database import Database


def build(settings: PruneSettings, database: Database, bus: BusProducer) -> ConsumerProcess:
    """The process: `memory.prune-requested` in, entries out of PostgreSQL; also keeps the house and samples it."""
    relay = Relay(database, bus)
    subscription = Subscription(
        group=PRUNE_GROUP,
        events={PRUNE_REQUESTED: PruneRequested},
        handler=on_prune_requested,
        record_failure=failure_recorder(WorkflowType.MEMORY_PRUNE),
        after_commit=relay.wake,
    )
    return ConsumerProcess(
        settings,
        subscription,
        database=database,
        bus=bus,
        background=(relay.run, Retention(database).run, Reaching(database).run, Sampler(database).run),
    )
