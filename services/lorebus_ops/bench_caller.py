"""A caller of the bench: a session of its own that saves and loads over HTTP, one request after the other.

The rule that must not break: it works in the agent config that it was given, as a person who is nobody's.
"""

import asyncio
from time import perf_counter
from typing import Final
from uuid import UUID, uuid4

import httpx2

from lorebus_contracts.http_answers import LoadAnswer, SessionAnswer
from lorebus_domain.recall import Strategy
from lorebus_ops.bench_figures import Measured
from lorebus_ops.gateway_client import sound

STRATEGIES: Final = (Strategy.LAST_K, Strategy.IMPORTANCE, Strategy.FULL, Strategy.PACK)
WAIT: Final = {"prefer": "wait=30"}
"""Answer with a run's end, where it comes within so many seconds."""

FIRST_ENTRIES: Final = 100
VISIBLE_SECONDS: Final = 30.0
AFTER_FAILURE_SECONDS: Final = 0.2
_ASK_AGAIN_SECONDS: Final = 0.01
_TASK: Final = "Compare the plans of the customer and book the one that costs less."
_TEXT: Final = (
    "Customers who compare plans want the price of a month with all fees, not that of the first one: {}"
)


class Caller:
    """One session; `measured` gets what it measures."""

    def __init__(self, client: httpx2.AsyncClient, agent_config: UUID, measured: Measured) -> None:
        self._client = client
        self._agent_config = agent_config
        self._measured = measured
        self._session = uuid4()
        self._headers: dict[str, str] = {}

    async def begin(self) -> None:
        """Register the session, and save what it will recall; returns when that is visible.

        Raises:
            RefusedError: the gateway refused.
            UnreachableError: it cannot do its work now.
        """
        body = {
            "agent_config_uuid": str(self._agent_config),
            "session_uuid": str(self._session),
            "caller": {"kind": "end_user", "ref": f"lorebus-bench-{self._session}"},
            "task": _TASK,
        }
        answer = await sound(await self._client.post("/api/app/agents/sessions", json=body))
        token = SessionAnswer.model_validate_json(answer.content).token
        self._headers = {"authorization": f"Agent {token}"}
        entries = [{"text": _text(), "importance": 0.5} for _ in range(FIRST_ENTRIES)]
        await sound(await self._post("memory-save", {"entries": entries}, WAIT))

    async def work(self, until: float) -> None:
        """Save and load by turns until this time of `perf_counter`, each load by the next strategy."""
        turn = 0
        while perf_counter() < until:
            await self._timed(self._measured.saves, "memory-save", {"content": _text()})
            strategy = STRATEGIES[turn % len(STRATEGIES)]
            times = self._measured.loads.setdefault(strategy, [])
            await self._timed(times, "memory-load", {"strategy": strategy.value})
            turn += 1

    async def watch(self, until: float) -> None:
        """Save a text and load until it is there, again and again until this time of `perf_counter`."""
        while perf_counter() < until:
            text = _text()
            sent = perf_counter()
            if await self._timed([], "memory-save", {"content": text}) is not None:
                await self._see(text, sent)

    async def last_save(self) -> None:
        """Wait until what this session saved before is handled: records of one person are, in their order."""
        await sound(await self._post("memory-save", {"content": _text()}, WAIT))

    async def _see(self, text: str, sent: float) -> None:
        while perf_counter() < sent + VISIBLE_SECONDS:
            answer = await self._timed([], "memory-load", {"strategy": Strategy.LAST_K.value, "top_k": 1})
            if answer is not None and LoadAnswer.model_validate_json(answer.content).memory == text:
                self._measured.visible.append(perf_counter() - sent)
                return
            await asyncio.sleep(_ASK_AGAIN_SECONDS)
        self._measured.unseen += 1

    async def _timed(self, times: list[float], what: str, body: dict[str, object]) -> httpx2.Response | None:
        """The answer, whose time is noted; None when it failed, which is counted, after a moment."""
        began = perf_counter()
        try:
            answer = await self._post(what, body)
        except httpx2.TransportError as error:
            self._measured.failed[type(error).__name__] += 1
        else:
            if answer.is_success:
                times.append(perf_counter() - began)
                return answer
            self._measured.failed[str(answer.status_code)] += 1
        await asyncio.sleep(AFTER_FAILURE_SECONDS)
        return None

    async def _post(
        self, what: str, body: dict[str, object], headers: dict[str, str] | None = None
    ) -> httpx2.Response:
        path = f"/api/agents/sessions/{self._session}/{what}"
        return await self._client.post(path, json=body, headers=self._headers | (headers or {}))


def _text() -> str:
    """Another text each time, of the length that lessons have."""
    return _TEXT.format(uuid4().hex)
