"""`lorebus doctor`: what is wrong with a set-up, and what to do."""

from typing import Annotated, Final

import typer

from lorebus_ops.home import Home, default_home
from lorebus_ops.options import AsJson, BootstrapServers, DatabaseUrl, Prefix

EXAMPLES: Final = """Examples:

lorebus doctor

lorebus doctor --replication-factor 3 --json | jq '.findings[] | select(.health != "good")'"""


def doctor(
    database_url: DatabaseUrl = None,
    bootstrap_servers: BootstrapServers = None,
    prefix: Prefix = "",
    partitions: Annotated[int, typer.Option(min=1, help="Of each topic, at least.")] = 6,
    replication_factor: Annotated[
        int, typer.Option(min=1, help="Copies of each topic, at least; 3 in production.")
    ] = 1,
    *,
    as_json: AsJson = False,
) -> None:
    """Look at settings, broker, topics, database, role, migrations, clock and ports; say what is wrong and what to do.

    Run it with the environment of the service that does not work: settings are those of this process.

    Exit code 1: something is wrong. 3: PostgreSQL or the broker does not answer, or lets nobody in.
    """
    from lorebus_kit.topic_state import WantedTopics  # noqa: PLC0415 - Slow to import.
    from lorebus_ops.checkup.report import check_up  # noqa: PLC0415 - Slow to import.

    local = Home(default_home()).running()
    check_up(
        database_url=database_url or (local.database_url if local else None),
        bootstrap_servers=bootstrap_servers or (local.bootstrap_servers if local else None),
        wanted=WantedTopics(partitions, replication_factor, prefix),
        as_json=as_json,
    )
