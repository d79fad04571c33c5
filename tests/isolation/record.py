"""The record of a run: one JSON line, written where LOREBUS_ISOLATION_LOG says."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.isolation.tally import Tally
from tests.support.backends import wants_apache_kafka

OPERATIONS_VARIABLE: Final = "LOREBUS_ISOLATION_OPERATIONS"
SEED_VARIABLE: Final = "LOREBUS_ISOLATION_SEED"
LOG_VARIABLE: Final = "LOREBUS_ISOLATION_LOG"
CI_OPERATIONS: Final = 10_000
ON_KAFKA: Final = 2_000
"""What keeps texts apart is the same on either broker; here it is only seen to work."""


def operations() -> int:
    """How many operations are to be done."""
    usual = ON_KAFKA if wants_apache_kafka() else CI_OPERATIONS
    return int(os.environ.get(OPERATIONS_VARIABLE, usual))


def longest_seconds() -> float:
    """How long a search may take before it is taken for stuck: far longer than it does."""
    return 600.0 + operations() / 5


def seed_number() -> int:
    """What all choices follow from."""
    return int(os.environ.get(SEED_VARIABLE, "1"))


def write(name: str, tally: Tally, *, seconds: float) -> str:
    """Write the line, if anybody wants it; gives it in any case."""
    line = json.dumps(
        {
            "name": name,
            "seed": seed_number(),
            "operations": tally.done,
            "by_operation": dict(sorted(tally.operations.items())),
            "by_status": {str(status): count for status, count in sorted(tally.statuses.items())},
            "answers": tally.answers,
            "answered_bytes": tally.answered_bytes,
            "tail_pieces": tally.tail_pieces,
            "unsettled": tally.unsettled,
            "loads_with_own": tally.loads_with_own,
            "own": tally.own,
            "foreign": len(tally.leaks),
            "findings": len(tally.findings),
            "of_other_organizations": len(tally.foreign),
            "first_leak_after": tally.first_leak_after,
            "seconds": round(seconds, 1),
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
    )
    path = os.environ.get(LOG_VARIABLE)
    if path:
        with Path(path).open("a") as log:
            log.write(line + "\n")
    return line
