"""The provider `openai`: a model behind any OpenAI-compatible endpoint.

The rule that must not break: an answer is read leniently and asked for again once, with the same prompt; only what is
unreadable twice fails (SPEC.md section 4).
"""

import asyncio
import math
from dataclasses import dataclass
from time import monotonic
from typing import Final
from uuid import UUID

from lorebus_domain.distilling import DistillInput
from lorebus_domain.reading import ReadLessons, UnreadableAnswer, read_lessons
from lorebus_kit.metrics import MODEL_TOKENS
from lorebus_kit.providers.endpoint import Endpoint
from lorebus_kit.providers.errors import FailureReason, ProviderRefusedError
from lorebus_kit.providers.port import Distilled, ModelCost, Prompt, Transcript
from lorebus_kit.providers.profiles import ModelProfile
from lorebus_kit.providers.prompt import build_prompt
from lorebus_kit.providers.replies import DeclinedError, NoReplyError, Reply, read_reply
from lorebus_kit.providers.usage import CountedCall, UsageBook

OPENAI_NAME: Final = "openai"
OPENAI_VERSION: Final = "1"
"""Of how we ask and read, apart from the prompt's own version."""
ANSWERS_READ: Final = 2
CHARS_PER_TOKEN: Final = 4
"""What an endpoint that counts no tokens is taken to have used: about right for English and JSON."""


class OpenAIProvider:
    """Asks one profile's model."""

    name = OPENAI_NAME
    version = OPENAI_VERSION

    def __init__(self, profile_name: str, profile: ModelProfile, usage: UsageBook) -> None:
        self._profile_name = profile_name
        self._profile = profile
        self._usage = usage
        self._endpoint = Endpoint(profile_name, profile)
        self.deadline_seconds: float | None = profile.deadline_seconds

    async def distil(
        self, session: DistillInput, *, organization_uuid: UUID, transcript: Transcript | None = None
    ) -> Distilled:
        """The lessons that the model sees in a session; the caller holds the deadline.

        Raises:
            NotAskedError: over budget, or the endpoint asked for a pause.
            ProviderAwayError: the endpoint is away, slow or busy.
            ProviderRefusedError: it refused the request, declined to answer, or was unreadable twice.
            TransientError: the book of usage is away.
        """
        self._endpoint.require_no_pause()
        seen = transcript or Transcript()
        seen.prompt = build_prompt(session)
        asked = _Asked(organization_uuid)
        began = monotonic()
        for _ in range(ANSWERS_READ):
            try:
                read = await self._ask(seen.prompt, asked, seen)
            except (UnreadableAnswer, NoReplyError):
                continue
            return self._distilled(read, asked, seen.prompt, seconds=monotonic() - began)
        raise ProviderRefusedError(
            FailureReason.UNREADABLE_ANSWER,
            "the model's answer could not be read, and neither could its second",
        )

    async def close(self) -> None:
        """Close the endpoint's connections."""
        await self._endpoint.close()

    async def _ask(self, prompt: Prompt, asked: "_Asked", seen: Transcript) -> ReadLessons:
        async def begin_call() -> None:
            estimate = _tokens(prompt.system) + _tokens(prompt.user)
            asked.call = await self._usage.begin(asked.organization_uuid, prompt_tokens=estimate)
            asked.calls += 1

        body = await self._endpoint.complete(prompt, begin_call=begin_call)
        try:
            reply = read_reply(body)
        except DeclinedError as error:
            raise ProviderRefusedError(
                FailureReason.MODEL_DECLINED, "the model declined to answer"
            ) from error
        seen.answers.append(reply.text)
        await self._settle(asked, reply)
        # A million characters take a while to read, in which the consumer beside must not be silent.
        return await asyncio.to_thread(read_lessons, reply.text)

    async def _settle(self, asked: "_Asked", reply: Reply) -> None:
        call = asked.call
        if call is None:
            raise AssertionError("a call is counted before it is made")
        sent = call.prompt_tokens if reply.prompt_tokens is None else reply.prompt_tokens
        answered = _tokens(reply.text) if reply.completion_tokens is None else reply.completion_tokens
        asked.model = reply.model or self._profile.model
        asked.prompt_tokens += sent
        asked.completion_tokens += answered
        MODEL_TOKENS.labels(self._profile_name, "prompt").inc(sent)
        MODEL_TOKENS.labels(self._profile_name, "completion").inc(answered)
        await self._usage.settle(call, prompt_tokens=sent, completion_tokens=answered)

    def _distilled(self, read: ReadLessons, asked: "_Asked", prompt: Prompt, *, seconds: float) -> Distilled:
        return Distilled(
            lessons=read.lessons,
            provider=self.name,
            version=self.version,
            prompt_version=prompt.version,
            cost=ModelCost(
                model=asked.model,
                calls=asked.calls,
                prompt_tokens=asked.prompt_tokens,
                completion_tokens=asked.completion_tokens,
                milliseconds=round(seconds * 1000),
                price=self._profile.price_of(asked.prompt_tokens, asked.completion_tokens),
            ),
            dropped=read.dropped,
            folded=read.folded,
        )


@dataclass(slots=True)
class _Asked:
    """What one distill has cost so far."""

    organization_uuid: UUID
    call: CountedCall | None = None
    calls: int = 0
    model: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0


def _tokens(text: str) -> int:
    return math.ceil(len(text) / CHARS_PER_TOKEN)
