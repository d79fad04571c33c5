"""Does PostgreSQL let us in, may our role do all, are the tables those of this code, is the clock right?"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

from lorebus_ops.checkup.finding import Finding, good, skipped, unreachable, wrong
from lorebus_ops.errors import RefusedError
from lorebus_ops.system_database import system_database
from lorebus_store.acting import APP_ROLE, NOBODY
from lorebus_store.database import Database
from lorebus_store.diagnosis import (
    Refusal,
    RoleFacts,
    SchemaState,
    clock_of,
    refusal_of,
    role_facts,
    schema_facts,
)
from lorebus_store.errors import StoreError

CLOCK_SECONDS: Final = 5.0
"""How far clocks may be apart: erasures and leases compare times of several machines."""

_LATER: Final = ("role", "migrations", "clock")
_REMEDIES: Final[Mapping[Refusal, tuple[str, str]]] = {
    Refusal.AWAY: (
        "{where} does not answer",
        "start PostgreSQL, or mend host and port in LOREBUS_DATABASE_URL, or the firewall in between",
    ),
    Refusal.UNKNOWN_HOST: ("{where}: the host has no address", "mend the host in LOREBUS_DATABASE_URL"),
    Refusal.WRONG_PASSWORD: (
        "{where} does not take the password of {user}",
        "mend the password in LOREBUS_DATABASE_URL (a sign that is special in a URL is written %40, %3A, %2F)",
    ),
    Refusal.NO_ROLE: (
        "{where} does not let {user} in",
        "make the role (CREATE ROLE ... LOGIN), or let it in by pg_hba.conf",
    ),
    Refusal.NO_DATABASE: (
        "there is no database {database} at {where}",
        "make it (CREATE DATABASE), then `lorebus migrate`; or mend the name in LOREBUS_DATABASE_URL",
    ),
    Refusal.FULL: (
        "{where} has no connection left",
        "raise max_connections, lower LOREBUS_DATABASE_POOL_SIZE, or put pgbouncer in between",
    ),
    Refusal.STARTING: ("{where} is starting or stopping", "wait, and look at its log"),
    Refusal.OTHER: ("{where} refuses: {error}", "look at PostgreSQL's log"),
}


async def check_database(
    url: str, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> tuple[Finding, ...]:
    """What is wrong with the database; `clock` is what this machine takes the time to be."""
    try:
        async with system_database(url, refuses_unheld=False) as database:
            role = await role_facts(database)
            return (
                good("database", f"{_where(url)} answers"),
                _role(role),
                await _migrations(url),
                await _clock(database, clock),
            )
    except RefusedError as error:
        first = wrong(
            "database", "bad_url", str(error), "write postgresql://user:password@host:port/database"
        )
    except StoreError as error:
        first = _refused(url, error)
    return (first, *(skipped(check, "the database has to be mended first") for check in _LATER))


def _refused(url: str, error: StoreError) -> Finding:
    refusal = refusal_of(error)
    says, remedy = _REMEDIES[refusal]
    parts = urlsplit(url)
    told = {
        "where": _where(url),
        "user": parts.username or "the user",
        "database": parts.path.lstrip("/"),
        "error": error,
    }
    return unreachable("database", refusal.value, says.format(**told), remedy)


def _role(role: RoleFacts) -> Finding:
    if role.denied_tables:
        tables = ", ".join(f"lorebus.{table}" for table in role.denied_tables)
        return wrong(
            *("role", "denied", f"{role.role} may not read and write {tables}"),
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO {APP_ROLE}; and, where it is no member of it yet,"
            f" GRANT {APP_ROLE} TO {role.role}",
        )
    if role.unheld_because is not None:
        says = f"{role.role} {role.unheld_because}: no service works over it, row-level security would not hold it"
        return wrong(
            *("role", "unheld", says),
            "give services a login of their own in LOREBUS_DATABASE_URL, and `lorebus migrate` also the owner's in"
            " LOREBUS_MIGRATIONS_DATABASE_URL: it makes the login",
        )
    return good("role", f"{role.role} may do what services do")


async def _migrations(url: str) -> Finding:
    schema = await schema_facts(url)
    match schema.state:
        case SchemaState.NONE:
            return wrong("migrations", "none", "the database has no tables of ours", "run `lorebus migrate`")
        case SchemaState.BEHIND:
            says = f"the tables are at {schema.found}, this code needs {schema.wanted}"
            return wrong("migrations", "behind", says, "run `lorebus migrate`; services may go on meanwhile")
        case SchemaState.AHEAD:
            says = f"the tables are at {schema.found}, which is newer than this code ({schema.wanted})"
            return wrong("migrations", "ahead", says, "upgrade this code; the tables are never taken back")
        case SchemaState.NEWEST:
            return good("migrations", f"the tables are at {schema.wanted}, which this code was written for")


async def _clock(database: Database, clock: Callable[[], datetime]) -> Finding:
    async with database.read(NOBODY) as connection:
        before = clock()
        told = await clock_of(connection)
        after = clock()
    # The database looked at its clock somewhere between the two.
    off = max((before - told).total_seconds(), (told - after).total_seconds(), 0.0)
    if off <= CLOCK_SECONDS:
        return good("clock", f"this machine and PostgreSQL are less than {CLOCK_SECONDS:.0f} s apart")
    side = "ahead of" if before > told else "behind"
    return wrong(
        *("clock", "off", f"this machine is {off:.0f} s {side} PostgreSQL"),
        "set both by NTP (chronyc tracking): erasures, leases and ids compare their times",
    )


def _where(url: str) -> str:
    """Host, port and database, without user and password."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = None
    return f"PostgreSQL at {parts.hostname or 'no host'}:{port or 5432}"
