"""What a runner may ask for its own session, by its token."""

from lorebus_contracts.events import Origin
from lorebus_contracts.http import LoadBody, SaveBody
from lorebus_gateway.answers import Answer, accepted, answer
from lorebus_gateway.endpoints import Call
from lorebus_gateway.errors import ForbiddenError
from lorebus_gateway.recalling import RecallWish
from lorebus_gateway.services import Services
from lorebus_kit.tokens import SessionClaims


async def save_memory(call: Call[SessionClaims, SaveBody], services: Services) -> Answer:
    """Accept entries to be kept for the token's own session."""
    _require_own_session(call.principal, call.path["session_ref"])
    event = await services.saving.save(
        call.principal, call.input.all_entries(), origin=Origin.RUNNER, now=call.now, once=call.once
    )
    return accepted(event.event_id)


async def load_memory(call: Call[SessionClaims, LoadBody], services: Services) -> Answer:
    """Answer with the memory for the token's own session."""
    _require_own_session(call.principal, call.path["session_ref"])
    body = call.input
    wish = RecallWish(
        cue=body.cue, strategy=body.strategy, top_k=body.top_k, format=body.format, explain=body.explain
    )
    return answer(200, await services.recalling.recall(call.principal, wish, now=call.now))


def _require_own_session(claims: SessionClaims, session_ref: str) -> None:
    if session_ref.lower() != str(claims.session_uuid):
        raise ForbiddenError
