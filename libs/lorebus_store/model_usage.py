"""What each organization's models were asked on each UTC day.

The rule that must not break: a call is counted and held against the budget in one statement, so that two processes
cannot both take the last one.
"""

from datetime import date
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_store.statements import Statement


class DayUsage(NamedTuple):
    """One organization's use of models on one day."""

    calls: int
    prompt_tokens: int
    completion_tokens: int


_COUNT_CALL: Final = Statement(
    """
    INSERT INTO lorebus.model_usage AS u (organization_uuid, day, calls, prompt_tokens)
    SELECT :organization_uuid, :day, 1, CAST(:prompt_tokens AS bigint)
    WHERE CAST(:max_calls AS bigint) > 0 AND CAST(:max_tokens AS bigint) > 0
    ON CONFLICT (organization_uuid, day) DO UPDATE SET
        calls = u.calls + 1, prompt_tokens = u.prompt_tokens + excluded.prompt_tokens
    WHERE u.calls < CAST(:max_calls AS bigint) AND u.prompt_tokens + u.completion_tokens < CAST(:max_tokens AS bigint)
    RETURNING calls
    """
)
_ADD_TOKENS: Final = Statement(
    """
    UPDATE lorebus.model_usage SET
        prompt_tokens = greatest(0, prompt_tokens + CAST(:prompt_tokens AS bigint)),
        completion_tokens = completion_tokens + CAST(:completion_tokens AS bigint)
    WHERE organization_uuid = :organization_uuid AND day = :day
    """
)
_OF_DAY: Final = Statement(
    """
    SELECT calls, prompt_tokens, completion_tokens FROM lorebus.model_usage
    WHERE organization_uuid = :organization_uuid AND day = :day
    """
)


async def count_call(
    conn: AsyncConnection,
    organization_uuid: UUID,
    day: date,
    *,
    prompt_tokens: int,
    max_calls: int,
    max_tokens: int,
) -> bool:
    """Count one call and about how many tokens it sends; False, and nothing counted, when the budget is used up.

    Used up are `max_calls` calls, or `max_tokens` tokens of both kinds together.
    """
    values = {
        "organization_uuid": organization_uuid,
        "day": day,
        "prompt_tokens": prompt_tokens,
        "max_calls": max_calls,
        "max_tokens": max_tokens,
    }
    return await _COUNT_CALL.row(conn, values) is not None


async def add_tokens(
    conn: AsyncConnection,
    organization_uuid: UUID,
    day: date,
    *,
    prompt_tokens: int,
    completion_tokens: int,
) -> None:
    """Add tokens to a day's count; `prompt_tokens` may be negative, where an estimate was too high."""
    values = {
        "organization_uuid": organization_uuid,
        "day": day,
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
    }
    await _ADD_TOKENS.run(conn, values)


async def of_day(conn: AsyncConnection, organization_uuid: UUID, day: date) -> DayUsage:
    """What the organization's models were asked on this day."""
    row = await _OF_DAY.row(conn, {"organization_uuid": organization_uuid, "day": day})
    return DayUsage(0, 0, 0) if row is None else DayUsage(*row)
