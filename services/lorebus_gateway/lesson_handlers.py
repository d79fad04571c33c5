"""What an organization asks about its distilled lessons."""

from lorebus_contracts.http import NoInput
from lorebus_contracts.http_lessons import PreviewBody
from lorebus_gateway.answers import Answer, answer
from lorebus_gateway.authentication import Organization
from lorebus_gateway.endpoints import Call
from lorebus_gateway.services import Services


async def preview_distill(call: Call[Organization, PreviewBody], services: Services) -> Answer:
    """Answer with what a distill would say and teach."""
    return answer(200, await services.lessons.preview(call.principal.organization_uuid, call.input))


async def release_entry(call: Call[Organization, NoInput], services: Services) -> Answer:
    """Make an entry that is held back memory."""
    released = await services.lessons.release(
        call.principal.organization_uuid, call.uuid("entry_id"), now=call.now
    )
    return answer(200, released)


async def get_evidence(call: Call[Organization, NoInput], services: Services) -> Answer:
    """Answer with what stands behind an entry."""
    return answer(
        200, await services.lessons.evidence(call.principal.organization_uuid, call.uuid("entry_id"))
    )
