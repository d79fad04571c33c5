"""The field types of the wire: each says once how its values are checked and cleaned.

The rule that must not break: every string that can reach PostgreSQL goes through `clean` here, and a
principal_ref is never altered, only refused (SPEC.md section 3).
"""

import math
import re
from datetime import UTC, datetime
from typing import Annotated, Final, Literal
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field, JsonValue, StrictInt

from lorebus_domain import policy
from lorebus_domain.recall_format import RecallFormat
from lorebus_domain.text import clean
from lorebus_domain.visibility import check_principal_ref

MAX_OUTCOME_CHARS: Final = 64
_STARTS_WITH_A_DATE: Final = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")


def _cleaned(value: object) -> object:
    return clean(value) if isinstance(value, str) else value


def _text_only(value: object) -> object:
    """Let pydantic's lenient UUID and datetime parsing see text (or the type itself), never numbers or bytes."""
    if isinstance(value, str | UUID | datetime):
        return value
    raise ValueError("should be a string")


def _no_bare_number(value: object) -> object:
    """Refuse "1700000000", which pydantic's lenient parsing would take for seconds, or milliseconds, since 1970."""
    if isinstance(value, str) and not _STARTS_WITH_A_DATE.match(value):
        raise ValueError("should be a date and time as RFC 3339 says")
    return value


def _version_number(value: object) -> object:
    """Keep `true` and 1.0 apart from 1, which Python takes for equal."""
    if type(value) is not int:
        raise ValueError("should be the number 1")
    return value


def _whole(value: object) -> object:
    """JSON has one kind of number: 2.0 is the whole number 2, as JSON Schema has it."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


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

    Of two keys that cleaning makes one, the later stays.

    Raises:
        ValueError: it is nested deeper than `policy.MAX_JSON_DEPTH`, or holds a number that JSON cannot write.
    """
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("holds a number that is not finite")
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
    try:
        return value.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("is before the year 1 or after the year 9999 in UTC") from error


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

Score = Annotated[float, Field(strict=True, ge=0.0, le=1.0, allow_inf_nan=False)]
"""A score or a part of one."""

Uuid = UUID
"""Text; the library takes bytes besides, which JSON has none of."""

Timestamp = Annotated[
    AwareDatetime, BeforeValidator(_no_bare_number), BeforeValidator(_text_only), AfterValidator(_utc)
]
"""RFC 3339 with an offset, kept in UTC."""

SchemaVersion1 = Annotated[Literal[1], BeforeValidator(_version_number)]
"""The version of an event's form that this code reads."""

WHOLE: Final = BeforeValidator(_whole)
"""Goes with `StrictInt`, after its bounds: text, booleans and fractions are refused."""

Count = Annotated[StrictInt, Field(ge=0, le=2**31 - 1), WHOLE]
Flag = Annotated[bool, Field(strict=True)]
TopK = Annotated[StrictInt, Field(ge=policy.TOP_K_MIN, le=policy.TOP_K_MAX), WHOLE]

CallerRef = Annotated[
    str,
    Field(
        strict=True,
        json_schema_extra={"maxLength": policy.MAX_PRINCIPAL_REF_CHARS, "pattern": r"^[^\u0000]*$"},
    ),
    AfterValidator(check_principal_ref),
]
"""A caller's own reference as its runtime sends it: unaltered; blank means that nobody was identified."""

PrincipalRef = Annotated[
    CallerRef,
    AfterValidator(_no_blank),
    Field(json_schema_extra={"pattern": r"^[^\u0000]*[^\u0000\s][^\u0000]*$"}),
]
"""A resolved principal: unaltered and never blank."""

MemoryFormat = Annotated[
    RecallFormat,
    Field(
        description="How `memory` is written. `plain`: texts with `---` between them; `fenced`: in a frame that no text"
        " can hold; `json`: a list of entries. Only the last two tell for sure where a text ends."
    ),
]

Json = Annotated[JsonValue, BeforeValidator(_cleaned_json)]
"""Any JSON value, strings and keys cleaned, at most 64 levels deep."""

Name = Annotated[CleanStr, Field(min_length=1, max_length=256)]
"""A short name such as a tool's."""

Outcome = Annotated[CleanStr, Field(min_length=1, max_length=MAX_OUTCOME_CHARS)]
"""How a session ended: `success`, `failed`, or any other word for one that ended otherwise."""
