"""`lorebus lag`: how far each consumer group is behind."""

from typing import Annotated, Final

import typer

from lorebus_ops.options import AsJson, BootstrapServers, Prefix, local

EXAMPLES: Final = """Examples:

lorebus lag

lorebus lag --max 10000 --json || page-somebody

lorebus lag --partitions"""


def lag(
    bootstrap_servers: BootstrapServers = None,
    prefix: Prefix = "",
    most: Annotated[
        int | None,
        typer.Option("--max", min=0, help="Exit code 1 when a group is behind by more records than this."),
    ] = None,
    *,
    partitions: Annotated[
        bool, typer.Option("--partitions", help="A line for each partition, and not for each topic.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show how far each group is behind: what it acknowledged, where its topics end, how old the oldest record is."""
    from lorebus_ops.lag_report import report_lag  # noqa: PLC0415 - Slow to import.

    servers = bootstrap_servers or local().bootstrap_servers
    report_lag(servers, prefix=prefix, most=most, by_partition=partitions, as_json=as_json)
