"""What turns a prepared session into lessons: a port, and the provider that is built in."""

from dataclasses import dataclass
from typing import Protocol

from lorebus_domain.distilling import DistillInput, Lesson
from lorebus_domain.trace_rules import RULES_NAME, RULES_VERSION, distil_by_rules


@dataclass(frozen=True, slots=True)
class Distilled:
    """What a provider made of a session: at most five lessons, and who it was."""

    lessons: tuple[Lesson, ...]
    provider: str
    version: str


class Provider(Protocol):
    """Distils sessions; called between transactions, never inside one."""

    name: str
    version: str

    async def distil(self, session: DistillInput) -> Distilled:
        """The lessons of one session, often none.

        Raises:
            TransientError: worth another attempt.
            PermanentError: this session can never be distilled; the text says why.
        """


class TraceRules:
    """The built-in provider: deterministic rules over the trace, no model and no key."""

    name = RULES_NAME
    version = str(RULES_VERSION)

    async def distil(self, session: DistillInput) -> Distilled:
        """At most five lessons from what failed, what was put right and what worked in order."""
        return Distilled(distil_by_rules(session), self.name, self.version)
