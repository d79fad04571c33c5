"""What is asked of Lorebus over HTTP: agent configs and sessions made beforehand, saves and loads to be measured."""

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import NAMESPACE_OID, UUID, uuid5

from tests.bench.http_wire import Address, Connection, post, request
from tests.bench.seeding import principal_name
from tests.bench.workload import Post

CONNECTIONS: Final = 8
MAX_ENTRIES: Final = 10_000_000
"""Above all that is put in, so that nothing is pruned unasked."""


@dataclass(frozen=True, slots=True)
class Runner:
    """A session with its token."""

    session: str
    token: str

    def save(self, of: Post) -> bytes:
        """Keep some memories."""
        entries = [{"text": memory.text, "importance": memory.importance} for memory in of.memories]
        return self._post("memory-save", {"entries": entries})

    def load(self, strategy: str, cue: str) -> bytes:
        """Ask for memory."""
        return self._post("memory-load", {"strategy": strategy, "cue": cue})

    def _post(self, what: str, body: dict[str, object]) -> bytes:
        path = f"/api/agents/sessions/{self.session}/{what}"
        return post(path, body, authorization=f"Agent {self.token}")


def config_uuid(name: str) -> UUID:
    """The agent config of this name."""
    return uuid5(NAMESPACE_OID, f"lorebus bench {name}")


class LorebusApi:
    """One gateway, asked with an API key."""

    def __init__(self, address: Address, key: str) -> None:
        self.address = address
        self._authorization = f"Bearer {key}"

    async def make_configs(self, configs: Iterable[UUID]) -> None:
        """Make agent configs known."""
        body = {"memory_max_entries": MAX_ENTRIES}
        await self.ask_all(
            [
                request("PUT", f"/api/app/agents/configs/{config}", body, authorization=self._authorization)
                for config in configs
            ]
        )

    async def open_sessions(self, scopes: Sequence[tuple[UUID, int]]) -> list[Runner]:
        """A session of an actor for each agent config and number of a principal."""
        asked = [
            post(
                "/api/app/agents/sessions",
                {
                    "agent_config_uuid": str(config),
                    "caller": {"kind": "actor", "ref": principal_name(principal)},
                },
                authorization=self._authorization,
            )
            for config, principal in scopes
        ]
        return [Runner(told["session_uuid"], told["token"]) for told in await self.ask_all(asked)]

    async def prune(self, config: UUID, *, keep: int) -> UUID:
        """Have an agent config cut down; the run's id."""
        body = {"agent_config_uuid": str(config), "max_entries": keep}
        asked = post("/api/app/agents/memory/prune", body, authorization=self._authorization)
        return UUID((await self.ask_all([asked]))[0]["workflow_id"])

    async def total(self, config: UUID) -> int:
        """How many entries the listing counts."""
        path = f"/api/app/agents/memory?agent_config_uuid={config}&per_page=1"
        return int(
            (await self.ask_all([request("GET", path, authorization=self._authorization)]))[0]["total"]
        )

    async def ask_all(self, requests: Sequence[bytes]) -> list[Any]:
        """The answers' bodies, in order.

        Raises:
            RuntimeError: one was no success.
        """
        answers: list[Any] = [None] * len(requests)
        waiting = iter(enumerate(requests))

        async def call() -> None:
            connection = await Connection.open(self.address)
            for number, asked in waiting:
                answer = await connection.ask(asked)
                if not 200 <= answer.status < 300:
                    raise RuntimeError(f"answered {answer.status}: {answer.body.decode()}")
                answers[number] = json.loads(answer.body) if answer.body else None
            connection.close()

        await asyncio.gather(*(call() for _ in range(min(CONNECTIONS, len(requests)))))
        return answers
