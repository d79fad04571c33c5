"""The recall labeller put together."""

from lorebus_contracts.events import RecallRecorded, SessionEnded, SessionRated
from lorebus_contracts.topics import LABELS_GROUP, RECALL_RECORDED, SESSION_ENDED, SESSION_RATED
from lorebus_kit.bus import BusProducer
from lorebus_kit.consumer import ConsumerProcess
from lorebus_kit.relay import Relay
from lorebus_kit.subscription import Subscription
from lorebus_recall_labeller.handlers import on_session_events
from lorebus_recall_labeller.settings import RecallLabellerSettings
from lorebus_store.database import Database


def build(settings: RecallLabellerSettings, database: Database, bus: BusProducer) -> ConsumerProcess:
    """The process: three topics about sessions in, recalls and labels into PostgreSQL."""
    relay = Relay(database, bus)
    subscription = Subscription(
        group=LABELS_GROUP,
        events={
            SESSION_ENDED: SessionEnded,
            SESSION_RATED: SessionRated,
            RECALL_RECORDED: RecallRecorded,
        },
        handler=on_session_events,
        after_commit=relay.wake,
        # A record may tell of a thousand entries, some 200 kB once it is parsed.
        most_records=100,
    )
    return ConsumerProcess(settings, subscription, database=database, bus=bus, background=(relay.run,))
