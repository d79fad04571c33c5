"""The distill consumer and its workers put together."""

from lorebus_contracts.events import SessionEnded
from lorebus_contracts.topics import DISTILL_GROUP, SESSION_ENDED
from lorebus_contracts.workflows import WorkflowType
from lorebus_distill.handlers import on_session_ended, run_id_of
from lorebus_distill.settings import DistillSettings
from lorebus_distill.worker import DistillWorkers
from lorebus_kit.bus import BusProducer
from lorebus_kit.consumer import ConsumerProcess
from lorebus_kit.failures import failure_recorder
from lorebus_kit.providers.directory import Providers
from lorebus_kit.providers.usage import StoredUsage
from lorebus_kit.relay import Relay
from lorebus_kit.subscription import Subscription
from lorebus_kit.sweeper import Sweeper
from lorebus_store.database import Database


def build(settings: DistillSettings, database: Database, bus: BusProducer) -> ConsumerProcess:
    """The process: `session.ended` in, distills due; its workers turn them into saves."""
    relay = Relay(database, bus)
    providers = Providers(settings.models, StoredUsage(database, settings))
    workers = DistillWorkers(settings, database, relay, providers)
    subscription = Subscription(
        group=DISTILL_GROUP,
        events={SESSION_ENDED: SessionEnded},
        handler=on_session_ended,
        record_failure=failure_recorder(WorkflowType.MEMORY_DISTILL, run_id=run_id_of),
        after_commit=workers.wake,
    )
    return ConsumerProcess(
        settings,
        subscription,
        database=database,
        bus=bus,
        background=(relay.run, workers.run, Sweeper(database, relay).run),
    )
