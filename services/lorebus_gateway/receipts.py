"""Receipts: exactly what a recall handed out and left out, and what became of its session (SPEC.md section 5)."""

from lorebus_contracts import wire
from lorebus_contracts.events import CallerBody, PassedOverEntry
from lorebus_contracts.http_answers import HandedOutEntry, Receipt
from lorebus_domain.labelling import Label, Rating, Terminal, label_of_outcome, resolve_label
from lorebus_domain.recall import Strategy
from lorebus_domain.visibility import CallerKind
from lorebus_store import recalls


def receipt_answer(kept: recalls.Receipt) -> Receipt:
    """The receipt as it is shown."""
    return Receipt(
        recall_id=kept.recall_id,
        pack_id=kept.pack_id,
        agent_config_uuid=kept.agent_config_uuid,
        session_uuid=kept.session_uuid,
        caller=CallerBody(kind=CallerKind(kept.caller_kind), ref=kept.principal_ref),
        requested_strategy=Strategy(kept.requested_strategy),
        strategy=Strategy(kept.strategy),
        top_k=kept.top_k,
        cue=kept.cue,
        budget_used_chars=kept.budget_used_chars,
        recalled_at=kept.occurred_at,
        label=_label(kept),
        entries=tuple(HandedOutEntry(**entry._asdict()) for entry in kept.entries),
        passed_over=tuple(wire.validate(PassedOverEntry, entry) for entry in kept.passed_over),
    )


def _label(kept: recalls.Receipt) -> Label | None:
    terminal = rating = None
    if kept.outcome is not None and kept.ended_at is not None and kept.ended_event_id is not None:
        terminal = Terminal(label_of_outcome(kept.outcome), kept.ended_at, kept.ended_event_id)
    if kept.quality_score is not None and kept.rated_at is not None and kept.rated_event_id is not None:
        rating = Rating(kept.quality_score, kept.rated_at, kept.rated_event_id)
    return resolve_label(terminal, rating)
