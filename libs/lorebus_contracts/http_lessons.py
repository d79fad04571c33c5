"""What HTTP takes and answers about distilled lessons: trying a distill, and what stands behind an entry.

The rule that must not break: a body names no organization; a session to try is told whole, and nothing of it is kept.
"""

from datetime import datetime
from uuid import UUID

from pydantic import Field

from lorebus_contracts.events import Trace
from lorebus_contracts.fields import Name, Outcome, TaskText
from lorebus_contracts.wire import WireModel
from lorebus_domain.distilling import DistillSkip
from lorebus_domain.evidence import EvidenceKind
from lorebus_domain.quarantine import QuarantineReason


class PreviewBody(WireModel):
    """A session to distil without saving anything, as `session.ended` would tell it."""

    outcome: Outcome = Field(description="`success` or `failed`; no other outcome is distilled.")
    task: TaskText = Field(default="", description="What the session was asked to do.")
    trace: Trace = Field(default=(), description="Its calls of tools, in order.")
    model_profile: Name | None = Field(
        default=None,
        description="Which model to try; left out, the organization's own. `trace-rules` are the built-in rules.",
    )


class PreviewPrompt(WireModel):
    """What the model was sent."""

    version: str = Field(description="The prompt's version.")
    system: str = Field(description="The instructions.")
    user: str = Field(description="The session, as data, and what is asked of it.")


class PreviewLesson(WireModel):
    """A lesson as a save would get it."""

    text: str = Field(description="The lesson.")
    importance: float = Field(description="From 0 to 1; below 0.1 it would not be kept.")
    held_for: QuarantineReason | None = Field(
        default=None, description="Why it would be held back; null: it would not."
    )


class PreviewAnswer(WireModel):
    """What a distill of the session would be: nothing of it is saved. A model's calls count against the budget."""

    provider: str = Field(description="Who distilled.")
    provider_version: str = Field(description="Its version.")
    model: str | None = Field(default=None, description="The model, as the endpoint names it.")
    prompt: PreviewPrompt | None = Field(default=None, description="Only where a model was asked.")
    answers: tuple[str, ...] = Field(
        default=(), description="What the model said; two where the first could not be read."
    )
    lessons: tuple[PreviewLesson, ...] = Field(default=(), description="At most five.")
    dropped: int = Field(default=0, description="Items of the answer that were no lessons.")
    folded: int = Field(default=0, description="Items that repeated a lesson.")
    redacted: dict[str, int] = Field(default_factory=dict, description="Secrets taken out before, by kind.")
    dropped_calls: int = Field(default=0, description="Calls of the trace before the last 25.")
    prompt_tokens: int | None = Field(default=None, description="Tokens sent in all calls.")
    completion_tokens: int | None = Field(default=None, description="Tokens answered in all calls.")
    milliseconds: int | None = Field(default=None, description="How long all calls took.")
    price: float | None = Field(default=None, description="What the tokens cost, where prices are set.")
    skipped_reason: DistillSkip | None = Field(default=None, description="Why there are no lessons.")
    failure_reason: str | None = Field(
        default=None, description="Why the distill would fail or wait, as a word that a program can test."
    )
    error: str | None = Field(default=None, description="The same in a sentence.")


class EvidenceItem(WireModel):
    """One distill that taught the entry."""

    kind: EvidenceKind = Field(
        description="`own`: the session learnt it by itself. `echo`: the session had recalled it before."
    )
    session_uuid: UUID = Field(description="The session.")
    workflow_id: UUID = Field(description="The save run of its lessons.")
    at: datetime = Field(description="When it was saved.")


class EntryEvidence(WireModel):
    """What stands behind an entry: the latest distills that taught it, newest first, and how all its saves add up."""

    entry_id: UUID = Field(description="The entry.")
    saves: int = Field(description="How often it was saved, its first time included.")
    echoes: int = Field(description="How many of these were echoes.")
    items: tuple[EvidenceItem, ...] = Field(description="At most 100.")
