"""What is wrong with a database, for the person who has to mend it: why nobody gets in, and what our role may not do.

The rule that must not break: looking changes nothing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from socket import gaierror
from typing import Final

from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy.exc import DBAPIError

from lorebus_store.acting import NOBODY
from lorebus_store.database import Connection, Database
from lorebus_store.logins import UNHELD_BECAUSE
from lorebus_store.migrate import current, head, scripts
from lorebus_store.statements import Statement


class Refusal(StrEnum):
    """Why a connection could not be made."""

    AWAY = "away"
    UNKNOWN_HOST = "unknown_host"
    WRONG_PASSWORD = "wrong_password"  # noqa: S105 - A cause's name.
    NO_ROLE = "no_role"
    NO_DATABASE = "no_database"
    FULL = "full"
    STARTING = "starting"
    OTHER = "other"


class SchemaState(StrEnum):
    """Where the tables are beside what this code was written for."""

    NEWEST = "newest"
    NONE = "none"
    BEHIND = "behind"
    AHEAD = "ahead"


@dataclass(frozen=True, slots=True)
class RoleFacts:
    """Who we are in the database: why row-level security would not hold us, and the tables that are closed to us."""

    role: str
    unheld_because: str | None
    denied_tables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SchemaFacts:
    """The revisions of the tables and of the code; `found` is None for a database that was never migrated."""

    state: SchemaState
    found: str | None
    wanted: str


_REFUSALS: Final[Mapping[str, Refusal]] = {
    "28P01": Refusal.WRONG_PASSWORD,
    "28000": Refusal.NO_ROLE,
    "3D000": Refusal.NO_DATABASE,
    "53300": Refusal.FULL,
    "57P03": Refusal.STARTING,
}
_ROLE: Final = Statement(
    """
    SELECT current_user, ARRAY(
        SELECT t.tablename FROM pg_catalog.pg_tables t
        WHERE t.schemaname = 'lorebus' AND NOT EXISTS (
            SELECT FROM pg_catalog.pg_roles r
            WHERE pg_has_role(r.oid, 'MEMBER') AND has_schema_privilege(r.oid, 'lorebus', 'USAGE')
                AND has_table_privilege(r.oid, format('%I.%I', t.schemaname, t.tablename), 'SELECT')
                AND (t.tablename = 'alembic_version' OR has_table_privilege(
                    r.oid, format('%I.%I', t.schemaname, t.tablename), 'INSERT, UPDATE'))
        )
        ORDER BY t.tablename
    )
    """
)
_UNHELD: Final = Statement(UNHELD_BECAUSE)
_CLOCK: Final = Statement("SELECT clock_timestamp()")


def refusal_of(error: BaseException) -> Refusal:
    """Why a connection was refused, from the error that the store made of it."""
    for cause in _causes(error):
        known = _REFUSALS.get(getattr(cause, "sqlstate", None) or "")
        if known is not None:
            return known
        if isinstance(cause, gaierror):
            return Refusal.UNKNOWN_HOST
        if isinstance(cause, OSError | TimeoutError):
            return Refusal.AWAY
    return Refusal.OTHER


async def role_facts(database: Database) -> RoleFacts:
    """Who we are there; `database` lets a login in that services would refuse.

    Raises:
        StoreError: nobody gets in; `refusal_of` says why.
    """
    async with database.read(NOBODY) as connection:
        name, denied = await _ROLE.row(connection)
        return RoleFacts(name, await _UNHELD.value(connection), tuple(denied))


async def clock_of(connection: Connection) -> datetime:
    """What time it is in the database."""
    now: datetime = await _CLOCK.value(connection)
    return now


async def schema_facts(database_url: str) -> SchemaFacts:
    """Where the tables are.

    Raises:
        StoreError: nobody gets in, or the role may not look.
    """
    found, wanted = await current(database_url), head()
    return SchemaFacts(_schema_state(found, wanted, scripts()), found, wanted)


def _schema_state(found: str | None, wanted: str, known: ScriptDirectory) -> SchemaState:
    if found is None:
        return SchemaState.NONE
    if found == wanted:
        return SchemaState.NEWEST
    try:
        known.get_revision(found)
    except CommandError:
        # A revision that this code has never heard of was made by newer code.
        return SchemaState.AHEAD
    return SchemaState.BEHIND


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        inner = error.orig if isinstance(error, DBAPIError) else None
        if inner is not None:
            yield from _causes(inner)
        error = error.__cause__
