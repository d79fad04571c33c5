"""A gateway in the test's own process, on a real socket and a real PostgreSQL, with an organization to ask as."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from time import monotonic
from typing import Any, Final
from uuid import UUID, uuid4

import httpx
from prometheus_client import generate_latest
from uuid6 import uuid7

from lorebus_domain.saving import Entry, fold, plan_save
from lorebus_domain.visibility import MemoryScope
from lorebus_gateway.app import Gateway, StoppingServer, server_config
from lorebus_gateway.settings import GatewaySettings
from lorebus_kit.keys import create_key
from lorebus_store import memories
from lorebus_store.memories import EntrySource
from tests.support.databases import ArrangedDatabase
from tests.support.openapi import check_answer
from tests.support.outputs import OUTPUTS

TOKEN_SECRET: Final = "secret-of-the-gateway-tests-0123456789-0123456789"
NOBODY: Final = "127.0.0.1:9"
"""An address where nothing listens."""
START_SECONDS: Final = 20.0


class _Server(StoppingServer):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass(frozen=True, slots=True)
class Asking:
    """A running gateway as one organization sees it, and the database behind it."""

    url: str
    database: ArrangedDatabase
    organization_uuid: UUID
    api_key: str
    client: httpx.AsyncClient

    async def ask(
        self,
        method: str,
        path: str,
        *,
        token: str | None = None,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        json: object = None,
        content: bytes | AsyncIterator[bytes] | None = None,
        params: Mapping[str, object] | None = None,
    ) -> httpx.Response:
        """Ask by a session's token, by another organization's key, or by our own; checks the answer's form."""
        credentials = f"Agent {token}" if token else f"Bearer {key or self.api_key}"
        answer = await self.client.request(
            method,
            path,
            headers={"authorization": credentials, **(headers or {})},
            json=json,
            content=content,
            params=None if params is None else {name: str(value) for name, value in params.items()},
        )
        check_answer(answer)
        return answer

    async def config(self, **settings: object) -> UUID:
        """A new agent config."""
        config = uuid4()
        answer = await self.ask("PUT", f"/api/app/agents/configs/{config}", json=settings)
        assert answer.status_code == 200, answer.text
        return config

    async def session(
        self, config: UUID, caller: Mapping[str, object] | None = None, **more: object
    ) -> "Registered":
        """A new session of this config."""
        body = {"agent_config_uuid": str(config), "caller": caller or {"kind": "none"}, **more}
        answer = await self.ask("POST", "/api/app/agents/sessions", json=body)
        assert answer.status_code == 201, answer.text
        told = answer.json()
        return Registered(UUID(told["session_uuid"]), told["token"], told)

    async def save(
        self,
        session: "Registered",
        body: object = None,
        *,
        raw: bytes | AsyncIterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Ask for a save by the session's token; `raw` is a body as it is."""
        path = f"/api/agents/sessions/{session.uuid}/memory-save"
        return await self.ask("POST", path, token=session.token, json=body, content=raw, headers=headers)

    async def load(self, session: "Registered", **body: object) -> httpx.Response:
        """Ask for a load by the session's token."""
        path = f"/api/agents/sessions/{session.uuid}/memory-load"
        return await self.ask("POST", path, token=session.token, json=body)

    async def start(self, kind: str, **data: object) -> httpx.Response:
        """Start a workflow run for our own organization, unless the data name another."""
        initial = {"organization_uuid": str(self.organization_uuid)} | data
        body = {"workflow_type": kind, "initial_data": initial}
        return await self.ask("POST", "/api/workflows/start", json=body)

    async def remember(
        self,
        config: UUID,
        *texts: str,
        principal: str | None = None,
        importance: float = 0.5,
        at: datetime | None = None,
    ) -> tuple[UUID, ...]:
        """Entries as a save would have left them, in the order of the texts; the first is the oldest."""
        scope = MemoryScope(self.organization_uuid, config, principal)
        ids = [uuid7() for _ in texts]
        async with self.database.begin() as connection:
            await memories.share_configs(connection, [(self.organization_uuid, config)])
            for memory_id, text in zip(ids, texts, strict=True):
                plan = plan_save([Entry(text, importance)])
                await memories.upsert_reinforcing(
                    connection,
                    fold((scope, entry) for entry in plan.kept),
                    ids=[memory_id],
                    sources=[EntrySource("runner")],
                    at=at,
                )
            await memories.add_to_counters(connection, {(self.organization_uuid, config): len(texts)})
        return tuple(ids)

    async def until(self, condition: Callable[[], Awaitable[bool]], *, seconds: float = 20.0) -> None:
        """Wait until the condition holds; the test fails when it never does."""
        deadline = monotonic() + seconds
        while not await condition():
            assert monotonic() < deadline, "the condition never held"
            await asyncio.sleep(0.01)

    async def rows(self, statement: str) -> Sequence[Mapping[str, Any]]:
        """What the database says."""
        async with self.database.read() as connection:
            return [dict(row) for row in (await connection.exec_driver_sql(statement)).mappings()]


@dataclass(frozen=True, slots=True)
class Registered:
    """A session that was registered, its token, and the whole answer."""

    uuid: UUID
    token: str
    answer: Mapping[str, Any]


@contextlib.asynccontextmanager
async def running_gateway(database_url: str, **settings: object) -> AsyncIterator[Asking]:
    """A gateway that accepts through the store unless told otherwise, with a fresh organization."""
    database = ArrangedDatabase(database_url, pool_size=2)
    organization = uuid4()
    try:
        key = await create_key(database, organization, name="test")
        async with serving(database_url, **settings) as url, _client(url) as client:
            yield Asking(url, database, organization, key, client)
    finally:
        await database.dispose()


@contextlib.asynccontextmanager
async def serving(database_url: str, **settings: object) -> AsyncIterator[str]:
    """The address of a gateway on this database."""
    made = GatewaySettings.model_validate(
        {
            "database_url": database_url,
            "bootstrap_servers": NOBODY,
            "accept": "store",
            "http_port": 0,
            "token_secrets": TOKEN_SECRET,
            "stop_seconds": 3.0,
            "key_cache_seconds": 0.05,
        }
        | settings
    )
    gateway = Gateway(made)
    server = _Server(server_config(made, gateway.app()), gateway.stopping)
    running = asyncio.create_task(server.serve())
    try:
        async with asyncio.timeout(START_SECONDS):
            while not server.started:
                assert not running.done(), "the gateway ended"
                await asyncio.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        yield url
        OUTPUTS.search("the metrics of a gateway", generate_latest().decode())
    finally:
        server.should_exit = True
        await running


def _client(url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, trust_env=False, timeout=30.0)
