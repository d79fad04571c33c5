"""`lorebus tail`: what changes in an organization's memory, as it happens."""

from typing import Annotated, Final, Literal
from uuid import UUID

import typer

EXAMPLES: Final = """Examples:

lorebus tail

lorebus tail --agent-config 5a1c5a52-6f2c-4f0c-9d35-0c6f6f1f7a10 --kind saved

lorebus tail --json | jq -r 'select(.event == "memory.changed") | .data.ids[]'"""


def tail(
    agent_config: Annotated[UUID | None, typer.Option(help="Only of this agent config.")] = None,
    kind: Annotated[
        Literal["saved", "reinforced", "deleted", "pruned", "labelled"] | None,
        typer.Option(help="Only changes of this kind."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Begin behind this event: its `id`, as --json tells it."),
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many changes.")] = None,
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON object a line, with id, event and data.")
    ] = False,
) -> None:
    """Follow the memory's changes until Ctrl-C: ids, never texts.

    Of the gateway that LOREBUS_URL names (with LOREBUS_API_KEY), or else the running local stack's.

    When the connection ends, it is made again, and goes on behind the last event (`Last-Event-ID`).
    """
    from lorebus_ops.feed_client import follow  # noqa: PLC0415 - Slow to import.

    conditions = {"agent_config_uuid": agent_config, "kind": kind}
    follow(
        {name: str(value) for name, value in conditions.items() if value is not None},
        since=since,
        count=count,
        as_json=as_json,
    )
