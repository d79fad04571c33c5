"""Whether a process can work with its database: it answers, and row-level security holds the login."""

import asyncio
from typing import Final, Protocol

from lorebus_store.errors import StoreError
from lorebus_store.logins import UnheldLoginError

ANSWER_SECONDS: Final = 2.0
AWAY: Final = "PostgreSQL does not answer; waiting for it"
NOT_ASKED: Final = "PostgreSQL was not asked yet"


class Answering(Protocol):
    """What is asked (`lorebus_store.database.Database`)."""

    async def ping(self) -> None:
        """Ask for an answer; StoreError when there is none."""


async def database_problem(database: Answering) -> str | None:
    """Why nothing can be done with the database now, as a sentence for an operator; None when all is well."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await database.ping()
    except UnheldLoginError as error:
        return str(error)
    except (StoreError, TimeoutError):
        return AWAY
    return None
