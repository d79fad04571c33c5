"""Options that several commands have, and where a command finds the stack that it was not told of."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import typer

from lorebus_ops.errors import EXIT_UNREACHABLE
from lorebus_ops.home import Home, LocalInfo, default_home

DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        envvar="LOREBUS_DATABASE_URL", help="PostgreSQL; left out, that of the running local stack."
    ),
]
MigrationsDatabaseUrl = Annotated[
    str | None,
    typer.Option(
        envvar="LOREBUS_MIGRATIONS_DATABASE_URL",
        help="The same PostgreSQL as the owner of the tables reaches it; left out, as services do.",
    ),
]
BootstrapServers = Annotated[
    str | None,
    typer.Option(
        envvar="LOREBUS_BOOTSTRAP_SERVERS", help="Kafka; left out, that of the running local stack."
    ),
]
Prefix = Annotated[
    str, typer.Option(envvar="LOREBUS_TOPIC_PREFIX", help="What stands before every topic and group.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Answer with JSON on standard output.")]

_UNITS: Final = {"s": "seconds", "min": "minutes", "m": "minutes", "h": "hours", "d": "days"}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(s|min|m|h|d)")


@dataclass(frozen=True, slots=True)
class Stores:
    """Where PostgreSQL and the broker are."""

    database_url: str
    bootstrap_servers: str
    prefix: str = ""


def local() -> LocalInfo:
    """The local stack of this folder.

    Raises:
        typer.Exit: 3, none is up.
    """
    info = Home(default_home()).running()
    if info is None:
        typer.echo(
            "lorebus: no local stack is up here; start it with `lorebus up`, or give the address", err=True
        )
        raise typer.Exit(EXIT_UNREACHABLE)
    return info


def stores(database_url: str | None, bootstrap_servers: str | None, prefix: str = "") -> Stores:
    """The stores that were named, and where one was not, the local stack's."""
    return Stores(
        database_url or local().database_url, bootstrap_servers or local().bootstrap_servers, prefix
    )


def broker_only(bootstrap_servers: str | None, prefix: str) -> Stores:
    """As `stores`, for what needs no database."""
    return Stores("", bootstrap_servers or local().bootstrap_servers, prefix)


def duration(written: str) -> timedelta:
    """A length of time, written as `30s`, `10min`, `2h` or `7d`.

    Raises:
        typer.BadParameter: it is not written so.
    """
    found = _DURATION.fullmatch(written.strip())
    if found is None:
        raise typer.BadParameter(f"{written!r} is no length of time: write 30s, 10min, 2h or 7d")
    return timedelta(**{_UNITS[found[2]]: float(found[1])})


def moment(written: str) -> datetime:
    """A time: RFC 3339 with an offset, or how long ago, as `duration` has it.

    Raises:
        typer.BadParameter: it is neither.
    """
    try:
        at = datetime.fromisoformat(written)
    except ValueError:
        return datetime.now(UTC) - duration(written)
    if at.tzinfo is None:
        raise typer.BadParameter(f"{written!r} has no offset: write 2026-01-31T22:00:00Z")
    return at
