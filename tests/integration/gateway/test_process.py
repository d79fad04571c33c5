"""The gateway as a process of its own: started by settings, stopped by a signal, nothing lost."""

import os
import subprocess
import sys
from uuid import uuid4

import httpx
import pytest

from lorebus_kit.keys import ensure_local_key
from tests.support.databases import ArrangedDatabase
from tests.support.gateways import NOBODY
from tests.support.services import services


async def test_a_stop_ends_with_0_and_has_answered_recalls_recorded(database_url: str) -> None:
    organization, config = uuid4(), uuid4()
    key = await ensure_local_key(database_url, organization)
    async with services(
        "gateway",
        database_url=database_url,
        bootstrap_servers=NOBODY,
        topic_prefix="",
        extra={"LOREBUS_ACCEPT": "store"},
    ) as (gateway,):
        async with httpx.AsyncClient(
            base_url=gateway.url, headers={"authorization": f"Bearer {key}"}
        ) as client:
            await client.put(f"/api/app/agents/configs/{config}", json={})
            body = {"agent_config_uuid": str(config), "caller": {"kind": "none"}, "load": True}
            answers = [await client.post("/api/app/agents/sessions", json=body) for _ in range(20)]
        code = await gateway.stop()

        assert code == 0, gateway.log()

    assert [answer.status_code for answer in answers] == [201] * 20
    database = ArrangedDatabase(database_url, pool_size=1)
    async with database.read() as connection:
        found = await connection.exec_driver_sql("SELECT event_id FROM lorebus.outbox")
        recorded = {str(row[0]) for row in found}
    await database.dispose()
    assert recorded == {answer.json()["recall"]["recall_id"] for answer in answers}


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("LOREBUS_TOKEN_SECRETS", "short"),
        ("LOREBUS_TOKEN_SECRETS", "x" * 32 + ",short"),
        ("LOREBUS_TOKEN_SECRETS", None),
        ("LOREBUS_DATABASE_URL", "mysql://here"),
        ("LOREBUS_ACCEPT", "both"),
        ("LOREBUS_HTTP_PORT", "70000"),
        ("LOREBUS_TOKEN_LIFETIME", "-P1D"),
    ],
)
def test_a_wrong_setting_ends_the_process_with_its_name_and_without_its_value(
    variable: str, value: str | None
) -> None:
    sound = {
        "LOREBUS_DATABASE_URL": "postgresql://nobody@127.0.0.1:9/none",
        "LOREBUS_BOOTSTRAP_SERVERS": NOBODY,
        "LOREBUS_TOKEN_SECRETS": "s" * 32,
    }
    inherited = {name: given for name, given in os.environ.items() if not name.startswith("LOREBUS_")}
    environment = inherited | sound | ({} if value is None else {variable: value})
    if value is None:
        del environment[variable]

    ended = subprocess.run(
        [sys.executable, "-m", "lorebus_gateway"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ended.returncode == 2
    assert variable in ended.stderr
    assert value is None or len(value) < 8 or value not in ended.stderr
