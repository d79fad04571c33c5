"""Where every entry comes from: origin, session, and what distilled it, in a listing and in an export."""

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from lorebus_contracts.events import Origin, Provenance, SaveRequested
from lorebus_kit.verdicts import Applied
from lorebus_save.handlers import on_save_requested
from tests.support.events import NOBODY, Scope, save
from tests.support.gateways import Asking

MEMORY = "/api/app/agents/memory"
RUNNERS, WORKFLOWS, DISTILLED, IMPORTED = (UUID(int=number) for number in (1, 2, 3, 4))
DISTILL_RUN = UUID(int=5)
MODEL = {
    "provider": "openai-compatible",
    "version": "1",
    "distill_workflow_id": str(DISTILL_RUN),
    "model": "some-model",
    "prompt_version": "v1",
}
FILE = (
    b'{"format":"lorebus.memory","version":1}\n'
    b'{"principal_ref":null,"text":"from a file","importance":0.5,'
    b'"session_uuid":"00000000-0000-0000-0000-000000000004",'
    b'"created_at":"2026-03-01T12:00:00Z","updated_at":"2026-03-01T12:00:00Z"}\n'
    b'{"end":true,"entries":1}\n'
)


def told_by(text: str, session: UUID, origin: Origin, scope: Scope) -> SaveRequested:
    provenance = None
    if origin is Origin.DISTILL:
        provenance = Provenance(
            provider="openai-compatible",
            version="1",
            distill_workflow_id=DISTILL_RUN,
            model="some-model",
            prompt_version="v1",
        )
    saved = save(scope, text, caller=NOBODY, session_uuid=session, event_id=uuid4())
    return saved.model_copy(update={"origin": origin, "provenance": provenance})


async def of_every_origin(gateway: Asking, config: UUID) -> None:
    """An entry of each origin there is."""
    scope = Scope(gateway.organization_uuid, config)
    events = [
        told_by("from a runner", RUNNERS, Origin.RUNNER, scope),
        told_by("from a workflow", WORKFLOWS, Origin.WORKFLOW, scope),
        told_by("from a distill", DISTILLED, Origin.DISTILL, scope),
    ]
    async with gateway.database.begin() as connection:
        assert list(await on_save_requested(connection, events)) == [Applied()] * 3
    answer = await gateway.ask(
        "POST",
        f"{MEMORY}/import",
        params={"agent_config_uuid": config},
        content=FILE,
        headers={"content-type": "application/x-ndjson"},
    )
    assert answer.json()["imported"] == 1


def provenances(entries: list[dict[str, Any]]) -> dict[str, tuple[object, ...]]:
    return {entry["text"]: (entry["origin"], entry["session_uuid"], entry["provenance"]) for entry in entries}


async def listed(gateway: Asking, config: UUID) -> list[dict[str, Any]]:
    answer = await gateway.ask("GET", MEMORY, params={"agent_config_uuid": config})
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def test_a_listing_and_an_export_tell_where_each_entry_comes_from(gateway: Asking) -> None:
    config = await gateway.config()
    await of_every_origin(gateway, config)

    items = await listed(gateway, config)
    file = await gateway.client.get(
        f"{MEMORY}/export",
        params={"agent_config_uuid": str(config)},
        headers={"authorization": f"Bearer {gateway.api_key}"},
    )

    expected = {
        "from a runner": ("runner", str(RUNNERS), None),
        "from a workflow": ("workflow", str(WORKFLOWS), None),
        "from a distill": ("distill", str(DISTILLED), MODEL),
        "from a file": ("import", str(IMPORTED), None),
    }
    assert {origin for origin, _, _ in expected.values()} == set(Origin)
    assert provenances(items) == expected
    assert provenances([json.loads(line) for line in file.text.splitlines()[1:-1]]) == expected


async def test_all_that_a_session_left_is_forgotten_by_one_call_whatever_its_origin(gateway: Asking) -> None:
    config = await gateway.config()
    await of_every_origin(gateway, config)
    scope = Scope(gateway.organization_uuid, config)
    more = [told_by(f"also {origin}", RUNNERS, origin, scope) for origin in (Origin.DISTILL, Origin.WORKFLOW)]
    async with gateway.database.begin() as connection:
        assert list(await on_save_requested(connection, more)) == [Applied()] * 2

    answer = await gateway.ask("POST", f"{MEMORY}/erase", json={"session_uuid": str(RUNNERS)})

    assert answer.json()["counts"]["entries"] == 3
    assert {item["text"] for item in await listed(gateway, config)} == {
        "from a workflow",
        "from a distill",
        "from a file",
    }
    assert datetime.fromisoformat(answer.json()["erased_at"]) <= datetime.now(UTC)
