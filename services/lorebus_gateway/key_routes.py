"""The routes about API keys; `routes.py` puts them among the others."""

from typing import Final

from lorebus_contracts import problems
from lorebus_contracts.http import NoInput
from lorebus_contracts.http_keys import KeyBody, KeyList, NewKeyAnswer
from lorebus_gateway import key_handlers, key_scopes
from lorebus_gateway.authentication import Authenticator
from lorebus_gateway.endpoints import AnyRoute, Route

_KEYS: Final = "/api/app/organization/keys"

KEY_ROUTES: Final[tuple[AnyRoute, ...]] = (
    Route(
        "POST",
        _KEYS,
        Authenticator.organization,
        KeyBody,
        {201: NewKeyAnswer},
        key_handlers.create_key,
        "Make an API key, which is shown this once, with scopes of the key that asks.",
        scopes=key_scopes.ADMIN,
        keeping=key_handlers.without_key,
    ),
    Route(
        "GET",
        _KEYS,
        Authenticator.organization,
        NoInput,
        {200: KeyList},
        key_handlers.list_keys,
        "List the organization's API keys, revoked ones among them.",
        scopes=key_scopes.ADMIN,
    ),
    Route(
        "DELETE",
        _KEYS + "/{key_id}",
        Authenticator.organization,
        NoInput,
        {204: None},
        key_handlers.revoke_key,
        "Revoke an API key; the last one that may make keys is refused.",
        scopes=key_scopes.ADMIN,
        problems=(problems.CONFLICT,),
    ),
)
