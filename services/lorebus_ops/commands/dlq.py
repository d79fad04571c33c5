"""`lorebus dlq`: dead letters found, understood, replayed or dropped."""

from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

import typer

from lorebus_ops.letter_filter import LetterFilter
from lorebus_ops.options import (
    AsJson,
    BootstrapServers,
    DatabaseUrl,
    Prefix,
    broker_only,
    local,
    moment,
    stores,
)

app: Final = typer.Typer(
    no_args_is_help=True,
    help="Dead letters: records that a consumer could not handle, kept for 30 days in <topic>.<group>.dlq.",
)

Letters = Annotated[
    list[str] | None,
    typer.Argument(metavar="[LETTER]...", help="Only these: <dead-letter topic>/<partition>/<offset>."),
]
OfTopic = Annotated[str | None, typer.Option("--topic", help="Only of this topic, or dead-letter topic.")]
OfGroup = Annotated[str | None, typer.Option("--group", help="Only what this consumer group gave up.")]
ErrorType = Annotated[str | None, typer.Option(help="Only with this error, as `list` shows it.")]
Organization = Annotated[UUID | None, typer.Option(help="Only this organization's.")]
EventId = Annotated[UUID | None, typer.Option(help="Only of this event; of a save or prune, the run's id.")]
Since = Annotated[
    datetime | None,
    typer.Option(parser=moment, metavar="TIME", help="Set aside since: RFC 3339, or 30min, 2h, 7d ago."),
]
Until = Annotated[
    datetime | None, typer.Option(parser=moment, metavar="TIME", help="Set aside until, as --since.")
]
WithHandled = Annotated[
    bool, typer.Option("--handled", help="Also letters that were replayed or dropped before.")
]
All = Annotated[
    bool, typer.Option("--all", help="Every letter that waits; needed where nothing else says which.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do it. Without this it is a dry run.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done: the default.")]
Limit = Annotated[
    int, typer.Option(min=1, max=100_000, help="At most so many, oldest first in each partition.")
]


@app.command(
    "list",
    epilog="""Examples:

lorebus dlq list

lorebus dlq list --topic memory.save-requested --since 2h

lorebus dlq list --error-type RejectedError --json | jq -r '.letters[].letter'""",
)
def list_letters(
    letters: Letters = None,
    *,
    topic: OfTopic = None,
    group: OfGroup = None,
    error_type: ErrorType = None,
    organization: Organization = None,
    event_id: EventId = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 100,
    bootstrap_servers: BootstrapServers = None,
    prefix: Prefix = "",
    handled: WithHandled = False,
    as_json: AsJson = False,
) -> None:
    """List the dead letters that wait for somebody. No text of a memory is shown."""
    from lorebus_ops.letter_views import list_found  # noqa: PLC0415 - Slow to import.

    wanted = LetterFilter.of(
        letters,
        topic=topic,
        group=group,
        error_type=error_type,
        organization=organization,
        event_id=event_id,
        since=since,
        until=until,
    )
    servers = bootstrap_servers or local().bootstrap_servers
    list_found(servers, wanted, prefix=prefix, handled=handled, limit=limit, as_json=as_json)


@app.command(epilog="Example: lorebus dlq show memory.save-requested.lorebus.save.dlq/2/17")
def show(
    letter: Annotated[
        str, typer.Argument(help="<dead-letter topic>/<partition>/<offset>, as `list` has it.")
    ],
    bootstrap_servers: BootstrapServers = None,
    prefix: Prefix = "",
    *,
    show_text: Annotated[
        bool,
        typer.Option("--show-text", help="Show the record's value too, which may hold texts of memories."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show a letter: where it comes from, why it was set aside, what that means and what to do.

    Exit code 1: there is no such letter.
    """
    from lorebus_ops.letter_views import show_letter  # noqa: PLC0415 - Slow to import.

    servers = bootstrap_servers or local().bootstrap_servers
    show_letter(servers, letter, prefix=prefix, show_text=show_text, as_json=as_json)


@app.command(
    epilog="""Examples:

lorebus dlq replay memory.save-requested.lorebus.save.dlq/2/17

lorebus dlq replay --topic memory.save-requested --error-type PermanentError --since 2h --yes

lorebus dlq replay --all --yes --json"""
)
def replay(
    letters: Letters = None,
    *,
    topic: OfTopic = None,
    group: OfGroup = None,
    error_type: ErrorType = None,
    organization: Organization = None,
    event_id: EventId = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 1_000,
    database_url: DatabaseUrl = None,
    bootstrap_servers: BootstrapServers = None,
    prefix: Prefix = "",
    every: All = False,
    handled: WithHandled = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Send letters to the topic that they came from again, as they were, with a header `lorebus-replayed-from`.

    An event that was handled meanwhile is found done, so replaying twice applies once.

    Not replayed is what is about somebody who was erased, and what no consumer could read.

    Exit code 1: at least one of the letters is not replayed.
    """
    from lorebus_ops.letter_work import replay_found  # noqa: PLC0415 - Slow to import.

    wanted = LetterFilter.of(
        letters,
        topic=topic,
        group=group,
        error_type=error_type,
        organization=organization,
        event_id=event_id,
        since=since,
        until=until,
    )
    wanted.refuse_everything(unless=every)
    replay_found(
        stores(database_url, bootstrap_servers, prefix),
        wanted,
        handled=handled,
        limit=limit,
        is_dry=dry_run or not yes,
        as_json=as_json,
    )


@app.command(
    epilog="""Examples:

lorebus dlq drop memory.save-requested.lorebus.save.dlq/2/17 --yes

lorebus dlq drop --error-type WireError --until 7d --yes"""
)
def drop(
    letters: Letters = None,
    *,
    topic: OfTopic = None,
    group: OfGroup = None,
    error_type: ErrorType = None,
    organization: Organization = None,
    event_id: EventId = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 1_000,
    bootstrap_servers: BootstrapServers = None,
    prefix: Prefix = "",
    every: All = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Mark letters as dropped, so that `list` and `replay` pass over them.

    Kafka deletes no single record: the bytes stay in the topic until 30 days after they were written, and --handled
    still shows them. To be rid of them sooner, delete the head of the partition with kafka-delete-records.sh.
    """
    from lorebus_ops.letter_work import drop_found  # noqa: PLC0415 - Slow to import.

    wanted = LetterFilter.of(
        letters,
        topic=topic,
        group=group,
        error_type=error_type,
        organization=organization,
        event_id=event_id,
        since=since,
        until=until,
    )
    wanted.refuse_everything(unless=every)
    drop_found(
        broker_only(bootstrap_servers, prefix),
        wanted,
        limit=limit,
        is_dry=dry_run or not yes,
        as_json=as_json,
    )
