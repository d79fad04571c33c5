"""What the demo showed, as one JSON object: for scripts, and for whoever wants to look at it again.

The rule that must not break: no token or key is in it.
"""

from lorebus_ops.demo_ledger import Ledger, SessionStory
from lorebus_ops.demo_next import NextSession


def demo_report(ledger: Ledger, following: NextSession) -> dict[str, object]:
    """The totals, each session with what became of it, and the answers that the next one got by strategy."""
    return {
        "totals": ledger.totals(),
        "sessions": [_session(story) for story in ledger.stories],
        "next_session": {
            "session_uuid": str(following.session_uuid),
            "organization_uuid": str(following.last.organization_uuid),
            "caller": following.last.caller.model_dump(mode="json"),
            "task": following.last.task,
            "loads": following.loads,
        },
    }


def _session(story: SessionStory) -> dict[str, object]:
    """`recalled` counts the entries that it was handed at its launch."""
    session = story.session
    learnt = story.save.get("state_data", {})
    return {
        "session_uuid": str(session.session_uuid),
        "organization_uuid": str(session.organization_uuid),
        "agent_config_uuid": str(session.agent_config_uuid),
        "caller": session.caller.model_dump(mode="json"),
        "outcome": session.outcome,
        "recalled": story.launch.recall.get("count", 0),
        "recall_id": story.launch.recall.get("recall_id"),
        "saved": learnt.get("saved", 0),
        "reinforced": learnt.get("reinforced", 0),
        "skipped_reason": story.distill.get("state_data", {}).get("skipped_reason"),
        "label": story.receipt.get("label"),
    }
