"""What an operator does to the database from a shell."""

from lorebus_ops.answers import carried_out, say, say_json
from lorebus_store.migrate import current, upgrade


def migrate(database_url: str, *, as_json: bool) -> None:
    """Bring the database to the newest tables, and say where it is then."""
    revision = carried_out(_migrate(database_url))
    if as_json:
        say_json({"revision": revision})
    else:
        say(f"the database is at revision {revision}")


async def _migrate(database_url: str) -> str | None:
    await upgrade(database_url)
    return await current(database_url)
