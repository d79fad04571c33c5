"""The field types of the wire: each says once how its values are checked and cleaned.

The rule that must not break: every string that can reach PostgreSQL goes through `clean` here, and a
principal_ref is never altered, only refused (SPEC.md section 3).
"""

from datetime import UTC, datetime
from typing import Annotated, Final
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field, JsonValue, StrictInt

from lorebus_domain import policy
from lorebus_domain.text import clean
from lorebus_domain.visibility import check_principal_ref

MAX_OUTCOME_CHARS: Final = 64


def _cleaned(value: object) -> object:
    return clean(value) if isinstance(value, str) else value


def _text_only(value: object) -> object:
    """Let pydantic's lenient UUID and datetime parsing see text (or the type itself), never numbers or bytes."""
    if isinstance(value, str | UUID | datetime):
        return value
    raise ValueError("should be a string")


def _text_within_limit(value: str) -> str:
    if len(value) > policy.MAX_TEXT_CHARS:
        raise ValueError(
            f"is {len(value)} code points long; at most {policy.MAX_TEXT_CHARS} are kept, split it up"
        )
    return value


def _task_within_limit(value: str) -> str:
    if len(value) > policy.MAX_TASK_CHARS:
        raise ValueError(f"is {len(value)} code points long; at most {policy.MAX_TASK_CHARS} are taken")
    return value


def _no_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("is blank, which is no principal: leave it out or name one")
    return value


def clean_json(value: JsonValue, depth: int = 0) -> JsonValue:
    """The same JSON value with every string and key cleaned.

    Raises:
        ValueError: it is nested deeper than `policy.MAX_JSON_DEPTH`.
    """
    if isinstance(value, str):
        return clean(value)
    if not isinstance(value, list | dict):
        return value
    if depth >= policy.MAX_JSON_DEPTH:
        raise ValueError(f"is nested deeper than {policy.MAX_JSON_DEPTH} levels")
    if isinstance(value, list):
        return [clean_json(item, depth + 1) for item in value]
    return {clean(key): clean_json(item, depth + 1) for key, item in value.items()}


def _cleaned_json(value: object) -> object:
    return clean_json(value)  # type: ignore[arg-type]  # JsonValue validates it right after.


def _utc(value: datetime) -> datetime:
    return value.astimezone(UTC)


CleanStr = Annotated[str, BeforeValidator(_cleaned), Field(strict=True)]
"""Any text, cleaned."""

EntryText = Annotated[
    CleanStr,
    AfterValidator(_text_within_limit),
    Field(json_schema_extra={"maxLength": policy.MAX_TEXT_CHARS}),
]
"""The text of a memory entry: at most 10 000 code points after cleaning (SPEC.md section 8)."""

TaskText = Annotated[
    CleanStr,
    AfterValidator(_task_within_limit),
    Field(json_schema_extra={"maxLength": policy.MAX_TASK_CHARS}),
]
"""A task or cue, cleaned and bounded."""

Importance = Annotated[float, Field(strict=True, ge=0.0, le=1.0, allow_inf_nan=False)]
"""A number in [0, 1]; text, booleans, NaN and infinities are refused."""

Uuid = Annotated[UUID, BeforeValidator(_text_only)]
Timestamp = Annotated[AwareDatetime, BeforeValidator(_text_only), AfterValidator(_utc)]
"""RFC 3339 with an offset, kept in UTC."""

Count = Annotated[StrictInt, Field(ge=0, le=2**31 - 1)]
Flag = Annotated[bool, Field(strict=True)]
TopK = Annotated[StrictInt, Field(ge=policy.TOP_K_MIN, le=policy.TOP_K_MAX)]

CallerRef = Annotated[str, Field(strict=True), AfterValidator(check_principal_ref)]
"""A caller's own reference as its runtime sends it: unaltered; blank means that nobody was identified."""

PrincipalRef = Annotated[CallerRef, AfterValidator(_no_blank)]
"""A resolved principal: unaltered and never blank."""

Json = Annotated[JsonValue, BeforeValidator(_cleaned_json)]
"""Any JSON value, strings and keys cleaned, at most 64 levels deep."""

Name = Annotated[CleanStr, Field(min_length=1, max_length=256)]
"""A short name such as a tool's."""

Outcome = Annotated[CleanStr, Field(min_length=1, max_length=MAX_OUTCOME_CHARS)]
"""How a session ended: `success`, `failed`, or any other word for one that ended otherwise."""
