"""`make soak`: minutes of mixed load over HTTP, then the offline checker; exit code 1 when it complains.

`python -m tests.bench.soak --minutes 1 --per-second 20` is a quick look. Half of the users ask the gateway that accepts
through the store, the others the one that accepts on the bus.
"""

import argparse
import asyncio
import json
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import asyncpg
import uvloop

from tests.bench.database import connect
from tests.bench.environment import environment
from tests.bench.lorebus_stack import LorebusStack, lorebus_stack
from tests.bench.patience import until
from tests.bench.places import PUBLISHED, data_folder
from tests.bench.plan import QUICK
from tests.bench.publish import FILE, remake
from tests.bench.resident import Resident, watched
from tests.bench.soak_charts import draw_soak
from tests.bench.soak_report import SOAK_FILE, soak_text, told
from tests.bench.soak_users import Answered, Desk, Pruner, Runtime, Saver, User
from tests.support.checker import (
    Complaints,
    check_distills,
    check_prunes,
    check_quiet,
    check_recalls,
    check_saves,
)
from tests.support.http_load import HttpLedger, new_key, open_sessions
from tests.support.load import Tenant, make_known, new_tenant

MINUTES: Final = 10.0
PER_SECOND: Final = 60.0
SAVERS: Final = 12
RUNTIMES: Final = 4
CAPPED_SAVERS: Final = 2
PRUNE_EVERY_SECONDS: Final = 5.0
CAP: Final = 200
NO_CAP: Final = 1_000_000
SETTLE_SECONDS: Final = 180.0
SAVED: Final = """
    SELECT coalesce(sum((state_data ->> 'saved')::bigint), 0)::bigint FROM lorebus.workflow_runs
    WHERE type = 'agents.memory-save'
"""


@dataclass(slots=True)
class Soak:
    """Tenants, ledgers and users of one soak."""

    stack: LorebusStack
    rng: random.Random
    answered: Answered = field(default_factory=Answered)
    saving: HttpLedger = field(default_factory=HttpLedger)
    ending: HttpLedger = field(default_factory=HttpLedger)
    pruning: HttpLedger = field(default_factory=HttpLedger)
    runtimes: list[Runtime] = field(default_factory=list)
    savers: Tenant | None = None
    enders: Tenant | None = None

    async def users(self, per_second: float) -> list[User]:
        """Everybody, at so many requests a second together."""
        made: list[User] = []
        self.savers, key = await self._tenant(NO_CAP)
        pause = SAVERS / (0.7 * per_second)
        made += await self._savers(self.savers, key, SAVERS, self.saving, pause, loads=True)
        self.enders, key = await self._tenant(NO_CAP)
        # A session is three requests.
        pause = 3 * RUNTIMES / (0.2 * per_second)
        self.runtimes = [
            Runtime(self._desk(number, self.ending, pause), self.rng, self.enders, key)
            for number in range(RUNTIMES)
        ]
        capped, key = await self._tenant(CAP)
        pause = CAPPED_SAVERS / (0.1 * per_second)
        made += await self._savers(capped, key, CAPPED_SAVERS, HttpLedger(), pause, loads=False)
        pruner = Pruner(self._desk(0, self.pruning, PRUNE_EVERY_SECONDS), self.rng, capped, key)
        return [*made, *self.runtimes, pruner]

    async def complaints(self, database: asyncpg.Connection) -> Complaints:
        """What the checker says once everything is quiet, and every answer that was no success."""

        async def quiet() -> bool:
            return not await check_quiet(database)

        await until(quiet, seconds=SETTLE_SECONDS)
        assert self.savers is not None
        assert self.enders is not None
        return (
            *self.answered.refused,
            *await check_quiet(database),
            *await check_saves(database, self.saving, organization=self.savers.organization_uuid),
            *await check_recalls(database, self.saving.recalls),
            *await check_distills(database, self.ending, organization=self.enders.organization_uuid),
            *await self._wrong_ratings(database),
            *await check_prunes(database, self.pruning, saved=await database.fetchval(SAVED)),
        )

    async def _wrong_ratings(self, database: asyncpg.Connection) -> Complaints:
        rows = await database.fetch("SELECT session_uuid, quality_score FROM lorebus.sessions")
        known = {row["session_uuid"]: row["quality_score"] for row in rows}
        rated = {session: score for one in self.runtimes for session, score in one.ratings.items()}
        return tuple(
            f"session {session} is not known to be rated {score}"
            for session, score in rated.items()
            if known.get(session) != score
        )

    async def _tenant(self, cap: int) -> tuple[Tenant, str]:
        tenant = new_tenant(self.rng)
        await make_known(self.stack.database_url, tenant, max_entries=cap)
        return tenant, await new_key(self.stack.database_url, tenant)

    async def _savers(
        self, tenant: Tenant, key: str, count: int, ledger: HttpLedger, pause_seconds: float, *, loads: bool
    ) -> list[Saver]:
        sessions = await open_sessions(self.stack.info.gateway_url, key, tenant, count=count)
        return [
            Saver(self._desk(number, ledger, pause_seconds), self.rng, session, loads=loads)
            for number, session in enumerate(sessions)
        ]

    def _desk(self, number: int, ledger: HttpLedger, pause_seconds: float) -> Desk:
        gateway = self.stack.store if number % 2 else self.stack.bus
        return Desk(gateway.address, self.answered, ledger, pause_seconds)


@asynccontextmanager
async def _used_by(users: list[User]) -> AsyncIterator[None]:
    stop = asyncio.Event()
    tasks = [asyncio.create_task(user.run(stop)) for user in users]
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(*tasks)


async def soak(*, minutes: float, per_second: float, seed: int) -> dict[str, Any]:
    """Run it; what is written to the JSON file."""
    began = environment()
    with data_folder() as folder:
        async with lorebus_stack(folder) as stack:
            made = Soak(stack, random.Random(seed))
            users = await made.users(per_second)
            resident = await _under_load(made, users, minutes)
            database = await connect(stack.database_url)
            try:
                complaints = await made.complaints(database)
            finally:
                await database.close()
    return {
        "environment": began,
        "minutes": minutes,
        "per_second": per_second,
        "seed": seed,
        **told(made.answered, resident),
        "complaints": complaints,
    }


async def _under_load(made: Soak, users: list[User], minutes: float) -> Resident:
    async with watched(made.stack.processes) as resident, _used_by(users):
        await asyncio.sleep(60 * minutes)
    return resident


def main() -> None:
    """Soak, write the files, and end with 1 when something was lost, counted twice or stuck."""
    words = argparse.ArgumentParser(description="Mixed load for a while, then the offline checker.")
    words.add_argument("--minutes", type=float, default=MINUTES)
    words.add_argument("--per-second", type=float, default=PER_SECOND)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--into", type=Path, help="Folder of what is written; a short soak is not published.")
    given = words.parse_args()
    folder = given.into or (PUBLISHED if given.minutes >= MINUTES else QUICK)
    results = uvloop.run(soak(minutes=given.minutes, per_second=given.per_second, seed=given.seed))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SOAK_FILE).write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    draw_soak(results, folder)
    if (folder / FILE).exists():
        remake(folder)
    print(soak_text(results))
    sys.exit(1 if results["complaints"] else 0)


if __name__ == "__main__":
    main()
