"""Receipts: exactly what a recall handed out and left out, and what became of its session (SPEC.md section 5)."""

from collections.abc import Mapping

from lorebus_contracts import wire
from lorebus_contracts.events import CallerBody
from lorebus_contracts.http_answers import HandedOutEntry, Receipt
from lorebus_contracts.left_out import LeftOut, PassedOverEntry
from lorebus_domain.labelling import (
    LabelSource,
    NoLabel,
    Rating,
    Terminal,
    label_of_outcome,
    label_source,
    resolve_label,
)
from lorebus_domain.recall import Strategy
from lorebus_domain.visibility import CallerKind
from lorebus_store import recalls


def receipt_answer(kept: recalls.Receipt) -> Receipt:
    """The receipt as it is shown."""
    terminal, rating = _terminal(kept), _rating(kept)
    source = label_source(terminal, rating)
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
        label=resolve_label(terminal, rating),
        label_source=source if isinstance(source, LabelSource) else None,
        rating=None if rating is None else rating.quality_score,
        unlabelled_reason=source if isinstance(source, NoLabel) else None,
        entries=tuple(HandedOutEntry(**entry._asdict()) for entry in kept.entries),
        passed_over=_passed_over(kept),
    )


def _passed_over(kept: recalls.Receipt) -> tuple[PassedOverEntry, ...]:
    """As columns, or one by one as it was once recorded."""
    if isinstance(kept.passed_over, Mapping):
        return wire.validate(LeftOut, kept.passed_over).entries()
    return tuple(wire.validate(PassedOverEntry, entry) for entry in kept.passed_over)


def _terminal(kept: recalls.Receipt) -> Terminal | None:
    if kept.outcome is None or kept.ended_at is None or kept.ended_event_id is None:
        return None
    return Terminal(label_of_outcome(kept.outcome), kept.ended_at, kept.ended_event_id)


def _rating(kept: recalls.Receipt) -> Rating | None:
    if kept.quality_score is None or kept.rated_at is None or kept.rated_event_id is None:
        return None
    return Rating(kept.quality_score, kept.rated_at, kept.rated_event_id)
