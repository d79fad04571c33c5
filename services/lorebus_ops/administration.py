"""What an operator does to the database from a shell."""

from lorebus_ops.answers import carried_out, say, say_json
from lorebus_store.logins import ensure_login
from lorebus_store.migrate import current, upgrade


def migrate(owner_url: str, service_url: str | None, *, as_json: bool) -> None:
    """Bring the database to the newest tables, let the services' login in, and say where it is then.

    Without a login of their own no service starts to work; the database is migrated all the same.
    """
    revision = carried_out(_migrate(owner_url, service_url))
    if as_json:
        say_json({"revision": revision})
    else:
        say(f"the database is at revision {revision}")


async def _migrate(owner_url: str, service_url: str | None) -> str | None:
    await upgrade(owner_url)
    if service_url not in {None, owner_url}:
        await ensure_login(owner_url, str(service_url))
    return await current(owner_url)
