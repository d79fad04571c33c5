"""What an organization asks about its API keys."""

from dataclasses import replace

from pydantic_core import from_json, to_json

from lorebus_contracts.http import NoInput
from lorebus_contracts.http_keys import KeyBody
from lorebus_gateway.answers import Answer, answer
from lorebus_gateway.authentication import Organization
from lorebus_gateway.endpoints import Call
from lorebus_gateway.idempotency import Keeping
from lorebus_gateway.services import Services


async def create_key(call: Call[Organization, KeyBody], services: Services) -> Answer:
    """Make a key and show it, this once."""
    key_id = None if call.once is None else call.once.uuid("key")
    return answer(201, await services.api_keys.create(call.principal, call.input, key_id))


def without_key(_call: Call[Organization, KeyBody], _services: Services) -> Keeping:
    """A new key's answer is kept without the key, which is lost with whoever did not get it: revoke it then."""

    def reduced(given: Answer) -> Answer:
        return replace(given, body=to_json(from_json(given.body) | {"key": None}))

    return Keeping(reduced=reduced, completed=lambda kept: kept)


async def list_keys(call: Call[Organization, NoInput], services: Services) -> Answer:
    """Answer with all keys."""
    return answer(200, await services.api_keys.all(call.principal))


async def revoke_key(call: Call[Organization, NoInput], services: Services) -> Answer:
    """Revoke a key."""
    await services.api_keys.revoke(call.principal, call.uuid("key_id"))
    return Answer(204)
