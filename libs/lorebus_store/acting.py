"""Whom a transaction acts for: what row-level security lets it see and write.

The rule that must not break: whoever begins a transaction says it, there is no default, and it ends with the
transaction. A connection that nobody has told anything sees no row of anybody
(docs/decisions/row-level-security.md).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self, TypeAlias, assert_never
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_store.statements import driver_of

APP_ROLE: Final = "lorebus_app"
"""The group of every login of a service: it owns nothing, and policies hold it to the organizations it acts for."""

ORGANIZATIONS_SETTING: Final = "lorebus.organizations"
KEY_HASH_SETTING: Final = "lorebus.key_hash"


@dataclass(frozen=True, slots=True)
class Tenants:
    """The organizations whose rows are seen and written; of none, nothing is."""

    organizations: frozenset[UUID]

    @classmethod
    def of(cls, *organizations: UUID) -> Self:
        """These organizations."""
        return cls(frozenset(organizations))

    @classmethod
    def of_all(cls, organizations: Iterable[UUID]) -> Self:
        """The organizations of a batch, each named as often as it comes."""
        return cls(frozenset(organizations))


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """Somebody who shows an API key and is not known yet: sees the row of the key with this sha256, and no other."""

    key_hash: bytes


class SystemRole(StrEnum):
    """The system's own work on queues of all organizations, each a database role with rights to little else."""

    RELAY = "lorebus_relay"
    """Publishes the outbox: sees the outbox and its leases, and nothing besides."""

    HOUSEKEEPING = "lorebus_housekeeping"
    """Finds what is due, stale or past its keeping: sees ids, states and times, and no text, input or payload."""


ActsFor: TypeAlias = Tenants | KeyHolder | SystemRole


NOBODY: Final = Tenants.of()
"""Who acts for no organization, and sees no row: the database is asked about itself."""


def opening(acts_for: ActsFor) -> str:
    """The SQL that makes the rest of a transaction act for somebody; it needs no parameters and gives no rows."""
    match acts_for:
        case Tenants():
            return f"SET LOCAL {ORGANIZATIONS_SETTING} = '{named(acts_for)}'"
        case KeyHolder(key_hash):
            return f"SET LOCAL {KEY_HASH_SETTING} = '{key_hash.hex()}'"
        case SystemRole():
            return f"SET LOCAL ROLE {acts_for.value}"
        case _:
            assert_never(acts_for)


GATE: Final = (
    f"(SELECT set_config('{ORGANIZATIONS_SETTING}', CAST(:acts_for AS text), true) AS organizations)"
)
"""The same as a part of a statement, for reads that are a transaction by themselves (`Database.glance`).

It goes first in FROM, as `acting`, and all else stands in LATERAL subselects with `acting.organizations IS NOT NULL`,
so that no row is looked at before. Where it came too late, nothing would be seen.
"""


def named(tenants: Tenants) -> str:
    """The organizations as the setting has them, and as `GATE` takes them by `:acts_for`."""
    # The text of a UUID is hexadecimal digits and hyphens, so that it can stand in a statement.
    return ",".join(sorted(str(UUID(int=organization.int)) for organization in tenants.organizations))


async def narrow(conn: AsyncConnection, tenants: Tenants) -> None:
    """Go on for these organizations alone, in a transaction that the system's own work began.

    What the work found, it changes and passes on with no more rights than a request of theirs would have.

    Raises:
        TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError: as `Statement.rows`.
    """
    driver = driver_of(conn)
    try:
        await driver.execute(f"SET LOCAL ROLE NONE; {opening(tenants)}")
    except TimeoutError:
        driver.terminate()
        raise
