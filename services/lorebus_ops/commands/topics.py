"""`lorebus topics`: making the topics, looking whether they are as they should be, mending them."""

from typing import Annotated, Final

import typer

from lorebus_ops.options import AsJson, BootstrapServers, Prefix, local

app: Final = typer.Typer(no_args_is_help=True, help="The topics of the broker.")

Partitions = Annotated[int, typer.Option(min=1, help="Of each topic, at least.")]
ReplicationFactor = Annotated[
    int, typer.Option(min=1, help="Copies of each topic, at least; 3 in production.")
]


@app.command(
    epilog="""Examples:

lorebus topics apply

lorebus topics apply --partitions 12 --replication-factor 3 --alter --bootstrap-servers kafka-1:9092,kafka-2:9092"""
)
def apply(
    bootstrap_servers: BootstrapServers = None,
    partitions: Partitions = 6,
    replication_factor: ReplicationFactor = 1,
    prefix: Prefix = "",
    *,
    alter: Annotated[
        bool,
        typer.Option("--alter", help="Also give topics that are there more partitions, and set settings."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make the topics that are not there yet, dead letters included; with --alter, mend those that are.

    Partitions are never taken away, and the number of copies is changed by Kafka's own tools only. More partitions put
    a key's later records on another partition; nothing in Lorebus depends on the order of keys.

    Exit code 1: something is left that is not as it should be.
    """
    from lorebus_ops.topic_care import apply_wanted  # noqa: PLC0415 - Slow to import.

    servers = bootstrap_servers or local().bootstrap_servers
    apply_wanted(
        servers,
        partitions=partitions,
        replication_factor=replication_factor,
        prefix=prefix,
        alter=alter,
        as_json=as_json,
    )


@app.command(
    epilog="""Examples:

lorebus topics check

lorebus topics check --replication-factor 3 --json"""
)
def check(
    bootstrap_servers: BootstrapServers = None,
    partitions: Partitions = 6,
    replication_factor: ReplicationFactor = 1,
    prefix: Prefix = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Say which topics are missing, have too few partitions or copies, or keep records for another time.

    Exit code 1: something is not as it should be.
    """
    from lorebus_ops.topic_care import check_wanted  # noqa: PLC0415 - Slow to import.

    servers = bootstrap_servers or local().bootstrap_servers
    check_wanted(
        servers,
        partitions=partitions,
        replication_factor=replication_factor,
        prefix=prefix,
        as_json=as_json,
    )
