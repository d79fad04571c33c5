"""The file that an export writes and an import reads: JSON Lines, a header, an entry a line, and an end.

The rule that must not break: an export of what was imported is the same file, byte for byte. So a line says all that is
kept of an entry but its id and its agent config, which are another's where it is moved to.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, RootModel, StrictInt, model_validator

from lorebus_contracts.events import Origin
from lorebus_contracts.fields import (
    WHOLE,
    CleanStr,
    Count,
    EntryText,
    Importance,
    Json,
    PrincipalRef,
    SchemaVersion1,
    Timestamp,
    Uuid,
)
from lorebus_contracts.wire import WireModel

MEDIA_TYPE: Final = "application/x-ndjson"
MAX_FILE_BYTES: Final = 256 * 1024 * 1024
"""What an import takes at once. A longer file is cut into several, each with a header and an end."""
MAX_LINE_BYTES: Final = 1024 * 1024

LongCount = Annotated[StrictInt, Field(ge=0, le=2**63 - 1), WHOLE]


class EntryState(StrEnum):
    """Whether an entry is memory, or held back until a person has looked at it."""

    ACTIVE = "active"
    QUARANTINED = "quarantined"


class FileHeader(WireModel):
    """The first line."""

    format: Literal["lorebus.memory"] = Field(description="What the file is.")
    version: SchemaVersion1 = Field(description="The version of its form.")


class FileEntry(WireModel):
    """A memory entry, with all that is known of it."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"properties": {"state": {"const": "active"}}},
                {
                    "properties": {"quarantine_reason": {"type": "string", "minLength": 1}},
                    "required": ["quarantine_reason"],
                },
            ]
        }
    )

    principal_ref: PrincipalRef | None = Field(description="Whose memory it is; null: the shared pool.")
    text: EntryText = Field(description="What is remembered.")
    importance: Importance = Field(description="How much it matters.")
    reinforcement_count: Count = Field(default=0, description="How often it was saved again.")
    echo_count: Count = Field(default=0, description="How many of its saves gave back what was recalled.")
    access_count: LongCount = Field(default=0, description="How often it was handed out.")
    success_count: LongCount = Field(default=0, description="Recalls of it that were labelled `success`.")
    failed_count: LongCount = Field(default=0, description="Recalls of it that were labelled `failed`.")
    state: EntryState = Field(default=EntryState.ACTIVE, description="`quarantined`: held back.")
    quarantine_reason: CleanStr | None = Field(default=None, description="Why it is, or was, held back.")
    origin: Origin = Field(default=Origin.IMPORT, description="Where it came from.")
    session_uuid: Uuid | None = Field(default=None, description="The session that saved it first.")
    provenance: dict[str, Json] | None = Field(default=None, description="What distilled it.")
    created_at: Timestamp = Field(description="When it was first saved.")
    updated_at: Timestamp = Field(description="When it was last saved.")
    last_accessed_at: Timestamp | None = Field(default=None, description="When it was last handed out.")

    @model_validator(mode="after")
    def _is_held_for_a_reason(self) -> "FileEntry":
        if self.state is EntryState.QUARANTINED and not self.quarantine_reason:
            raise ValueError("is held back, so it needs a `quarantine_reason`")
        return self


class FileEnd(WireModel):
    """The last line, without which the file was cut short."""

    end: Literal[True] = Field(description="Nothing comes after this line.")
    entries: Annotated[StrictInt, Field(ge=0), WHOLE] = Field(description="How many entries the file holds.")


class FileLine(RootModel[FileHeader | FileEntry | FileEnd]):
    """Any line of the file: the first is a header, the last an end, and all between are entries."""
