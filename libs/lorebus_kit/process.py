"""The `__main__` of a consumer: settings, logs, loop, run."""

from collections.abc import Callable

import uvloop

from lorebus_kit.bus import BusProducer
from lorebus_kit.consumer import ConsumerProcess
from lorebus_kit.heap import settle_heap
from lorebus_kit.logs import configure_logs
from lorebus_kit.pools import watch_pool
from lorebus_kit.settings import SettingsT, load_settings
from lorebus_kit.tracing import traced_process
from lorebus_store.database import Database

Build = Callable[[SettingsT, Database, BusProducer], ConsumerProcess]


def main(service: str, settings_type: type[SettingsT], build: Build[SettingsT]) -> None:
    """Run a consumer until SIGTERM or SIGINT; a wrong setting ends it at once with exit code 2."""
    settings = load_settings(settings_type)
    configure_logs(service, settings.log_level)
    settle_heap()
    with traced_process(service, settings):
        uvloop.run(_run(service, settings, build))


async def _run(service: str, settings: SettingsT, build: Build[SettingsT]) -> None:
    database = Database(
        settings.database_url.get_secret_value(),
        pool_size=settings.database_pool_size,
        pooler=settings.database_pooler,
        application_name=f"lorebus-{service}",
    )
    watch_pool(database)
    bus = BusProducer(settings.bootstrap_servers, topic_prefix=settings.topic_prefix)
    await build(settings, database, bus).run()
