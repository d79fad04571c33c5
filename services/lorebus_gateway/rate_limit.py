"""A limit of requests a minute for each token and API key, over all gateways together.

The rule that must not break: it never stands in the way of a request because PostgreSQL is away. Permits come in
batches, so that few requests ask for any (`docs/decisions/rate-limit-in-batches-of-permits.md`).
"""

import asyncio
import logging
import math
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import Final
from uuid import UUID

from lorebus_gateway import metrics
from lorebus_gateway.errors import TooManyRequestsError
from lorebus_store import rates
from lorebus_store.acting import Tenants
from lorebus_store.database import Database
from lorebus_store.errors import StoreError

WINDOW: Final = timedelta(minutes=1)
BATCHES: Final = 20
"""A gateway takes at most a twentieth of a window's permits at once."""
STORE_SECONDS: Final = 0.5
"""How long the database may take to give permits, before requests go on without."""
STORE_AWAY_SECONDS: Final = 3.0
"""How long nobody is limited after it gave none."""
_MAX_REMEMBERED: Final = 10_000
_log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class _Window:
    """What this gateway holds for one credential: permits, and when they lapse."""

    ends: float = 0.0
    permits: int = 0
    is_used_up: bool = False
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    def has_permit(self, now: float) -> bool:
        """Take a permit if there is one."""
        if self.permits <= 0 or now >= self.ends:
            return False
        self.permits -= 1
        return True


class RateLimit:
    """Counts requests by credential; `per_window` 0 limits nobody."""

    def __init__(self, database: Database, *, per_window: int, window: timedelta = WINDOW) -> None:
        self._database = database
        self._per_window = per_window
        self._window = window
        self._windows: dict[tuple[UUID, bytes], _Window] = {}
        self._away_until = 0.0

    @property
    def is_on(self) -> bool:
        """Whether anybody is limited."""
        return self._per_window > 0

    async def check(self, organization_uuid: UUID, credential: bytes) -> None:
        """Count a request of the credential (a hash of it).

        Raises:
            TooManyRequestsError: it has made as many as it may in this minute.
        """
        window = self._window_of((organization_uuid, credential))
        if window.has_permit(monotonic()):
            return
        async with window.asking:
            while not window.has_permit(monotonic()):
                now = monotonic()
                if now < self._away_until:
                    metrics.REQUESTS_UNLIMITED.inc()
                    return
                if window.is_used_up and now < window.ends:
                    raise TooManyRequestsError(math.ceil(window.ends - now))
                await self._take(window, organization_uuid, credential)

    def _window_of(self, key: tuple[UUID, bytes]) -> _Window:
        window = self._windows.get(key)
        if window is None:
            if len(self._windows) >= _MAX_REMEMBERED:
                self._windows.clear()
            window = self._windows[key] = _Window()
        return window

    async def _take(self, window: _Window, organization_uuid: UUID, credential: bytes) -> None:
        try:
            tenants = Tenants.of(organization_uuid)
            async with asyncio.timeout(STORE_SECONDS), self._database.begin(tenants) as connection:
                permits = await rates.take(
                    connection,
                    organization_uuid=organization_uuid,
                    credential=credential,
                    limit=self._per_window,
                    wanted=math.ceil(self._per_window / BATCHES),
                    window=self._window,
                )
        except (StoreError, TimeoutError) as error:
            self._away_until = monotonic() + STORE_AWAY_SECONDS
            _log.warning("requests are not limited for now", extra={"error_text": str(error)})
            return
        window.ends = monotonic() + permits.seconds_left
        window.permits = permits.granted
        window.is_used_up = permits.granted == 0
