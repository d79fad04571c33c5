"""What went wrong at the database, named by what to do next.

The rule that must not break: trouble of the database itself (away, busy, restarting, deadlocked) is a
`TransientError`, so that no message is ever dead-lettered for it; whatever the statement or its values caused
is a `PermanentError`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import asyncpg
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

_TRANSIENT_CLASSES: Final = (
    "08",  # The connection failed.
    "28",  # It let nobody in: a password was changed. No statement of ours asks for rights.
    "53",  # Out of connections, memory or disk.
    "57P",  # The server stops, restarts or is starting.
    "58",  # The server's own input or output failed.
)
_TRANSIENT_STATES: Final = frozenset(
    {
        "26000",  # A pooler changed the server under a prepared statement.
        "25006",  # Read-only: a failover left us with a standby.
        "25P03",  # Idle in a transaction for too long.
        "25P04",  # A transaction took too long.
        "3D000",  # There is no such database, for the moment: only a connection asks for one.
        "40001",  # Serialization failure.
        "40P01",  # Deadlock.
        "55000",  # The database accepts no connections.
        "55P03",  # lock_timeout.
        "57014",  # statement_timeout, or cancelled by an operator.
    }
)


class StoreError(Exception):
    """Something that the database did not do."""


class TransientError(StoreError):
    """Try again, with growing and jittered waits: nothing was wrong with what was asked."""


class PermanentError(StoreError):
    """Asking again gives the same answer. `sqlstate` and `constraint` are None where the server named none."""

    def __init__(self, message: str, *, sqlstate: str | None = None, constraint: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.constraint = constraint


def translate(error: Exception) -> Exception:
    """The error as one of this module's two; one that is not about the database comes back as it is."""
    if isinstance(error, OSError | PoolTimeoutError):
        return TransientError(f"the database cannot be reached in time: {_first_line(error)}")
    if isinstance(error, asyncpg.InternalClientError):
        # The connection broke between two steps of the driver, or a migration changed what it remembered.
        return TransientError(_first_line(error))
    if not isinstance(error, SQLAlchemyError | asyncpg.PostgresError | asyncpg.InterfaceError):
        return error
    cause = _driver_error(error)
    lost = isinstance(error, DBAPIError) and error.connection_invalidated
    if lost or _is_transient(cause):
        return TransientError(_first_line(cause))
    return PermanentError(
        _first_line(cause),
        sqlstate=getattr(cause, "sqlstate", None),
        constraint=getattr(cause, "constraint_name", None),
    )


@contextmanager
def translated() -> Iterator[None]:
    """Raise the errors of the database inside the block as this module's, from their causes."""
    try:
        yield
    except (
        SQLAlchemyError,
        asyncpg.PostgresError,
        asyncpg.InterfaceError,
        asyncpg.InternalClientError,
        OSError,
    ) as error:
        raise translate(error) from error


def _driver_error(error: BaseException) -> BaseException:
    """The driver's own error at the bottom of SQLAlchemy's wrappers, which alone names the constraint."""
    while isinstance(error, DBAPIError) and error.orig is not None:
        error = error.orig
    return (
        error.__cause__
        if isinstance(error.__cause__, asyncpg.PostgresError | asyncpg.InterfaceError)
        else error
    )


def _is_transient(error: BaseException) -> bool:
    if isinstance(error, OSError | asyncpg.InvalidCachedStatementError):
        # The last one follows a migration under a running process; the next try prepares anew.
        return True
    state = getattr(error, "sqlstate", None) or ""
    if state:
        return state in _TRANSIENT_STATES or state.startswith(_TRANSIENT_CLASSES)
    # A closed connection has no state of its own; wrong arguments, the other kind, never speak of closing.
    return "closed" in str(error)


def _first_line(error: BaseException) -> str:
    """One line without the statement's values: those may be memory texts, which no log may hold."""
    text = str(error).partition("\n")[0].strip()
    if isinstance(error, ValueError) or (getattr(error, "sqlstate", None) or "").startswith("22"):
        # The driver and the server both name a wrong value behind a colon.
        text = text.partition(":")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
