"""The label of a recall, as whoever reads its receipt works it out."""

from lorebus_domain.labelling import Rating, Terminal, label_of_outcome, resolve_label
from lorebus_store.recalls import Receipt


def label_of(receipt: Receipt) -> str | None:
    """`success`, `failed`, or None while there is none."""
    terminal = rating = None
    if receipt.outcome is not None and receipt.ended_at is not None and receipt.ended_event_id is not None:
        label = label_of_outcome(receipt.outcome)
        terminal = Terminal(label, receipt.ended_at, receipt.ended_event_id)
    if (
        receipt.quality_score is not None
        and receipt.rated_at is not None
        and receipt.rated_event_id is not None
    ):
        rating = Rating(receipt.quality_score, receipt.rated_at, receipt.rated_event_id)
    found = resolve_label(terminal, rating)
    return None if found is None else found.value
