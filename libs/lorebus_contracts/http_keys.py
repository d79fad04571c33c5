"""What HTTP takes and answers about API keys (SPEC.md section 8).

The rule that must not break: only the answer that makes a key holds it in plain, and only the first time.
"""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import AfterValidator, Field

from lorebus_contracts.fields import Name
from lorebus_contracts.wire import WireModel
from lorebus_domain.key_scope import KeyScope


def _each_once(value: tuple[KeyScope, ...]) -> tuple[KeyScope, ...]:
    if len(set(value)) < len(value):
        raise ValueError("names a scope twice; each may stand once")
    return tuple(sorted(value))


KeyScopes = Annotated[
    tuple[KeyScope, ...],
    Field(min_length=1, max_length=len(KeyScope), json_schema_extra={"uniqueItems": True}),
    AfterValidator(_each_once),
]


class KeyBody(WireModel):
    """A key to be made."""

    name: Name = Field(description="What people recognize the key by.")
    scopes: KeyScopes = Field(
        description="What it may be used for, of what the key that asks for it may be used for itself."
    )


class ApiKeyAnswer(WireModel):
    """A key without what opens the door."""

    key_id: UUID = Field(description="What it is revoked by.")
    prefix: str = Field(description="How the key begins.")
    name: str = Field(description="What people recognize it by.")
    scopes: tuple[KeyScope, ...] = Field(description="What it may be used for.")
    created_at: datetime = Field(description="When it was made.")
    last_used_at: datetime | None = Field(
        description="When it was last used, to about a minute; null: never."
    )
    revoked_at: datetime | None = Field(description="Since when it opens nothing; null: it still does.")


class NewKeyAnswer(ApiKeyAnswer):
    """A key that was just made."""

    key: str | None = Field(
        description="The key, for `Authorization: Bearer`. It is shown this once and kept nowhere; null where this"
        " answer is given again for an `Idempotency-Key`."
    )


class KeyList(WireModel):
    """An organization's keys, oldest first, revoked ones among them."""

    keys: tuple[ApiKeyAnswer, ...] = Field(description="Each without what opens the door.")
