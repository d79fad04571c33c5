"""The logins of services: made as members of the group that row-level security holds, and refused when they are not.

The rule that must not break: no service works over a connection of a superuser, of a role with BYPASSRLS or of the
tables' owner, because row-level security would not stand between organizations there.
"""

from typing import Any, Final

import asyncpg
from sqlalchemy.engine import make_url
from sqlalchemy.pool import ConnectionPoolEntry

from lorebus_store.acting import APP_ROLE
from lorebus_store.errors import TransientError, translated

# A database that was not migrated yet has no such role and no tables: what is asked of it fails by itself.
UNHELD_BECAUSE: Final = f"""
SELECT CASE
    WHEN rolsuper THEN 'is a superuser'
    WHEN rolbypassrls THEN 'has BYPASSRLS'
    WHEN EXISTS (
        SELECT FROM pg_catalog.pg_class
        WHERE relnamespace = to_regnamespace('lorebus') AND relkind = 'r' AND pg_has_role(relowner, 'USAGE')
    ) THEN 'owns the tables'
    WHEN NOT pg_has_role(to_regrole('{APP_ROLE}'), 'USAGE') THEN 'is no member of {APP_ROLE}'
END
FROM pg_catalog.pg_roles WHERE rolname = current_user
"""
"""Query for why row-level security would not hold the current user, in words; null where it does."""
_TIMEOUT_SECONDS: Final = 5.0
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('lorebus.logins', 0))"
_IS_THERE: Final = "SELECT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = $1)"
_MAKE: Final = "SELECT format('%s ROLE %I LOGIN PASSWORD %L', $1::text, $2::text, $3::text)"
_GRANT: Final = f"SELECT format('GRANT {APP_ROLE} TO %I', $1::text)"


class UnheldLoginError(TransientError):
    """The login may see every organization's rows; nothing is done over it until an operator gives another."""


def refuse_unheld(connection: Any, _record: ConnectionPoolEntry) -> None:  # noqa: ANN401  # SQLAlchemy's untyped adapter.
    """Let a pool keep a new connection only if row-level security holds its login.

    Raises:
        UnheldLoginError: it does not.
    """
    problem = connection.run_async(lambda raw: raw.fetchval(UNHELD_BECAUSE, timeout=_TIMEOUT_SECONDS))
    if problem is not None:
        connection.driver_connection.terminate()
        raise UnheldLoginError(
            f"the login of LOREBUS_DATABASE_URL {problem}: services connect as a member of {APP_ROLE} that"
            " row-level security holds, see docs/decisions/row-level-security.md"
        )


async def ensure_login(owner_url: str, service_url: str) -> None:
    """Make the login that services connect with, or give it the password of their address; the database was migrated.

    Any number of processes may do it at once with the same password.

    Raises:
        TransientError: the database is away.
        PermanentError: the owner may make no roles; then a person makes it.
        ValueError: the address names no login, or the owner's own.
    """
    login = make_url(service_url)
    if login.username in {None, make_url(owner_url).username}:
        raise ValueError("services need a login of their own, other than that of the tables' owner")
    with translated():
        connection = await asyncpg.connect(_plain(owner_url), timeout=_TIMEOUT_SECONDS)
        try:
            async with connection.transaction():
                await connection.execute(_LOCK)
                verb = "ALTER" if await connection.fetchval(_IS_THERE, login.username) else "CREATE"
                make = await connection.fetchval(_MAKE, verb, login.username, login.password)
                await connection.execute(make)
                await connection.execute(await connection.fetchval(_GRANT, login.username))
        finally:
            await connection.close()


def _plain(url: str) -> str:
    """The address as the driver itself takes it."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
