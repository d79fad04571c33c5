"""A provider that asks the test's own endpoint, with a book of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import date
from typing import Final
from uuid import UUID

from lorebus_domain.distilling import DistillInput, ToolCall
from lorebus_kit.providers.errors import FailureReason, NotAskedError
from lorebus_kit.providers.openai_provider import OpenAIProvider
from lorebus_kit.providers.port import Distilled, Transcript
from lorebus_kit.providers.profiles import ModelProfile
from lorebus_kit.providers.usage import CountedCall
from tests.support.model_server import Behaviour, ModelServer, model_server

ORGANIZATION: Final = UUID(int=1)
FAILED: Final = DistillInput(
    outcome="failed",
    task="move the booking to Friday",
    trace=(
        ToolCall("get_booking", {"id": "B1"}, "ok", is_error=False),
        ToolCall("move_booking", {"id": "B1", "day": "Friday"}, "Error: not paid", is_error=True),
    ),
)


@dataclass(slots=True)
class Book:
    """A book in memory that allows `calls_left` calls."""

    calls_left: int = 1_000
    begun: list[int] = field(default_factory=list)
    settled: list[tuple[int, int]] = field(default_factory=list)

    async def begin(self, organization_uuid: UUID, *, prompt_tokens: int) -> CountedCall:
        if len(self.begun) >= self.calls_left:
            raise NotAskedError(FailureReason.OVER_BUDGET, "used up", due_in_seconds=60)
        self.begun.append(prompt_tokens)
        return CountedCall(organization_uuid, date(2026, 3, 1), prompt_tokens)

    async def settle(self, call: CountedCall, *, prompt_tokens: int, completion_tokens: int) -> None:
        assert call.prompt_tokens in self.begun
        self.settled.append((prompt_tokens, completion_tokens))


@dataclass(slots=True)
class Asking:
    """A provider, its endpoint and its book."""

    provider: OpenAIProvider
    server: ModelServer
    book: Book

    async def distil(self, session: DistillInput = FAILED, transcript: Transcript | None = None) -> Distilled:
        return await self.provider.distil(session, organization_uuid=ORGANIZATION, transcript=transcript)


@asynccontextmanager
async def asking(
    *script: Behaviour, book: Book | None = None, otherwise: Behaviour | None = None, **profile: object
) -> AsyncIterator[Asking]:
    """A provider whose endpoint meets its requests as the script says, one after the other."""
    async with model_server(*script, otherwise=otherwise) as server:
        kept = book or Book()
        provider = OpenAIProvider("test", ModelProfile.model_validate(server.profile(**profile)), kept)
        try:
            yield Asking(provider, server, kept)
        finally:
            await provider.close()
