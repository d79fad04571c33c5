"""Does a model that hangs slow saves down? `python -m tests.bench.hanging_model` measures both in one run, by turns.

The latency of a save is the time from its event's `occurred_at` to the end of its run, as the store has it.
"""

import asyncio
import statistics
from collections.abc import Sequence
from functools import partial
from typing import Final
from uuid import uuid4

import asyncpg

from lorebus_kit.backoff import pause
from lorebus_kit.topics import apply_topics
from lorebus_store import settings
from tests.support import backends
from tests.support.databases import prepare
from tests.support.events import Scope, ended, new_scope, save
from tests.support.memory import ended_run, known_scope
from tests.support.model_server import ModelServer, hangs, lessons, model_server, says
from tests.support.running import Running, running
from tests.support.waiting import eventually, until

ROUNDS: Final = 7
SAVES: Final = 300
PAUSE_SECONDS: Final = 0.01
SLOTS: Final = 4
"""How many requests two distill processes have in hand with one model at most."""
QUIET: Final = "SELECT count(*) = 0 FROM lorebus.workflow_runs WHERE finished_at IS NULL"
FINISHED: Final = "SELECT id, finished_at FROM lorebus.workflow_runs WHERE id = ANY($1)"


def main() -> None:
    """Measure, and print a line for each round and the ratio of the medians."""
    with backends.postgres_server() as database_url, backends.broker() as servers:
        asyncio.run(_measure(database_url, servers))


async def _measure(owner_url: str, servers: str) -> None:
    database_url = await prepare(owner_url)
    topics = f"b{uuid4().hex[:8]}."
    await apply_topics(servers, prefix=topics, partitions=2)
    async with (
        model_server(otherwise=hangs()) as server,
        running(
            *("distill", "distill", "save"),
            database_url=database_url,
            bootstrap_servers=servers,
            topics=topics,
            extra={
                "LOREBUS_MODELS": f'{{"m": {{"base_url": "{server.base_url}", "model": "m"}}}}',
                "LOREBUS_DISTILL_RETRY_SECONDS": "0.1",
            },
        ) as made,
    ):
        database = await asyncpg.connect(owner_url)
        try:
            await _by_turns(made, server, database)
        finally:
            await database.close()


async def _by_turns(made: Running, server: ModelServer, database: asyncpg.Connection) -> None:
    scope = await _organization(made, None)
    stuck = [await _organization(made, "m") for _ in range(2 * SLOTS)]
    await _latencies(made, scope, database)
    quiet, hanging = [], []
    for number in range(1, ROUNDS + 1):
        quiet.append(statistics.median(await _latencies(made, scope, database)))
        await _hang(made, server, stuck)
        hanging.append(statistics.median(await _latencies(made, scope, database)))
        await _let_go(server, database)
        print(f"round {number}: median {quiet[-1]:.1f} ms, while the model hangs {hanging[-1]:.1f} ms")
    ratios = sorted(late / usual for late, usual in zip(hanging, quiet, strict=True))
    print(
        f"hanging over quiet: median of {ROUNDS} rounds {statistics.median(ratios):.2f},"
        f" from {ratios[0]:.2f} to {ratios[-1]:.2f}"
    )


async def _organization(made: Running, profile: str | None) -> Scope:
    scope = await known_scope(made.database, scope=new_scope())
    async with made.database.begin() as connection:
        await settings.put_organization(connection, scope.organization_uuid, model_profile=profile)
    return scope


async def _latencies(made: Running, scope: Scope, database: asyncpg.Connection) -> Sequence[float]:
    """Milliseconds of each of `SAVES` saves, which are sent one by one."""
    stop, sent = asyncio.Event(), {}
    for number in range(SAVES):
        event = save(scope, f"text {number}")
        sent[event.event_id] = event.occurred_at
        await made.wire.send(event)
        await pause(PAUSE_SECONDS, stop)
    for run_id in sent:
        await ended_run(made.database, scope, run_id)
    rows = await database.fetch(FINISHED, list(sent))
    return [1000 * (row["finished_at"] - sent[row["id"]]).total_seconds() for row in rows]


async def _hang(made: Running, server: ModelServer, scopes: Sequence[Scope]) -> None:
    server.otherwise = hangs()
    await made.wire.send(*(ended(scope) for scope in scopes))
    await until(lambda: server.now == SLOTS, what="both processes wait for the model")


async def _let_go(server: ModelServer, database: asyncpg.Connection) -> None:
    """Answer what hangs, and wait until nothing is under way."""
    server.otherwise = says(lessons())
    await server.close()
    await eventually(partial(database.fetchval, QUIET), what="every session is distilled")


if __name__ == "__main__":
    main()
