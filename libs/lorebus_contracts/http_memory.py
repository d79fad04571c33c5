"""What HTTP takes and answers where an organization follows, erases and moves its memory (SPEC.md section 8).

The rule that must not break: a subject of an erasure is named once, and never told again by its receipt.
"""

from datetime import datetime
from enum import StrEnum
from uuid import UUID

from pydantic import ConfigDict, Field, model_validator

from lorebus_contracts.events import ChangeKind
from lorebus_contracts.fields import PrincipalRef, Uuid
from lorebus_contracts.wire import WireModel
from lorebus_contracts.workflows import State


class FeedQuery(WireModel):
    """Which changes to tell of: the organization's own, all of them or these."""

    agent_config_uuid: Uuid | None = Field(default=None, description="Only this agent config's.")
    kind: ChangeKind | None = Field(default=None, description="Only of this kind.")


class GapReason(StrEnum):
    """Why changes may be missing from a feed."""

    TOO_OLD = "too_old"
    UNKNOWN_ID = "unknown_id"
    LOST = "lost"


class FeedGap(WireModel):
    """The data of the event `gap`: between the event before it and the one behind it changes may be missing."""

    reason: GapReason = Field(
        description="`too_old`: forgotten since `Last-Event-ID`. `unknown_id`: that is no id of ours. `lost`: the bus"
        " has dropped changes that were not read yet."
    )


class FeedReady(WireModel):
    """The data of the event `ready`: what was missed has been told, and what follows is live."""

    replayed: int = Field(description="How many changes were told since `Last-Event-ID`.")


class EraseBody(WireModel):
    """Whose memory to erase: a principal's (in one agent config, or in all), or what one session left."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {
                    "required": ["principal_ref"],
                    "properties": {"principal_ref": {"type": "string"}, "session_uuid": {"type": "null"}},
                },
                {
                    "required": ["session_uuid"],
                    "properties": {
                        "session_uuid": {"type": "string"},
                        "principal_ref": {"type": "null"},
                        "agent_config_uuid": {"type": "null"},
                    },
                },
            ]
        }
    )

    principal_ref: PrincipalRef | None = Field(
        default=None, description="A caller's stable reference, exactly as its sessions have it."
    )
    agent_config_uuid: Uuid | None = Field(
        default=None, description="With `principal_ref`: only within this agent config; left out, in all."
    )
    session_uuid: Uuid | None = Field(default=None, description="A session.")

    @model_validator(mode="after")
    def _is_one_subject(self) -> "EraseBody":
        if (self.principal_ref is None) == (self.session_uuid is None):
            raise ValueError("takes either `principal_ref` or `session_uuid`, one of the two")
        if self.session_uuid is not None and self.agent_config_uuid is not None:
            raise ValueError(
                "takes `agent_config_uuid` with `principal_ref` only: a session has one agent config"
            )
        return self


class SubjectKind(StrEnum):
    """What sort of subject an erasure has."""

    PRINCIPAL = "principal"
    SESSION = "session"


class ErasedCounts(WireModel):
    """How many of each kind an erasure took away; each was there, and none of them is."""

    entries: int = Field(description="Memory entries, those that were held back among them.")
    evidence: int = Field(description="Lines of what stood behind entries.")
    recalls: int = Field(description="Recalls of the subject's own sessions, with their cues.")
    recall_entries: int = Field(
        description="Lines of recalls, of others' too: those keep the ids in their receipts, without texts."
    )
    sessions: int = Field(description="Sessions whose caller and task were taken out.")
    run_inputs: int = Field(description="Runs that had not ended: ended, and their stored inputs deleted.")
    outbox: int = Field(description="Events that waited to be published.")
    answers: int = Field(
        description="Answers kept for `Idempotency-Key`: all of the organization's, as any may hold texts."
    )


class ErasureReceipt(WireModel):
    """An erasure that is done. The subject is kept as a hash, by which late events of it are known and skipped."""

    erasure_id: UUID = Field(description="What this receipt is found by.")
    state_name: State = Field(description="`completed`: an erasure is done wholly or not at all.")
    is_terminal: bool = Field(description="Whether it has ended.")
    subject: SubjectKind = Field(description="What was erased.")
    subject_hash: str = Field(description="SHA-256 of the subject within the organization, in hex.")
    agent_config_uuid: UUID | None = Field(description="The only agent config that it reached; null: all.")
    erased_at: datetime = Field(description="Events of the subject from before this time are skipped.")
    counts: ErasedCounts = Field(description="What was taken away.")
    bus_keeps_until: datetime = Field(
        description="When the last record or dead letter from before has left the bus, where single records cannot be"
        " deleted; until then it is skipped whenever it is read."
    )


class MoveQuery(WireModel):
    """Whose entries to move."""

    agent_config_uuid: Uuid = Field(description="The agent config.")


class ImportAnswer(WireModel):
    """An import that is done, wholly; sending the same again adds nothing."""

    entries: int = Field(description="Entries in the file: the sum of the four below.")
    imported: int = Field(description="Entries that are new here.")
    present: int = Field(description="Entries whose text was there already; they stay as they were.")
    erased: int = Field(description="Entries left out, because their principal or session was erased later.")
    skipped: int = Field(description="Entries that no save would keep: too unimportant, or without a word.")
