"""The organization of a local stack and the key that opens it, the same at every start."""

from pathlib import Path

from lorebus_kit.keys import ensure_local_key, key_hash
from lorebus_ops.local_services import LOCAL_ORGANIZATION
from lorebus_ops.private_files import read_private, write_private
from lorebus_store.acting import KeyHolder
from lorebus_store.database import Database
from lorebus_store.keys import find_key


async def local_key(database_url: str, path: Path) -> str:
    """The key kept in `path`; another one when there is none yet, or when the database does not know it (any more).

    Raises:
        TransientError: the database is away.
    """
    kept = read_private(path)
    if kept is not None and await _opens(database_url, kept):
        return kept
    key = await ensure_local_key(database_url, LOCAL_ORGANIZATION)
    write_private(path, key)
    return key


async def _opens(database_url: str, key: str) -> bool:
    database = Database(database_url, pool_size=1, application_name="lorebus-keys")
    hashed = key_hash(key.encode())
    try:
        async with database.read(KeyHolder(hashed)) as connection:
            return await find_key(connection, hashed) is not None
    finally:
        await database.dispose()
