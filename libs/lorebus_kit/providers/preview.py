"""What a distill of a session would be told, would answer and would teach, for a person who wants to see it first.

The rule that must not break: nothing is saved by it; the session is prepared as it would be, and the calls of the
model are counted like any other.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from lorebus_contracts.events import ToolCallBody
from lorebus_domain.distilling import DISTILLED_OUTCOMES, DistillSkip, Lesson, ToolCall, prepare
from lorebus_domain.quarantine import QuarantineReason, quarantine_reason
from lorebus_kit.providers.errors import (
    FailureReason,
    NotAskedError,
    ProviderAwayError,
    ProviderRefusedError,
)
from lorebus_kit.providers.port import Distilled, Provider, Transcript

RULES_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class PreviewedLesson:
    """A lesson as it would be saved; with `held_for` it would be held back."""

    lesson: Lesson
    held_for: QuarantineReason | None


@dataclass(frozen=True, slots=True)
class Preview:
    """What came of it: lessons, or a reason why there are none; the transcript holds what was said either way."""

    provider: str
    version: str
    transcript: Transcript
    redacted: Mapping[str, int] = field(default_factory=dict)
    dropped_calls: int = 0
    lessons: tuple[PreviewedLesson, ...] = ()
    distilled: Distilled | None = None
    skipped_reason: DistillSkip | None = None
    failure_reason: FailureReason | None = None
    error: str | None = None


async def preview(
    provider: Provider, *, organization_uuid: UUID, outcome: str, task: str, trace: Sequence[ToolCallBody]
) -> Preview:
    """Distil a session without saving anything; a provider that fails is told of, not raised.

    Raises:
        TransientError: the book of usage is away.
    """
    seen = Transcript()
    if outcome not in DISTILLED_OUTCOMES:
        return Preview(provider.name, provider.version, seen, skipped_reason=DistillSkip.NOT_TERMINAL)
    calls = [ToolCall(call.tool, call.input, call.output, call.is_error) for call in trace]
    prepared = await asyncio.to_thread(lambda: prepare(outcome=outcome, task=task, trace=calls))
    distilled, failure, error = None, None, None
    if not prepared.input.is_blank:
        try:
            async with asyncio.timeout(provider.deadline_seconds or RULES_SECONDS):
                distilled = await provider.distil(
                    prepared.input, organization_uuid=organization_uuid, transcript=seen
                )
        except (ProviderRefusedError, ProviderAwayError, NotAskedError) as refused:
            failure, error = refused.reason, str(refused)
        except TimeoutError:
            failure, error = FailureReason.MODEL_TIMEOUT, "the model did not answer within its deadline"
    lessons = () if distilled is None else tuple(map(_previewed, distilled.lessons))
    return Preview(
        provider=provider.name,
        version=provider.version,
        transcript=seen,
        redacted=prepared.redacted,
        dropped_calls=prepared.dropped_calls,
        lessons=lessons,
        distilled=distilled,
        skipped_reason=None if lessons or failure else DistillSkip.NO_LESSONS,
        failure_reason=failure,
        error=error,
    )


def _previewed(lesson: Lesson) -> PreviewedLesson:
    return PreviewedLesson(lesson, quarantine_reason(lesson.text))
