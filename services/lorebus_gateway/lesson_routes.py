"""The routes about distilled lessons; `routes.py` puts them among the others."""

from typing import Final

from lorebus_contracts.http import NoInput
from lorebus_contracts.http_answers import MemoryItem
from lorebus_contracts.http_lessons import EntryEvidence, PreviewAnswer, PreviewBody
from lorebus_gateway import key_scopes, lesson_handlers
from lorebus_gateway.authentication import Authenticator
from lorebus_gateway.endpoints import AnyRoute, Route

_MEMORY: Final = "/api/app/agents/memory"

LESSON_ROUTES: Final[tuple[AnyRoute, ...]] = (
    Route(
        "POST",
        _MEMORY + "/distill/preview",
        Authenticator.organization,
        PreviewBody,
        {200: PreviewAnswer},
        lesson_handlers.preview_distill,
        "Try a distill of a session: the prompt, the answer and the lessons. Nothing is saved.",
        scopes=key_scopes.WRITE,
    ),
    Route(
        "POST",
        _MEMORY + "/{entry_id}/release",
        Authenticator.organization,
        NoInput,
        {200: MemoryItem},
        lesson_handlers.release_entry,
        "Release an entry that is held back: from now on it is recalled as any other.",
        scopes=key_scopes.WRITE,
    ),
    Route(
        "GET",
        _MEMORY + "/{entry_id}/evidence",
        Authenticator.organization,
        NoInput,
        {200: EntryEvidence},
        lesson_handlers.get_evidence,
        "Show which sessions taught an entry, and which of them had recalled it before.",
        scopes=key_scopes.READ,
    ),
)
