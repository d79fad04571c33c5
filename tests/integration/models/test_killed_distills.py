"""The distill process while a model is asked, killed or kept waiting: real processes, HTTP, broker and store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from lorebus_contracts.events import SessionEnded
from lorebus_contracts.topics import DISTILL_GROUP, SESSION_ENDED
from lorebus_kit.run_ids import distill_run_id, distill_save_id
from lorebus_store import settings
from tests.support.databases import let_leases_run_out, owner_of
from tests.support.events import Scope, ended, new_scope, save
from tests.support.memory import ended_run, entries_of, find_run, known_scope
from tests.support.model_server import Asked, ModelServer, hangs, lessons, model_server, says
from tests.support.running import Running, running
from tests.support.waiting import eventually, until

LESSON = "Pay before `move_booking`."
SAVES = 200


@asynccontextmanager
async def distilling(
    server: ModelServer, database_url: str, bootstrap_servers: str, topics: str, *, processes: int = 1
) -> AsyncIterator[Running]:
    """Distill and save as processes, with this model."""
    profile = f'{{"base_url": "{server.base_url}", "model": "m"}}'
    async with running(
        *["distill"] * processes,
        "save",
        database_url=database_url,
        bootstrap_servers=bootstrap_servers,
        topics=topics,
        extra={"LOREBUS_MODELS": f'{{"m": {profile}}}', "LOREBUS_DISTILL_RETRY_SECONDS": "0.1"},
    ) as made:
        yield made


async def organization(running: Running, profile: str | None) -> Scope:
    scope = await known_scope(running.database, scope=new_scope())
    async with running.database.begin() as connection:
        await settings.put_organization(connection, scope.organization_uuid, model_profile=profile)
    return scope


async def distilled(running: Running, event: SessionEnded) -> dict[str, object]:
    """What the run of a session's distill says once it has ended, its state and attempts included."""
    scope = Scope(event.organization_uuid, event.agent_config_uuid)
    run = await ended_run(running.database, scope, distill_run_id(event.session_uuid))
    return {"state_name": run.state_name, "attempts": run.attempts, **run.state_data}


@pytest.mark.timeout(300)
async def test_a_process_killed_after_the_answer_and_before_the_commit_saves_once_with_one_more_call(
    database_url: str, bootstrap_servers: str, topics: str
) -> None:
    async with (
        model_server(otherwise=says(lessons(LESSON))) as server,
        distilling(server, database_url, bootstrap_servers, topics) as made,
    ):
        scope = await organization(made, "m")
        event = ended(scope)
        run_id = distill_run_id(event.session_uuid)
        holding = await asyncpg.connect(owner_of(database_url))
        async with holding.transaction():
            # Whoever asks for the model's answer first takes the run's row, so that the commit has to wait for us.
            async def lock_then_answer(asked: Asked, writer: object) -> None:
                await holding.execute("SELECT 1 FROM lorebus.workflow_runs WHERE id = $1 FOR UPDATE", run_id)
                await says(lessons(LESSON))(asked, writer)  # type: ignore[arg-type]  # A writer as the server gives it.

            server.script.append(lock_then_answer)
            await made.wire.send(event)
            await server.until_asked(1)

            async def is_finishing() -> bool:
                waiting = await asyncpg.connect(owner_of(database_url))
                try:
                    return bool(
                        await waiting.fetchval(
                            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                            " AND datname = current_database() AND query LIKE '%finished_at%'"
                        )
                    )
                finally:
                    await waiting.close()

            await eventually(is_finishing, what="the answer is there and its commit waits")
            made.service.kill()
        await holding.close()
        before = await find_run(made.database, scope, run_id)
        assert before is not None
        assert before.state_name == "run"

        await let_leases_run_out(database_url)
        await made.begin_again()
        run = await distilled(made, event)
        await ended_run(made.database, scope, distill_save_id(event.session_uuid))

        assert (run["state_name"], run["attempts"]) == ("completed", 2)
        assert len(server.asked) == 2
        [entry] = await entries_of(made.database, scope)
        assert (entry.text, entry.reinforcement_count) == (LESSON, 0)


@pytest.mark.timeout(300)
async def test_a_session_that_kills_its_process_each_time_fails_after_five_claims_and_others_go_on(
    database_url: str, bootstrap_servers: str, topics: str
) -> None:
    async with (
        model_server() as server,
        distilling(server, database_url, bootstrap_servers, topics) as made,
    ):

        async def kill_the_asker(asked: Asked, writer: object) -> None:
            if "bomb" in asked.prompt:
                made.service.kill()
            else:
                await says(lessons(LESSON))(asked, writer)  # type: ignore[arg-type]  # As above.

        server.otherwise = kill_the_asker
        bombed = await organization(made, "m")
        bomb, harmless = ended(bombed, task="a bomb"), ended(bombed, task="harmless")
        ruled = ended(await organization(made, None))
        await made.wire.send(bomb, harmless, ruled)
        for _ in range(5):
            await until(lambda: made.service.process.poll() is not None, what="the process is killed")
            await let_leases_run_out(database_url)
            made.service.start()
        run = await distilled(made, bomb)
        others = [await distilled(made, event) for event in (harmless, ruled)]

        assert (run["state_name"], run["failure_reason"]) == ("failed", "too_many_attempts")
        assert run["error"] == "given up after 5 attempts"
        assert sum("bomb" in asked.prompt for asked in server.asked) == 5
        assert [other["state_name"] for other in others] == ["completed", "completed"]
        assert made.service.process.poll() is None
        await ended_run(made.database, bombed, distill_save_id(harmless.session_uuid))
        assert [entry.text for entry in await entries_of(made.database, bombed)] == [LESSON]


@pytest.mark.timeout(300)
async def test_while_a_model_hangs_other_sessions_are_distilled_and_saves_and_offsets_go_on(
    database_url: str, bootstrap_servers: str, topics: str
) -> None:
    async with (
        model_server(otherwise=hangs()) as server,
        distilling(server, database_url, bootstrap_servers, topics, processes=2) as made,
    ):
        stuck = [ended(await organization(made, "m")) for _ in range(8)]
        await made.wire.send(*stuck)
        # Of this model each of the two processes has as many in hand as its profile allows.
        await until(lambda: server.now == 4, what="both processes wait for the model")

        scope = await organization(made, None)
        others = [ended(scope) for _ in range(10)]
        saves = [save(scope, f"text {number}") for number in range(SAVES)]
        await made.wire.send(*others, *saves)
        runs = [await distilled(made, event) for event in others]
        for asked in saves:
            await ended_run(made.database, scope, asked.event_id)
        await made.wire.settled(DISTILL_GROUP, SESSION_ENDED)

        assert {run["state_name"] for run in runs} == {"completed"}
        assert len(await entries_of(made.database, scope)) == SAVES
        assert (server.now, len(server.asked)) == (4, 4)
        for event in stuck:
            run = await find_run(
                made.database,
                Scope(event.organization_uuid, event.agent_config_uuid),
                distill_run_id(event.session_uuid),
            )
            assert run is not None
            assert run.state_name == "run"
