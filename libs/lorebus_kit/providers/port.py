"""The port that every provider fits, and what one gives back.

The rule that must not break: a provider is asked between transactions, never inside one, and sees nothing of a session
but what `prepare` left of it.
"""

from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

from lorebus_domain.distilling import DistillInput, Lesson
from lorebus_domain.trace_rules import RULES_NAME, RULES_VERSION, distil_by_rules


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is sent: instructions, and the session as data; `version` names the wording."""

    version: str
    system: str
    user: str


@dataclass(frozen=True, slots=True)
class ModelCost:
    """What the calls of one distill took: tokens as the endpoint counted them, else estimated; wall-clock time.

    `price` is in the currency of the profile's prices, None where it has none.
    """

    model: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    milliseconds: int
    price: float | None = None


@dataclass(frozen=True, slots=True)
class Distilled:
    """What a provider made of a session: at most five lessons, who it was, and what it took.

    `dropped` and `folded` count items of a model's answer that are not among the lessons.
    """

    lessons: tuple[Lesson, ...]
    provider: str
    version: str
    prompt_version: str | None = None
    cost: ModelCost | None = None
    dropped: int = 0
    folded: int = 0


@dataclass(slots=True)
class Transcript:
    """What was said, for whoever wants to look on; a provider fills it as it goes, also when it fails in the end."""

    prompt: Prompt | None = None
    answers: list[str] = field(default_factory=list)


class Provider(Protocol):
    """Distils sessions."""

    name: str
    version: str
    deadline_seconds: float | None
    """The longest that one session may take; None: as long as its caller allows."""

    async def distil(
        self, session: DistillInput, *, organization_uuid: UUID, transcript: Transcript | None = None
    ) -> Distilled:
        """The lessons of one session, often none.

        Raises:
            ProviderAwayError: worth another attempt, later.
            NotAskedError: the model was not asked, for a reason that passes; this was no attempt.
            ProviderRefusedError: this session can never be distilled so; the text says why.
        """


class TraceRules:
    """The built-in provider: deterministic rules over the trace, no model and no key."""

    name = RULES_NAME
    version = str(RULES_VERSION)
    deadline_seconds: float | None = None

    async def distil(
        self,
        session: DistillInput,
        *,
        organization_uuid: UUID,  # noqa: ARG002  # The rules are the same for everybody.
        transcript: Transcript | None = None,  # noqa: ARG002  # They say nothing on the way.
    ) -> Distilled:
        """At most five lessons from what failed, what was put right and what worked in order."""
        return Distilled(distil_by_rules(session), self.name, self.version)
