"""What an organization lists, deletes and sets (SPEC.md section 8; cases c31, c32)."""

import json
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from lorebus_kit.keys import create_key
from tests.support.gateways import Asking

MEMORY = "/api/app/agents/memory"
NOW = datetime.now(UTC)


async def foreign_key(gateway: Asking) -> str:
    """A key of somebody else."""
    return await create_key(gateway.database, uuid4(), name="foreign")


async def test_entries_are_listed_highest_importance_first_twenty_a_page(gateway: Asking) -> None:
    config = await gateway.config()
    await gateway.remember(config, *(f"fact {i}" for i in range(24)), importance=0.3)
    (best,) = await gateway.remember(config, "best", principal="bob", importance=0.9)

    answer = await gateway.ask("GET", MEMORY, params={"agent_config_uuid": str(config)})

    assert answer.status_code == 200
    page = answer.json()
    assert len(page["items"]) == 20
    assert (page["page"], page["per_page"], page["total"], page["has_more"]) == (1, 20, 25, True)
    first = page["items"][0]
    assert (first["id"], first["text"], first["principal_ref"]) == (str(best), "best", "bob")
    assert (first["importance"], first["reinforcement_count"], first["access_count"]) == (0.9, 0, 0)


async def test_205_equal_entries_are_all_listed_though_one_is_touched_between_the_pages(
    gateway: Asking,
) -> None:
    config = await gateway.config()
    ids = await gateway.remember(config, *(f"fact {i}" for i in range(205)), at=NOW)
    seen = []

    for page in (1, 2, 3):
        params = {"agent_config_uuid": str(config), "page": page, "per_page": 100}
        answer = await gateway.ask("GET", MEMORY, params=params)
        seen += [item["id"] for item in answer.json()["items"]]
        await gateway.remember(config, "fact 7", at=NOW)

    assert len(seen) == 205
    assert set(seen) == {str(memory_id) for memory_id in ids}


async def test_a_page_past_the_end_is_empty_and_tells_the_true_total(gateway: Asking) -> None:
    config = await gateway.config()
    await gateway.remember(config, "only")

    params = {"agent_config_uuid": str(config), "page": 1_000_000}
    page = (await gateway.ask("GET", MEMORY, params=params)).json()

    assert (page["items"], page["total"], page["has_more"]) == ([], 1, False)


async def test_only_entries_of_at_least_the_importance_asked_for_are_listed(gateway: Asking) -> None:
    config = await gateway.config()
    await gateway.remember(config, "low", importance=0.2)
    await gateway.remember(config, "just", importance=0.5)

    params = {"agent_config_uuid": str(config), "min_importance": 0.5}
    page = (await gateway.ask("GET", MEMORY, params=params)).json()

    assert ([item["text"] for item in page["items"]], page["total"]) == (["just"], 1)


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("per_page", "1000", "from 1 to 100"),
        ("per_page", "0", "from 1 to 100"),
        ("page", "0", "from 1 to"),
        ("page", "-1", "from 1 to"),
        ("page", "1.5", "from 1 to"),
        ("page", "1e3", "from 1 to"),
        ("page", " 2 ", "from 1 to"),
        ("page", "9" * 400, "from 1 to"),
        ("page", "", "from 1 to"),
        ("min_importance", "NaN", "finite"),
        ("min_importance", "2", "less than or equal to 1"),
        ("min_importance", "-0.1", "greater than or equal to 0"),
        ("min_importance", "high", "number"),
        ("agent_config_uuid", "x", "UUID"),
        ("importance", "0.5", "not a known key"),
        ("principal_ref", "", "blank"),
        ("principal_ref", "   ", "blank"),
        ("principal_ref", "p" * 513, "512"),
        ("principal_ref", "a\0b", "U+0000"),
        ("shared", "yes", "`true` or `false`"),
        ("shared", "True", "`true` or `false`"),
        ("shared", "", "`true` or `false`"),
        ("origin", "elsewhere", "'runner', 'distill', 'workflow' or 'import'"),
        ("q", "", "1 to 10 words"),
        ("q", "  ", "1 to 10 words"),
        ("q", "a b c d e f g h i j k", "1 to 10 words"),
        ("q", "x" * 201, "200 characters"),
    ],
)
async def test_a_query_out_of_range_is_refused_with_the_range(
    gateway: Asking, field: str, value: str, problem: str
) -> None:
    config = await gateway.config()

    answer = await gateway.ask("GET", MEMORY, params={"agent_config_uuid": str(config), field: value})

    assert answer.status_code == 422
    (fault,) = answer.json()["faults"]
    assert fault["path"] == field
    assert problem in fault["problem"]


async def listed(gateway: Asking, config: UUID, **params: object) -> tuple[list[str], int]:
    """The texts on the first page, and the total."""
    answer = await gateway.ask("GET", MEMORY, params={"agent_config_uuid": str(config), **params})
    assert answer.status_code == 200, answer.text
    page = answer.json()
    assert page["has_more"] is (page["total"] > len(page["items"]))
    return [item["text"] for item in page["items"]], page["total"]


async def test_a_listing_can_be_of_one_principal_or_of_the_shared_pool(gateway: Asking) -> None:
    config = await gateway.config()
    for principal in ("ann_lee", "ann-lee", "a%b", "a\\b", "Ann_lee", " ann_lee "):
        await gateway.remember(config, f"of {principal}", principal=principal)
    await gateway.remember(config, "of all")

    for principal in ("ann_lee", "a%b", "a\\b", " ann_lee "):
        assert await listed(gateway, config, principal_ref=principal) == ([f"of {principal}"], 1)
    assert await listed(gateway, config, principal_ref="nobody") == ([], 0)
    assert await listed(gateway, config, shared="true") == (["of all"], 1)
    assert (await listed(gateway, config, shared="false"))[1] == 6
    assert (await listed(gateway, config))[1] == 7


async def test_a_listing_of_words_takes_them_as_they_are(gateway: Asking) -> None:
    config = await gateway.config()
    await gateway.remember(config, "Deploys are 100% safe", "deploys are 100 times safe", "a\\b", "a_b")

    assert await listed(gateway, config, q="DEPLOYS 100%") == (["Deploys are 100% safe"], 1)
    assert (await listed(gateway, config, q="deploy"))[1] == 2
    assert await listed(gateway, config, q="\\") == (["a\\b"], 1)
    assert await listed(gateway, config, q="a_b") == (["a_b"], 1)
    assert await listed(gateway, config, q="safe kittens") == ([], 0)


async def test_words_are_looked_for_as_texts_are_kept(gateway: Asking) -> None:
    config = await gateway.config()
    await gateway.remember(config, "caf\u00e9 r\u00e9serv\u00e9")

    assert (await listed(gateway, config, q="cafe\u0301"))[1] == 1


async def test_a_listing_of_one_origin_says_where_each_entry_came_from(gateway: Asking) -> None:
    config = await gateway.config()
    await gateway.remember(config, "from a runner")

    assert (await listed(gateway, config, origin="runner"))[1] == 1
    assert (await listed(gateway, config, origin="distill"))[1] == 0
    answer = await gateway.ask("GET", MEMORY, params={"agent_config_uuid": str(config)})
    assert answer.json()["items"][0]["origin"] == "runner"


async def test_the_total_of_a_filtered_listing_is_that_of_all_its_pages(gateway: Asking) -> None:
    config = await gateway.config()
    await gateway.remember(config, *(f"tea {i}" for i in range(25)), principal="bob", importance=0.6)
    await gateway.remember(config, *(f"tea {i}" for i in range(9)), principal="eve", importance=0.6)
    await gateway.remember(config, *(f"tea low {i}" for i in range(9)), principal="bob", importance=0.2)
    params = {"principal_ref": "bob", "q": "tea", "min_importance": 0.5, "per_page": 10}

    pages = []
    for page in (1, 2, 3, 4):
        answer = await gateway.ask(
            "GET", MEMORY, params={"agent_config_uuid": str(config), "page": page, **params}
        )
        pages.append(answer.json())

    assert [len(page["items"]) for page in pages] == [10, 10, 5, 0]
    assert [page["total"] for page in pages] == [25, 25, 25, 25]
    assert [page["has_more"] for page in pages] == [True, True, False, False]
    assert len({item["id"] for page in pages for item in page["items"]}) == 25


async def test_one_principal_and_the_shared_pool_exclude_each_other(gateway: Asking) -> None:
    config = await gateway.config()

    params = {"agent_config_uuid": str(config), "principal_ref": "bob", "shared": "true"}
    answer = await gateway.ask("GET", MEMORY, params=params)

    assert answer.status_code == 422
    assert "not both" in answer.json()["faults"][0]["problem"]


@pytest.mark.parametrize(
    "query", ["?page=1&page=2", "?%ff=1", "?" + "&".join(f"a{i}=1" for i in range(30)), ""]
)
async def test_a_query_that_cannot_be_read_is_refused(gateway: Asking, query: str) -> None:
    answer = await gateway.ask("GET", MEMORY + query)

    assert answer.status_code == 422


async def test_a_deleted_entry_is_gone_and_its_change_is_told(gateway: Asking) -> None:
    config = await gateway.config()
    (entry,) = await gateway.remember(config, "forget me", principal="bob")

    answer = await gateway.ask("DELETE", f"{MEMORY}/{entry}")

    assert (answer.status_code, answer.content) == (204, b"")
    assert not await gateway.rows("SELECT id FROM lorebus.memories")
    (row,) = await gateway.rows("SELECT * FROM lorebus.outbox")
    assert (row["topic"], row["key"]) == ("memory.changed", str(config).encode())
    event = json.loads(row["payload"])
    assert (event["kind"], event["ids"], event["count"]) == ("deleted", [str(entry)], 1)
    page = (await gateway.ask("GET", MEMORY, params={"agent_config_uuid": str(config)})).json()
    assert page["total"] == 0


async def test_missing_and_foreign_things_are_told_apart_by_nothing(gateway: Asking) -> None:
    config = await gateway.config()
    (entry,) = await gateway.remember(config, "mine")
    session = await gateway.session(config)
    recall = (await gateway.load(session)).json()["recall_id"]

    async def is_recorded() -> bool:
        return bool(await gateway.rows("SELECT id FROM lorebus.outbox"))

    await gateway.until(is_recorded)
    other = await foreign_key(gateway)
    answers = []
    for key, name in ((other, "foreign"), (gateway.api_key, "missing")):
        known = name == "foreign"
        a, c, s = (entry, config, session.uuid) if known else (uuid4(), uuid4(), uuid4())
        r = recall if known else uuid4()
        for method, path, body in (
            ("DELETE", f"{MEMORY}/{a}", None),
            ("GET", f"{MEMORY}?agent_config_uuid={c}", None),
            ("POST", f"{MEMORY}/prune", {"agent_config_uuid": str(c)}),
            ("GET", f"/api/app/agents/configs/{c}", None),
            ("GET", f"/api/app/agents/recalls/{r}", None),
            ("GET", f"/api/workflows/{r}", None),
            ("GET", f"/api/workflows/{r}/history", None),
            ("POST", "/api/app/agents/sessions", {"agent_config_uuid": str(c), "caller": {"kind": "none"}}),
            ("POST", f"/api/app/agents/sessions/{s}/end", {"outcome": "success", "step_count": 2}),
            ("POST", f"/api/app/agents/sessions/{s}/rating", {"quality_score": 1.0}),
        ):
            answer = await gateway.ask(method, path, key=key, json=body)
            assert answer.status_code == 404, (name, path)
            answers.append(answer.content)

    assert len(set(answers)) == 1
    assert json.loads(answers[0]) == {
        "type": "urn:lorebus:problem:not-found",
        "title": "Not found",
        "status": 404,
        "detail": "There is no such thing, or it is not yours.",
    }
    assert len(await gateway.rows("SELECT id FROM lorebus.memories")) == 1


@pytest.mark.parametrize(
    "path", [f"{MEMORY}/x", f"{MEMORY}/%00", "/api/workflows/x", "/api/app/agents/recalls/1'--"]
)
async def test_an_id_that_is_no_uuid_is_not_there(gateway: Asking, path: str) -> None:
    method = "DELETE" if path.startswith(MEMORY) else "GET"

    assert (await gateway.ask(method, path)).status_code == 404


async def test_an_agent_config_has_its_defaults_until_they_are_set(gateway: Asking) -> None:
    config = uuid4()
    path = f"/api/app/agents/configs/{config}"

    made = await gateway.ask("PUT", path, json={})
    changed = await gateway.ask("PUT", path, json={"memory_top_k": 3, "memory_strategy": "pack"})
    read = await gateway.ask("GET", path)

    defaults = {
        "agent_config_uuid": str(config),
        "memory_enabled": True,
        "memory_write_enabled": True,
        "memory_strategy": "last_k",
        "memory_top_k": 10,
        "memory_max_entries": 10_000,
        "memory_pack_reach": "recent",
    }
    assert (made.status_code, made.json()) == (200, defaults)
    assert changed.json() == defaults | {"memory_top_k": 3, "memory_strategy": "pack"}
    assert read.json() == changed.json()


async def test_putting_settings_replaces_those_that_are_left_out_by_their_defaults(gateway: Asking) -> None:
    path = f"/api/app/agents/configs/{uuid4()}"
    await gateway.ask("PUT", path, json={"memory_top_k": 3, "memory_enabled": False})

    again = await gateway.ask("PUT", path, json={"memory_max_entries": 5})

    told = again.json()
    assert (told["memory_top_k"], told["memory_enabled"], told["memory_max_entries"]) == (10, True, 5)


@pytest.mark.parametrize(
    "settings",
    [
        {"memory_top_k": 0},
        {"memory_top_k": 1001},
        {"memory_max_entries": -1},
        {"memory_max_entries": 2**31},
        {"memory_strategy": "best"},
        {"memory_pack_reach": "far"},
        {"memory_enabled": "yes"},
        {"memory_enabled": None},
        {"organization_uuid": str(uuid4())},
    ],
)
async def test_settings_out_of_range_are_refused(gateway: Asking, settings: dict[str, object]) -> None:
    answer = await gateway.ask("PUT", f"/api/app/agents/configs/{uuid4()}", json=settings)

    assert answer.status_code == 422
    assert answer.json()["faults"][0]["path"] == next(iter(settings))


async def test_an_organization_has_its_defaults_until_they_are_set(gateway: Asking) -> None:
    path = "/api/app/organization"

    before = await gateway.ask("GET", path)
    changed = await gateway.ask("PUT", path, json={"memory_enabled": False, "model_profile": "small"})
    after = await gateway.ask("PUT", path, json={})

    mine = {"organization_uuid": str(gateway.organization_uuid)}
    assert before.json() == mine | {"memory_enabled": True, "model_profile": None}
    assert changed.json() == mine | {"memory_enabled": False, "model_profile": "small"}
    assert after.json() == before.json()


async def test_two_organizations_may_name_their_configs_alike(gateway: Asking) -> None:
    config = await gateway.config(memory_top_k=3)
    await gateway.remember(config, "mine")
    other = await foreign_key(gateway)

    await gateway.ask("PUT", f"/api/app/agents/configs/{config}", key=other, json={"memory_top_k": 7})

    mine = await gateway.ask("GET", f"/api/app/agents/configs/{config}")
    theirs = await gateway.ask("GET", MEMORY, key=other, params={"agent_config_uuid": str(config)})
    assert mine.json()["memory_top_k"] == 3
    assert theirs.json()["total"] == 0


@pytest.mark.parametrize(("max_entries", "asked"), [(None, None), (0, 0), (100, 100)])
async def test_a_prune_is_accepted_with_its_run(
    gateway: Asking, max_entries: int | None, asked: int | None
) -> None:
    config = await gateway.config()
    body = {"agent_config_uuid": str(config)} | ({} if max_entries is None else {"max_entries": max_entries})

    answer = await gateway.ask("POST", f"{MEMORY}/prune", json=body)

    assert answer.status_code == 202
    (run,) = await gateway.rows("SELECT * FROM lorebus.workflow_runs")
    (row,) = await gateway.rows("SELECT * FROM lorebus.outbox")
    assert run["id"] == row["event_id"] == UUID(answer.json()["workflow_id"])
    assert (run["type"], run["state_name"]) == ("agents.memory-prune", "initiated")
    assert (row["topic"], row["key"]) == ("memory.prune-requested", str(config).encode())
    assert json.loads(row["payload"])["max_entries"] == asked


@pytest.mark.parametrize("max_entries", [-1, 1.5, True, "5", 2**31])
async def test_a_prune_to_no_sound_number_is_refused(gateway: Asking, max_entries: object) -> None:
    config = await gateway.config()
    body = {"agent_config_uuid": str(config), "max_entries": max_entries}

    answer = await gateway.ask("POST", f"{MEMORY}/prune", json=body)

    assert answer.status_code == 422
    assert answer.json()["faults"][0]["path"] == "max_entries"
    assert not await gateway.rows("SELECT id FROM lorebus.workflow_runs")
