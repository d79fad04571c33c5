"""What an organization asks for by its API key to follow, erase and move its memory."""

from typing import Final

from lorebus_contracts.http import NoInput
from lorebus_contracts.http_memory import EraseBody, FeedQuery, MoveQuery
from lorebus_gateway.answers import Answer, Stream, answer
from lorebus_gateway.authentication import Organization
from lorebus_gateway.endpoints import Call
from lorebus_gateway.services import Services

_ERASURES: Final = "/api/app/agents/memory/erasures"


async def follow_memory(call: Call[Organization, FeedQuery], services: Services) -> Stream:
    """Tell of changes as they happen."""
    return await services.feed.open(call.principal.organization_uuid, call.input, call.last_event_id)


async def erase_memory(call: Call[Organization, EraseBody], services: Services) -> Answer:
    """Erase a person or a session, and answer with the receipt."""
    erasure_id = None if call.once is None else call.once.uuid("erasure")
    receipt = await services.erasing.erase(call.principal.organization_uuid, call.input, erasure_id)
    return answer(200, receipt, headers=(("location", f"{_ERASURES}/{receipt.erasure_id}"),))


async def get_erasure(call: Call[Organization, NoInput], services: Services) -> Answer:
    """Answer with the receipt of an erasure."""
    return answer(
        200, await services.erasing.receipt(call.principal.organization_uuid, call.uuid("erasure_id"))
    )


async def export_memory(call: Call[Organization, MoveQuery], services: Services) -> Stream:
    """Answer with an agent config's entries as a file."""
    return await services.exporting.export(call.principal.organization_uuid, call.input.agent_config_uuid)


async def import_memory(call: Call[Organization, MoveQuery], services: Services) -> Answer:
    """Add the entries of a file."""
    if call.upload is None:
        raise AssertionError("the route reads a file")
    config = call.input.agent_config_uuid
    return answer(200, await services.importing.add(call.principal.organization_uuid, config, call.upload))
