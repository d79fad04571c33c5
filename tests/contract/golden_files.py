"""The golden files: payloads that were once published and must parse for ever, and what is generated."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lorebus_contracts.events import EVENTS, Event

ROOT: Final = Path(__file__).parents[2]
GOLDEN: Final = ROOT / "tests" / "contract" / "golden"
SCHEMAS: Final = GOLDEN / "schemas"
CHECKSUMS: Final = GOLDEN / "golden.sha256"
ASYNCAPI: Final = ROOT / "docs" / "asyncapi.json"
SESSIONS: Final = ROOT / "services" / "lorebus_ops" / "data" / "sessions.jsonl"

EVENT_OF: Final[Mapping[str, type[Event]]] = {event.topic.name: event for event in EVENTS}
PAYLOADS: Final = tuple(sorted(GOLDEN.glob("*/v1/*.json")))


def name_of(payload: Path) -> str:
    """The payload's path below the golden folder, as its checksum's line has it."""
    return payload.relative_to(GOLDEN).as_posix()


def event_of(payload: Path) -> type[Event]:
    """The event that the payload's folder names."""
    return EVENT_OF[payload.relative_to(GOLDEN).parts[0]]


def checksum_of(payload: Path) -> str:
    """As `sha256sum` prints it."""
    return hashlib.sha256(payload.read_bytes()).hexdigest()


def published() -> dict[str, str]:
    """The checksum of every payload by its name, as written down when it was added."""
    lines = CHECKSUMS.read_text(encoding="ascii").splitlines()
    return {name: checksum for checksum, name in (line.split("  ", 1) for line in lines)}
