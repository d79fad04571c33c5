"""What an organization asks for by its API key: sessions, entries, settings, receipts."""

from dataclasses import replace
from datetime import datetime
from uuid import UUID

from pydantic_core import from_json, to_json

from lorebus_contracts.http import (
    AgentConfigBody,
    EndBody,
    MemoryQuery,
    NoInput,
    OrganizationBody,
    PruneBody,
    RateBody,
    RegisterBody,
)
from lorebus_contracts.http_answers import EventAccepted, SessionAnswer
from lorebus_gateway.answers import Answer, accepted, answer
from lorebus_gateway.authentication import Organization
from lorebus_gateway.endpoints import Call
from lorebus_gateway.idempotency import Keeping
from lorebus_gateway.recalling import RecallWish
from lorebus_gateway.services import Services
from lorebus_kit.run_ids import distill_run_id


async def register_session(call: Call[Organization, RegisterBody], services: Services) -> Answer:
    """Register a session, mint its token, and recall for it where that is asked for."""
    registered = await services.sessions.register(
        call.principal.organization_uuid, call.input, now=call.now, once=call.once
    )
    recall = None
    if call.input.load:
        recall = await services.recalling.recall(registered.claims, RecallWish(), now=call.now)
    session = SessionAnswer(
        session_uuid=registered.claims.session_uuid,
        token=registered.token,
        expires_at=registered.expires_at,
        recall=recall,
    )
    return answer(201, session)


def without_token(call: Call[Organization, RegisterBody], services: Services) -> Keeping:
    """A registered session's answer is kept without its token, which is made anew from what the answer says."""

    def reduced(given: Answer) -> Answer:
        return replace(given, body=to_json(from_json(given.body) | {"token": ""}))

    def completed(kept: Answer) -> Answer:
        told = from_json(kept.body)
        token = services.sessions.token_again(
            call.principal.organization_uuid,
            UUID(told["session_uuid"]),
            call.input,
            expires_at=datetime.fromisoformat(told["expires_at"]),
        )
        return replace(kept, body=to_json(told | {"token": token}))

    return Keeping(reduced=reduced, completed=completed)


async def end_session(call: Call[Organization, EndBody], services: Services) -> Answer:
    """Accept that a session ended."""
    session_uuid = call.uuid("session_uuid")
    event = await services.sessions.end(
        call.principal.organization_uuid, session_uuid, call.input, now=call.now, once=call.once
    )
    run_id = distill_run_id(session_uuid)
    return answer(202, EventAccepted(event_id=event.event_id, workflow_id=run_id), run_id=run_id)


async def rate_session(call: Call[Organization, RateBody], services: Services) -> Answer:
    """Accept a rating of a session."""
    event = await services.sessions.rate(
        call.principal.organization_uuid,
        call.uuid("session_uuid"),
        call.input,
        now=call.now,
        once=call.once,
    )
    return answer(202, EventAccepted(event_id=event.event_id))


async def list_memory(call: Call[Organization, MemoryQuery], services: Services) -> Answer:
    """Answer with a page of an agent config's entries."""
    return answer(
        200, await services.administration.list_memory(call.principal.organization_uuid, call.input)
    )


async def delete_entry(call: Call[Organization, NoInput], services: Services) -> Answer:
    """Delete one entry."""
    await services.administration.delete_entry(
        call.principal.organization_uuid, call.uuid("entry_id"), now=call.now
    )
    return Answer(204)


async def prune_memory(call: Call[Organization, PruneBody], services: Services) -> Answer:
    """Accept that an agent config be cut down, or tell what would go."""
    if call.input.dry_run:
        preview = await services.administration.would_prune(call.principal.organization_uuid, call.input)
        return answer(200, preview)
    event = await services.saving.prune(
        call.principal.organization_uuid,
        call.input.agent_config_uuid,
        max_entries=call.input.max_entries,
        now=call.now,
        once=call.once,
    )
    return accepted(event.event_id)


async def get_receipt(call: Call[Organization, NoInput], services: Services) -> Answer:
    """Answer with the receipt of a recall."""
    return answer(
        200, await services.administration.receipt(call.principal.organization_uuid, call.uuid("recall_id"))
    )


async def put_agent_config(call: Call[Organization, AgentConfigBody], services: Services) -> Answer:
    """Replace an agent config's settings."""
    kept = await services.administration.put_agent_config(
        call.principal.organization_uuid, call.uuid("agent_config_uuid"), call.input
    )
    return answer(200, kept)


async def get_agent_config(call: Call[Organization, NoInput], services: Services) -> Answer:
    """Answer with an agent config's settings."""
    kept = await services.administration.get_agent_config(
        call.principal.organization_uuid, call.uuid("agent_config_uuid")
    )
    return answer(200, kept)


async def put_organization(call: Call[Organization, OrganizationBody], services: Services) -> Answer:
    """Replace the organization's settings."""
    return answer(
        200, await services.administration.put_organization(call.principal.organization_uuid, call.input)
    )


async def get_organization(call: Call[Organization, NoInput], services: Services) -> Answer:
    """Answer with the organization's settings."""
    return answer(200, await services.administration.get_organization(call.principal.organization_uuid))
