"""The topics: who writes them, who reads them, and how their records are keyed (ARCHITECTURE.md, Topics)."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

MAX_RECORD_BYTES: Final = 4 * 1024 * 1024
"""What a topic takes for one record: a 1 MiB body that HTTP accepts, made up to three times longer by NFC, fits."""

MAX_DEAD_LETTER_BYTES: Final = MAX_RECORD_BYTES + 64 * 1024
"""What a dead-letter topic takes: the largest record with the headers that say where it came from and why."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic with the consumer groups that read it."""

    name: str
    groups: tuple[str, ...] = ()
    description: str = ""

    def dead_letters(self, group: str) -> str:
        """The name of the topic that takes what `group` could not handle."""
        return f"{self.name}.{group}.dlq"


DISTILL_GROUP: Final = "lorebus.distill"
LABELS_GROUP: Final = "lorebus.labels"
SAVE_GROUP: Final = "lorebus.save"
PRUNE_GROUP: Final = "lorebus.prune"

SESSION_ENDED: Final = Topic(
    "session.ended", (DISTILL_GROUP, LABELS_GROUP), "A session ended; carries all that a distill needs."
)
SESSION_RATED: Final = Topic("session.rated", (LABELS_GROUP,), "Somebody rated a session.")
SAVE_REQUESTED: Final = Topic("memory.save-requested", (SAVE_GROUP,), "Entries to be kept for one scope.")
PRUNE_REQUESTED: Final = Topic(
    "memory.prune-requested", (PRUNE_GROUP,), "An agent config to be cut to a cap."
)
RECALL_RECORDED: Final = Topic("recall.recorded", (LABELS_GROUP,), "What an answered load handed out.")
MEMORY_CHANGED: Final = Topic("memory.changed", (), "What changed in the memory; the live tail reads it.")

TOPICS: Final = (
    SESSION_ENDED,
    SESSION_RATED,
    SAVE_REQUESTED,
    PRUNE_REQUESTED,
    RECALL_RECORDED,
    MEMORY_CHANGED,
)


def session_key(session_uuid: UUID) -> bytes:
    """The key of everything that is about one session."""
    return str(session_uuid).encode()


def config_key(agent_config_uuid: UUID) -> bytes:
    """The key of everything that is about one agent config."""
    return str(agent_config_uuid).encode()


def scope_key(agent_config_uuid: UUID, principal_ref: str | None) -> bytes:
    """The key of one scope: unambiguous, because the UUID before the bar always has 36 characters."""
    return f"{agent_config_uuid}|{principal_ref or ''}".encode()
