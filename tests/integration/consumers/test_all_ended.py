"""All four consumers at work together: killed in the middle of it, then made to read everything once more."""

import asyncio
from dataclasses import dataclass
from uuid import UUID

from lorebus_contracts.events import Event, SessionEnded, ToolCallBody
from lorebus_contracts.topics import (
    DISTILL_GROUP,
    LABELS_GROUP,
    PRUNE_GROUP,
    PRUNE_REQUESTED,
    RECALL_RECORDED,
    SAVE_GROUP,
    SAVE_REQUESTED,
    SESSION_ENDED,
    SESSION_RATED,
    Topic,
)
from lorebus_kit.run_ids import distill_run_id, distill_save_id
from lorebus_store import recalls
from tests.support.databases import let_leases_run_out
from tests.support.events import Scope, actor, ended, prune, rated, recalled, save
from tests.support.labels import label_of
from tests.support.memory import (
    access_counts,
    counter_of,
    ended_run,
    entries_of,
    filled,
    find_run,
    known_scope,
)
from tests.support.running import Running, running
from tests.support.snapshots import snapshot
from tests.support.waiting import eventually

GROUPS: dict[str, tuple[Topic, ...]] = {
    SAVE_GROUP: (SAVE_REQUESTED,),
    DISTILL_GROUP: (SESSION_ENDED,),
    LABELS_GROUP: (SESSION_ENDED, SESSION_RATED, RECALL_RECORDED),
    PRUNE_GROUP: (PRUNE_REQUESTED,),
}
SERVICES = ("save", "distill", "recall_labeller", "prune")
FAILS = ToolCallBody(
    tool="search", input={"query": "flights"}, output="Error: date is missing", is_error=True
)
WORKS = ToolCallBody(tool="search", input={"query": "flights", "date": "2026-09-01"}, output="3 flights")


@dataclass(frozen=True, slots=True)
class Work:
    """Something for each consumer to do, in agent configs that do not touch."""

    saving: Scope
    distilling: Scope
    labelling: Scope
    pruning: Scope
    memory_ids: list[UUID]
    saves: list[Event]
    ends: list[SessionEnded]
    recalls: list[Event]
    prunes: list[Event]

    @property
    def events(self) -> list[Event]:
        """All of it, in the order in which it is told."""
        labels = [
            event
            for recall in self.recalls
            for event in (recall, rated(self.labelling, 0.9, session_uuid=session_of(recall)))
        ]
        return [*self.saves, *self.ends, *labels, *self.prunes]


def session_of(event: Event) -> UUID:
    session_uuid: UUID = event.session_uuid  # type: ignore[attr-defined]  # Recalls have one.
    return session_uuid


async def some_work(ground: Running) -> Work:
    saving, distilling, labelling, pruning = [await known_scope(ground.database) for _ in range(4)]
    memory_ids = await filled(ground.database, labelling, 10)
    await filled(ground.database, pruning, 400, importances=(0.2, 0.8))
    return Work(
        saving=saving,
        distilling=distilling,
        labelling=labelling,
        pruning=pruning,
        memory_ids=memory_ids,
        saves=[save(saving, "one sentence") for _ in range(100)],
        ends=[
            ended(distilling, outcome="failed", caller=actor("ann"), trace=[FAILS, WORKS]) for _ in range(20)
        ],
        recalls=[recalled(labelling, memory_ids) for _ in range(40)],
        prunes=[prune(pruning, 400 - 10 * number) for number in range(20)],
    )


async def kill_each_at_its_first_effect(ground: Running, work: Work) -> None:
    """Kill every process in the moment in which something of what it was told can be seen."""

    async def recorded() -> object:
        async with ground.database.read() as connection:
            first = work.recalls[0]
            return await recalls.receipt(connection, first.organization_uuid, first.event_id)

    effects = [
        lambda: find_run(ground.database, work.saving, work.saves[0].event_id),
        lambda: find_run(ground.database, work.distilling, distill_run_id(work.ends[0].session_uuid)),
        recorded,
        lambda: find_run(ground.database, work.pruning, work.prunes[0].event_id),
    ]

    async def kill(place: int) -> None:
        await eventually(effects[place], what=f"{SERVICES[place]} has done something")
        ground.services[place].kill()

    await asyncio.gather(*(kill(place) for place in range(4)))


async def all_settled(ground: Running, work: Work) -> None:
    """Every record is acknowledged, every lesson saved, everything told."""
    for event in work.ends:
        await ended_run(ground.database, work.distilling, distill_run_id(event.session_uuid))
        await ended_run(ground.database, work.distilling, distill_save_id(event.session_uuid))
    for group, topics in GROUPS.items():
        await ground.wire.settled(group, *topics)


async def test_consumers_killed_in_the_middle_and_a_replay_of_everything_count_each_event_once(
    database_url: str, bootstrap_servers: str, topics: str
) -> None:
    async with running(
        *SERVICES, database_url=database_url, bootstrap_servers=bootstrap_servers, topics=topics
    ) as ground:
        work = await some_work(ground)
        await ground.wire.send(*work.events)
        await kill_each_at_its_first_effect(ground, work)
        await let_leases_run_out(database_url)
        await begin_all_again(ground)
        await all_settled(ground, work)
        await assert_each_counted_once(ground, work)
        for group, of_group in GROUPS.items():
            for topic in of_group:
                assert await ground.wire.dead_letters(topic, group) == []

        before = await snapshot(database_url)
        for code in await asyncio.gather(*(service.stop() for service in ground.services)):
            assert code == 0
        await asyncio.gather(*(ground.wire.forget_offsets(group, *of) for group, of in GROUPS.items()))
        await begin_all_again(ground)
        await all_settled(ground, work)
        assert await snapshot(database_url) == before


async def begin_all_again(ground: Running) -> None:
    for service in ground.services:
        service.start()
    await asyncio.gather(*(service.ready() for service in ground.services))


async def assert_each_counted_once(ground: Running, work: Work) -> None:
    (sentence,) = await entries_of(ground.database, work.saving)
    assert sentence.reinforcement_count == 99
    learnt = await entries_of(ground.database, work.distilling)
    assert [entry.reinforcement_count for entry in learnt] == [19] * len(learnt)
    assert learnt
    assert await access_counts(ground.database, work.labelling) == dict.fromkeys(work.memory_ids, 40)
    async with ground.database.read() as connection:
        for recall in work.recalls:
            receipt = await recalls.receipt(connection, recall.organization_uuid, recall.event_id)
            assert receipt is not None
            assert label_of(receipt) == "success"
    deleted = [
        (await ended_run(ground.database, work.pruning, event.event_id)).state_data["deleted"]
        for event in work.prunes
    ]
    assert sum(deleted) == 190
    assert await counter_of(ground.database, work.pruning) == 210
