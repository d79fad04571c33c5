"""How many requests each credential has made in the current window, counted by all gateways together.

The rule that must not break: no more permits are given out in a window than its limit, whoever asks and however many
ask at once. The table is unlogged: after a crash of the server all windows begin anew.
"""

from datetime import timedelta
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_store.statements import Statement


class Permits(NamedTuple):
    """Requests that may be let through, none when the limit is reached, until the window is over."""

    granted: int
    seconds_left: float


# Whoever asks gets less the less there is left, so that what several gateways hold and do not use stays small.
_GRANT: Final = """least(greatest(0, CAST(:limit AS integer) - {taken}),
    greatest(1, least(CAST(:wanted AS integer), (CAST(:limit AS integer) - {taken}) / 8)))"""
_OF_NEW: Final = _GRANT.format(taken="0")
_OF_OLD: Final = _GRANT.format(taken="w.taken")
_IS_NEW: Final = "w.ends_at < excluded.ends_at"
_WINDOW: Final = "CAST(:window AS interval)"
_TAKE: Final = Statement(
    f"""
    INSERT INTO lorebus.rate_windows AS w (organization_uuid, credential, ends_at, taken, granted)
    VALUES (:organization_uuid, :credential,
        date_bin({_WINDOW}, clock_timestamp(), TIMESTAMPTZ 'epoch') + {_WINDOW}, {_OF_NEW}, {_OF_NEW})
    ON CONFLICT (organization_uuid, credential) DO UPDATE SET
        ends_at = greatest(w.ends_at, excluded.ends_at),
        taken = CASE WHEN {_IS_NEW} THEN excluded.taken ELSE w.taken + {_OF_OLD} END,
        granted = CASE WHEN {_IS_NEW} THEN excluded.granted ELSE {_OF_OLD} END
    RETURNING granted, CAST(extract(epoch FROM ends_at - clock_timestamp()) AS double precision)
    """
)


async def take(
    conn: AsyncConnection,
    *,
    organization_uuid: UUID,
    credential: bytes,
    limit: int,
    wanted: int,
    window: timedelta,
) -> Permits:
    """Take up to `wanted` permits of the window of that length in which `limit` may be taken."""
    values = {
        "organization_uuid": organization_uuid,
        "credential": credential,
        "limit": limit,
        "wanted": wanted,
        "window": window,
    }
    return Permits(*await _TAKE.row(conn, values))
