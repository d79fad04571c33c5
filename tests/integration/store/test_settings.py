"""The memory settings of organizations and agent configs."""

from dataclasses import replace

import pytest

from lorebus_domain.recall import PackReach, Strategy
from lorebus_store import settings
from lorebus_store.errors import PermanentError
from tests.integration.store.builders import CONFIG, ORGANIZATION, OTHER_ORGANIZATION, PAIR, StoreDatabase

NEW = settings.ConfigSettings(
    memory_enabled=True,
    memory_write_enabled=True,
    memory_strategy=Strategy.LAST_K,
    memory_top_k=10,
    memory_max_entries=10_000,
    memory_pack_reach=PackReach.RECENT,
    entry_count=0,
)


async def test_what_is_known_of_many_scopes_comes_at_once(database: StoreDatabase) -> None:
    unknown_config, foreign = (ORGANIZATION, OTHER_ORGANIZATION), (OTHER_ORGANIZATION, CONFIG)
    async with database.read() as conn:
        known = await settings.load_settings(conn, [PAIR, unknown_config, foreign, PAIR])
        assert await settings.load_settings(conn, []) == {}
    assert set(known) == {PAIR, unknown_config, foreign}
    assert known[PAIR] == settings.ScopeSettings(settings.OrganizationSettings(True, None), NEW)  # noqa: FBT003
    assert (known[PAIR].organization_known, known[PAIR].config_known) == (True, True)
    assert (known[unknown_config].organization_known, known[unknown_config].config_known) == (True, False)
    assert (known[foreign].organization_known, known[foreign].config_known) == (False, False)


async def test_what_is_left_out_of_a_change_stays(database: StoreDatabase) -> None:
    async with database.begin() as conn:
        first = await settings.put_agent_config(
            conn,
            *PAIR,
            memory_enabled=False,
            memory_write_enabled=False,
            memory_strategy=Strategy.PACK,
            memory_top_k=1_000,
            memory_max_entries=0,
            memory_pack_reach=PackReach.ALL,
        )
        second = await settings.put_agent_config(conn, *PAIR, memory_top_k=1)
    assert first == settings.ConfigSettings(
        memory_enabled=False,
        memory_write_enabled=False,
        memory_strategy=Strategy.PACK,
        memory_top_k=1_000,
        memory_max_entries=0,
        memory_pack_reach=PackReach.ALL,
        entry_count=0,
    )
    assert second == replace(first, memory_top_k=1)


async def test_a_new_config_takes_what_is_given_and_the_defaults(database: StoreDatabase) -> None:
    async with database.begin() as conn:
        made = await settings.put_agent_config(conn, OTHER_ORGANIZATION, CONFIG, memory_top_k=3)
        other = await settings.get_agent_config(conn, *PAIR)
    assert made == replace(NEW, memory_top_k=3)
    assert other == NEW


@pytest.mark.parametrize(("top_k", "max_entries"), [(0, 1), (1_001, 1), (1, -1)])
async def test_numbers_out_of_range_are_refused(
    database: StoreDatabase, top_k: int, max_entries: int
) -> None:
    async def put() -> None:
        async with database.begin() as conn:
            await settings.put_agent_config(conn, *PAIR, memory_top_k=top_k, memory_max_entries=max_entries)

    with pytest.raises(PermanentError, match="CheckViolation"):
        await put()


async def test_an_organization_keeps_its_model_until_it_is_given_another_or_none(
    database: StoreDatabase,
) -> None:
    async with database.begin() as conn:
        answers = [
            await settings.put_organization(conn, ORGANIZATION, model_profile="small"),
            await settings.put_organization(conn, ORGANIZATION, memory_enabled=False),
            await settings.put_organization(conn, ORGANIZATION, model_profile=None),
            await settings.get_organization(conn, ORGANIZATION),
            await settings.get_organization(conn, OTHER_ORGANIZATION),
        ]
    assert [answer and (answer.memory_enabled, answer.model_profile) for answer in answers] == [
        (True, "small"),
        (False, "small"),
        (False, None),
        (False, None),
        None,
    ]
