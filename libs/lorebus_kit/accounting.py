"""What became of each record: consumed = applied + duplicate + skipped + dead-lettered, a partition at a time."""

from dataclasses import dataclass

from lorebus_kit import metrics
from lorebus_kit.verdicts import Applied, Duplicate, Skipped


@dataclass(frozen=True, slots=True)
class DeadLettered:
    """The record went to the dead letters; the reason is an error type or a handler's reason."""

    reason: str


Outcome = Applied | Duplicate | Skipped | DeadLettered


def account(outcome: Outcome, *, topic: str, group: str, partition: int) -> None:
    """Count one record whose outcome is decided."""
    labels = (topic, group, str(partition))
    metrics.CONSUMED.labels(*labels).inc()
    match outcome:
        case Applied():
            metrics.APPLIED.labels(*labels).inc()
        case Duplicate():
            metrics.DUPLICATE.labels(*labels).inc()
        case Skipped(reason):
            metrics.SKIPPED.labels(*labels, reason).inc()
        case DeadLettered(reason):
            metrics.DEAD_LETTERED.labels(*labels, reason).inc()
