"""What a database and a broker get before the services start: tables, a login, the local key, topics.

Importing this takes longer than starting either, so the stack imports it while they start.
"""

from pathlib import Path
from typing import Final

from lorebus_kit.topics import apply_topics
from lorebus_ops.errors import StackError
from lorebus_ops.local_key import local_key
from lorebus_store.errors import StoreError
from lorebus_store.logins import ensure_login
from lorebus_store.migrate import upgrade

PARTITIONS: Final = 6


async def prepare_database(owner_url: str, service_url: str, key_path: Path) -> str:
    """Migrate, let services in, and give the API key of the local organization.

    Raises:
        StackError: the database refused, or went away.
    """
    try:
        await upgrade(owner_url)
        await ensure_login(owner_url, service_url)
        return await local_key(service_url, key_path)
    except StoreError as error:
        raise StackError(f"the database could not be migrated: {error}") from error


async def prepare_broker(bootstrap_servers: str) -> str:
    """Make the topics; gives the address back.

    Raises:
        StackError: the broker refused, or did not answer in time.
    """
    try:
        await apply_topics(bootstrap_servers, partitions=PARTITIONS)
    except StoreError as error:
        raise StackError(str(error)) from error
    return bootstrap_servers
