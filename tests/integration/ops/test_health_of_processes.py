"""Probes while both stores are away: live, because a restart would change nothing, and not ready."""

import httpx
import pytest

from lorebus_ops.ports import accepts_connections
from tests.support.gateways import NOBODY
from tests.support.services import services, until


@pytest.mark.parametrize(
    ("name", "waits_for"),
    [
        (
            "save",
            [
                "PostgreSQL does not answer; waiting for it",
                "the broker does not answer; waiting for it",
            ],
        ),
        ("gateway", ["PostgreSQL does not answer; waiting for it"]),
    ],
)
async def test_a_process_whose_stores_are_away_is_live_and_not_ready(name: str, waits_for: list[str]) -> None:
    async with services(
        name,
        database_url=f"postgresql://nobody@{NOBODY}/none",
        bootstrap_servers=NOBODY,
        topic_prefix="",
        wait=False,
    ) as (process,):
        port = int(process.url.rpartition(":")[2])
        await until(lambda: accepts_connections(port), seconds=120, what="the process listens")

        async with httpx.AsyncClient(base_url=process.url, timeout=20.0) as client:
            live, ready = await client.get("/health/live"), await client.get("/health/ready")
            told = (await client.get("/metrics")).text

    assert (live.status_code, live.json()) == (200, {"status": "ok", "problems": []})
    assert (ready.status_code, ready.json()) == (503, {"status": "unavailable", "problems": waits_for})
    assert 'lorebus_healthy{probe="live"} 1.0' in told
    assert 'lorebus_healthy{probe="ready"} 0.0' in told
