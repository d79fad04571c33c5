"""What `lorebus doctor` does: every check, and then what each found."""

import asyncio
from collections.abc import Sequence
from typing import Final

import typer

from lorebus_kit.topic_state import WantedTopics
from lorebus_ops.answers import say, say_json
from lorebus_ops.checkup.broker import check_broker
from lorebus_ops.checkup.database import check_database
from lorebus_ops.checkup.finding import Finding, Health, skipped, wrong
from lorebus_ops.checkup.ports import check_ports
from lorebus_ops.checkup.settings import check_settings
from lorebus_ops.errors import EXIT_FAILED, EXIT_UNREACHABLE

_SIGNS: Final = {
    Health.GOOD: "good",
    Health.WARNING: "warn",
    Health.WRONG: "WRONG",
    Health.UNREACHABLE: "AWAY",
    Health.SKIPPED: "-",
}


def check_up(
    *, database_url: str | None, bootstrap_servers: str | None, wanted: WantedTopics, as_json: bool
) -> None:
    """Look at everything and tell what was found; None stands for an address that nobody named.

    Raises:
        typer.Exit: 1, something is wrong; 3, a store does not answer or lets nobody in.
    """
    found = asyncio.run(_look(database_url, bootstrap_servers, wanted))
    is_good = all(one.health not in {Health.WRONG, Health.UNREACHABLE} for one in found)
    if as_json:
        say_json({"ok": is_good, "findings": found})
    else:
        _tell(found)
    if any(one.health is Health.UNREACHABLE for one in found):
        raise typer.Exit(EXIT_UNREACHABLE)
    if not is_good:
        raise typer.Exit(EXIT_FAILED)


async def _look(
    database_url: str | None, bootstrap_servers: str | None, wanted: WantedTopics
) -> tuple[Finding, ...]:
    async def broker() -> tuple[Finding, ...]:
        if bootstrap_servers is None:
            return (_unnamed("broker", "LOREBUS_BOOTSTRAP_SERVERS"), skipped("topics", "no broker is named"))
        return await check_broker(bootstrap_servers, wanted)

    async def database() -> tuple[Finding, ...]:
        if database_url is None:
            return (_unnamed("database", "LOREBUS_DATABASE_URL"),)
        return await check_database(database_url)

    of_stores = await asyncio.gather(broker(), database(), check_ports())
    return (*check_settings(), *(one for found in of_stores for one in found))


def _unnamed(check: str, variable: str) -> Finding:
    return wrong(
        *(check, "not_named", f"{variable} is not set, and no local stack is up here"),
        f"set {variable}, or start the local stack: `lorebus up`",
    )


def _tell(found: Sequence[Finding]) -> None:
    for one in found:
        say(f"{_SIGNS[one.health]:<5}  {one.check:<10}  {one.says}")
        if one.remedy is not None:
            say(f"{'':<5}  {'':<10}  -> {one.remedy}")
