"""Distill runs: claimed by one worker at a time, lost leases included."""

import asyncio
from typing import Final
from uuid import UUID, uuid4

from lorebus_contracts.workflows import State, WorkflowType
from lorebus_store import leases, runs, settings
from lorebus_store.acting import SystemRole, Tenants
from lorebus_store.leases import ClaimedRun
from lorebus_store.run_rows import InitiatedRun
from tests.integration.store.builders import (
    NOON,
    ORGANIZATION,
    OTHER_ORGANIZATION,
    StoreDatabase,
    distill_start,
    plan,
    run_sql,
    value,
)

MANY: Final = 1_000


async def claim(
    database: StoreDatabase, *, limit: int = 10, per_organization: int = MANY, lease_seconds: float = 60
) -> tuple[ClaimedRun, ...]:
    async with database.begin(SystemRole.HOUSEKEEPING) as conn:
        return await leases.claim_due(
            conn, limit=limit, lease_seconds=lease_seconds, per_organization=per_organization
        )


async def lose_the_lease(database: StoreDatabase, claimed: ClaimedRun) -> None:
    async with database.begin() as conn:
        await run_sql(
            conn,
            """
            UPDATE lorebus.workflow_runs SET due_at = now() - interval '1 second', lease_until = now() - interval '1 s'
            WHERE id = :id
            """,
            id=claimed.id,
        )


async def finish(database: StoreDatabase, claimed: ClaimedRun) -> bool:
    async with database.begin() as conn:
        return await leases.finish_leased(
            conn,
            organization_uuid=claimed.organization_uuid,
            run_id=claimed.id,
            token=claimed.token,
            state_name=State.COMPLETED,
            state_data='{"lessons": 2}',
            at=NOON,
        )


async def test_a_distill_begins_once_and_a_skip_ends_at_once(database: StoreDatabase) -> None:
    due = distill_start()
    skip = distill_start(pending_input=None, state_data='{"skipped_reason": "too_few_steps"}')
    async with database.begin() as conn:
        began = await leases.start_distills(conn, [due, skip])
        again = await leases.start_distills(conn, [skip, due])
        assert await leases.start_distills(conn, []) == set()
        run, skipped = [await runs.get_run(conn, ORGANIZATION, start.id) for start in (due, skip)]
    assert (began, again) == ({(ORGANIZATION, due.id), (ORGANIZATION, skip.id)}, set())
    assert run is not None
    assert skipped is not None
    assert (run.state_name, [step["state_name"] for step in run.history]) == (State.RUN, ["initiated", "run"])
    assert (skipped.state_name, skipped.state_data, skipped.finished_at) == (
        State.COMPLETED,
        {"skipped_reason": "too_few_steps"},
        NOON,
    )
    assert [step["state_name"] for step in skipped.history] == ["initiated", "run", "completed"]


async def test_an_accepted_distill_begins_with_its_prepared_input(database: StoreDatabase) -> None:
    start = distill_start(pending_input=b"prepared")
    async with database.begin() as conn:
        await runs.insert_initiated(
            conn,
            InitiatedRun(
                organization_uuid=ORGANIZATION,
                id=start.id,
                type=WorkflowType.MEMORY_DISTILL,
                agent_config_uuid=start.agent_config_uuid,
                session_uuid=start.session_uuid,
                pending_input=b"the event",
                created_at=NOON,
            ),
        )
        assert len(await leases.start_distills(conn, [start])) == 1
        run = await runs.get_run(conn, ORGANIZATION, start.id)
    (claimed,) = await claim(database)
    assert run is not None
    assert [step["state_name"] for step in run.history] == ["initiated", "run"]
    assert (claimed.pending_input, claimed.session_uuid, claimed.attempts) == (
        b"prepared",
        start.session_uuid,
        1,
    )


async def test_a_claimed_run_is_one_workers_and_ends_with_its_output(database: StoreDatabase) -> None:
    async with database.begin() as conn:
        await leases.start_distills(conn, [distill_start()])
    (claimed,) = await claim(database)
    assert await claim(database) == ()
    assert await finish(database, claimed)
    assert not await finish(database, claimed)
    assert await claim(database) == ()
    async with database.read() as conn:
        run = await runs.get_run(conn, ORGANIZATION, claimed.id)
        left = await value(
            conn,
            "SELECT num_nonnulls(pending_input, due_at, lease_token, lease_until) FROM lorebus.workflow_runs",
        )
    assert run is not None
    assert (run.state_name, run.state_data, run.finished_at, left) == (
        State.COMPLETED,
        {"lessons": 2},
        NOON,
        0,
    )
    assert [step["state_name"] for step in run.history] == ["initiated", "run", "completed"]


async def test_whoever_lost_its_lease_changes_nothing_any_more(database: StoreDatabase) -> None:
    async with database.begin() as conn:
        await leases.start_distills(conn, [distill_start()])
    (late,) = await claim(database)
    await lose_the_lease(database, late)
    (current,) = await claim(database)
    assert (current.id, current.attempts) == (late.id, 2)
    async with database.begin() as conn:
        assert not await leases.extend_lease(
            conn, organization_uuid=ORGANIZATION, run_id=late.id, token=late.token, lease_seconds=60
        )
        assert not await leases.retry_later(
            conn, organization_uuid=ORGANIZATION, run_id=late.id, token=late.token, due_in_seconds=0
        )
    assert not await finish(database, late)
    assert await finish(database, current)


async def test_a_lost_lease_that_nobody_else_took_is_still_its_holders(database: StoreDatabase) -> None:
    async with database.begin() as conn:
        await leases.start_distills(conn, [distill_start()])
    (claimed,) = await claim(database)
    await lose_the_lease(database, claimed)
    async with database.begin() as conn:
        assert await leases.extend_lease(
            conn, organization_uuid=ORGANIZATION, run_id=claimed.id, token=claimed.token, lease_seconds=60
        )
    assert await claim(database) == ()
    assert await finish(database, claimed)


async def give_back(database: StoreDatabase, claimed: ClaimedRun, *, due_in_seconds: float) -> None:
    async with database.begin() as conn:
        assert await leases.retry_later(
            conn,
            organization_uuid=ORGANIZATION,
            run_id=claimed.id,
            token=claimed.token,
            due_in_seconds=due_in_seconds,
        )


async def test_a_run_that_is_given_back_is_due_again_after_its_time(database: StoreDatabase) -> None:
    async with database.begin() as conn:
        await leases.start_distills(conn, [distill_start()])
    (first,) = await claim(database)
    await give_back(database, first, due_in_seconds=0)
    (second,) = await claim(database)
    await give_back(database, second, due_in_seconds=60)
    assert (first.attempts, second.attempts) == (1, 2)
    assert await claim(database) == ()
    assert not await finish(database, second)


async def test_no_organization_has_more_leases_than_it_may_and_none_waits_for_another(
    database: StoreDatabase,
) -> None:
    async with database.begin() as conn:
        await leases.start_distills(conn, [distill_start() for _ in range(6)])
        await leases.start_distills(
            conn, [distill_start(organization_uuid=OTHER_ORGANIZATION) for _ in range(2)]
        )
    first = await claim(database, per_organization=3)
    second = await claim(database, per_organization=3)
    assert _organizations(first) == [ORGANIZATION] * 3 + [OTHER_ORGANIZATION] * 2
    assert second == ()
    assert await finish(database, next(run for run in first if run.organization_uuid == ORGANIZATION))
    assert _organizations(await claim(database, per_organization=3)) == [ORGANIZATION]


async def test_claims_at_once_share_the_work_within_the_bounds(database: StoreDatabase) -> None:
    async with database.begin() as conn:
        await leases.start_distills(conn, [distill_start() for _ in range(20)])
    claimed = await asyncio.gather(*(claim(database, limit=4, per_organization=10) for _ in range(6)))
    ids = [run.id for runs_of_one in claimed for run in runs_of_one]
    assert len(ids) == len(set(ids)) == 10
    assert max(len(runs_of_one) for runs_of_one in claimed) == 4


async def test_a_worker_never_takes_what_another_just_finished(database: StoreDatabase) -> None:
    async with database.begin() as conn:
        await leases.start_distills(conn, [distill_start() for _ in range(5)])

    async def work() -> list[UUID]:
        done = []
        while claimed := await claim(database, limit=1):
            assert await finish(database, claimed[0])
            done.append(claimed[0].id)
        return done

    done = [run_id for ids in await asyncio.gather(*(work() for _ in range(4))) for run_id in ids]
    assert len(done) == len(set(done)) == 5


async def test_a_claim_walks_the_index_of_what_is_due(database: StoreDatabase) -> None:
    async with database.read(SystemRole.HOUSEKEEPING) as conn:
        lines = await plan(conn, leases._CLAIM)
    assert "workflow_runs_due" in lines
    assert "Seq Scan" not in lines


def _organizations(claimed: tuple[ClaimedRun, ...]) -> list[UUID]:
    return sorted(run.organization_uuid for run in claimed)


async def test_what_was_no_attempt_is_not_counted_and_the_run_says_what_it_waits_for(
    database: StoreDatabase,
) -> None:
    async with database.begin() as conn:
        await leases.start_distills(conn, [distill_start()])
    for _ in range(7):
        (claimed,) = await claim(database)
        async with database.begin() as conn:
            assert await leases.retry_later(
                conn,
                organization_uuid=ORGANIZATION,
                run_id=claimed.id,
                token=claimed.token,
                due_in_seconds=0,
                attempted=False,
                state_data='{"waiting_for": "over_budget"}',
            )
    (claimed,) = await claim(database)
    async with database.read() as conn:
        run = await runs.get_run(conn, ORGANIZATION, claimed.id)
    assert run is not None
    assert (claimed.attempts, run.state_data) == (1, {"waiting_for": "over_budget"})


async def test_of_a_profile_no_more_are_claimed_than_it_may_have_and_others_go_on(
    database: StoreDatabase,
) -> None:
    organizations = {profile: [uuid4(), uuid4()] for profile in ("busy", "free", None)}
    known = Tenants.of_all(one for named in organizations.values() for one in named)
    async with database.begin(known) as conn:
        for profile, named in organizations.items():
            for organization in named:
                await settings.put_organization(conn, organization, model_profile=profile)
                await leases.start_distills(
                    conn, [distill_start(organization_uuid=organization) for _ in range(2)]
                )

        async def claimed_by_profile(**most: int) -> dict[str | None, int]:
            async with database.begin(SystemRole.HOUSEKEEPING) as claiming:
                claimed = await leases.claim_due(
                    claiming, limit=100, lease_seconds=60, per_organization=MANY, per_profile=most
                )
            names = [run.model_profile for run in claimed]
            return {name: names.count(name) for name in set(names)}

    assert await claimed_by_profile(busy=1, free=3) == {"busy": 1, "free": 3, None: 4}
    assert await claimed_by_profile(busy=0, free=0) == {}
    assert await claimed_by_profile(busy=5) == {"busy": 3, "free": 1}
