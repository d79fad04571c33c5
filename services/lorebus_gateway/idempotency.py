"""`Idempotency-Key`: a POST that is sent again gets the first answer again (SPEC.md section 8).

The rule that must not break: what a key starts has an id that comes from organization, session, route, key and body. So
a repeat counts once even where the first answer could not be kept, because the gateway died or PostgreSQL was away.
"""

import asyncio
import hashlib
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final, TypeAlias, TypedDict, TypeVar
from uuid import UUID, uuid5

from starlette.types import Scope

from lorebus_contracts.wire import Fault, WireError
from lorebus_gateway import metrics
from lorebus_gateway.answers import Answer
from lorebus_gateway.errors import KeyReusedError, RequestInHandError
from lorebus_store import idempotency
from lorebus_store.acting import Tenants
from lorebus_store.database import Connection, Database
from lorebus_store.errors import StoreError, TransientError
from lorebus_store.idempotency import KeptAnswer

WAIT_SECONDS: Final = 5.0
"""How long a repeat waits for the answer of the first request, before it is told to come again."""
STORE_SECONDS: Final = 2.0
"""How long the database may take to say whether a key is known, before the request goes on without that."""
STORE_AWAY_SECONDS: Final = 3.0
"""How long the database is not asked after it did not say."""
MAX_KEPT_BYTES: Final = 1_048_576
"""A larger answer is not kept: only a load can be as long, and that may be answered anew."""

_FIRST_LOOK_SECONDS: Final = 0.02
_LONGEST_LOOK_SECONDS: Final = 0.25
_REPLAYED: Final = (("idempotency-replayed", "true"),)
_KEY: Final = re.compile(rb'(?!""$)[!-~](?:[ -~]{0,253}[!-~])?')
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\["\\])+)"')
_log: Final = logging.getLogger(__name__)


AnswerT = TypeVar("AnswerT")


class Place(TypedDict):
    """Where the store keeps an answer."""

    organization_uuid: UUID
    route: str
    key: str


@dataclass(frozen=True, slots=True)
class Once:
    """A request with a key; `is_kept` where the store has taken the key for it."""

    place: Place
    body_hash: bytes
    is_kept: bool = False

    @property
    def digest(self) -> bytes:
        """32 bytes, the same for every repeat of the request."""
        place = self.place
        return hashlib.sha256(f"{place['route']}\0{place['key']}\0".encode() + self.body_hash).digest()

    def uuid(self, what: str) -> UUID:
        """An id for something that the request makes: the same for every repeat of it."""
        return uuid5(self.place["organization_uuid"], f"{what}:{self.digest.hex()}")


Work: TypeAlias = Callable[[Once], Awaitable[Answer]]
"""What a request asks for."""


def idempotency_key(scope: Scope) -> str | None:
    """The request's key, 1 to 255 printable characters of ASCII; quoted, as the draft has it, or bare.

    Raises:
        WireError: it is none, or there are two.
    """
    found = [value for name, value in scope["headers"] if name == b"idempotency-key"]
    if not found:
        return None
    if len(found) > 1 or not _KEY.fullmatch(found[0]):
        raise WireError(
            Fault("Idempotency-Key", "should be one header of 1 to 255 printable ASCII characters")
        )
    key: str = found[0].decode("ascii")
    quoted = _QUOTED.fullmatch(key)
    return re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else key


def once(
    key: str,
    *,
    organization_uuid: UUID,
    session_uuid: UUID | None,
    route: str,
    path: Mapping[str, str],
    body: bytes,
) -> Once:
    """The request as it is known again: the same key of another session, or for another path, is another key.

    The key itself is not kept: clients put all sorts of things into it.
    """
    parts = [str(session_uuid), sorted((name, value.lower()) for name, value in path.items()), key]
    name = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    place = Place(organization_uuid=organization_uuid, route=route, key=name)
    return Once(place, hashlib.sha256(body).digest())


@dataclass(frozen=True, slots=True)
class Keeping:
    """How an answer that holds a secret is kept without it, and completed when it is given again."""

    reduced: Callable[[Answer], Answer]
    completed: Callable[[Answer], Answer]


def _as_it_is(given: Answer) -> Answer:
    return given


AS_IT_IS: Final = Keeping(reduced=_as_it_is, completed=_as_it_is)


class Idempotency:
    """Keeps first answers and gives them again."""

    def __init__(self, database: Database, *, wait_seconds: float = WAIT_SECONDS) -> None:
        self._database = database
        self._wait_seconds = wait_seconds
        self._away_until = 0.0

    async def answer(self, request: Once, work: Work, keeping: Keeping = AS_IT_IS) -> Answer:
        """The first answer, or else what the work answers now, which is then kept.

        While the database is away the work is done without looking, and nothing is kept.

        Raises:
            KeyReusedError: the key came with another body before.
            RequestInHandError: the first request is not answered yet, after a while of waiting for it.
            Whatever the work raises; the key is then free.
        """
        try:
            first = await self._first_answer(request)
        except TransientError as error:
            _log.warning("a key could not be looked up", extra={"error_text": str(error)})
            return await work(request)
        if first is not None:
            metrics.REQUESTS_REPLAYED.inc()
            return keeping.completed(first)
        return await self._kept(request, work, keeping)

    async def _first_answer(self, request: Once) -> Answer | None:
        """None: this request is the first, and the key is taken for it."""
        deadline = monotonic() + self._wait_seconds
        pause = _FIRST_LOOK_SECONDS
        while (kept := await self._reserve(request)) is not None:
            if kept.body_hash != request.body_hash:
                raise KeyReusedError
            if kept.status is not None:
                return _again(kept.status, kept.response or b"")
            if monotonic() > deadline:
                raise RequestInHandError
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_LOOK_SECONDS)
        return None

    async def _kept(self, request: Once, work: Work, keeping: Keeping) -> Answer:
        try:
            given = await work(replace(request, is_kept=True))
        except Exception:
            await self._forget(request)
            raise
        to_keep = keeping.reduced(given)
        if len(to_keep.body) > MAX_KEPT_BYTES:
            await self._forget(request)
        else:
            await self._remember(request, to_keep)
        return given

    async def _reserve(self, request: Once) -> KeptAnswer | None:
        return await self._ask(
            request,
            lambda connection: idempotency.reserve(connection, **request.place, body_hash=request.body_hash),
        )

    async def _remember(self, request: Once, given: Answer) -> None:
        """Should this fail, a repeat is carried out anew once the key's time is up, and counts once all the same."""
        with suppress(StoreError):
            await self._ask(
                request,
                lambda connection: idempotency.remember(
                    connection, **request.place, status=given.status, response=_kept(given)
                ),
            )

    async def _forget(self, request: Once) -> None:
        with suppress(StoreError):
            await self._ask(request, lambda connection: idempotency.forget(connection, **request.place))

    async def _ask(self, request: Once, question: Callable[[Connection], Awaitable[AnswerT]]) -> AnswerT:
        """Ask the database; not for long."""
        if monotonic() < self._away_until:
            raise TransientError("the database did not answer a moment ago")
        try:
            tenants = Tenants.of(request.place["organization_uuid"])
            async with asyncio.timeout(STORE_SECONDS), self._database.begin(tenants) as connection:
                return await question(connection)
        except (StoreError, TimeoutError) as error:
            self._away_until = monotonic() + STORE_AWAY_SECONDS
            raise TransientError("the database does not answer") from error


def _kept(given: Answer) -> bytes:
    """Headers and body in one: a line of JSON, and the body as it is."""
    run_id = None if given.run_id is None else str(given.run_id)
    return json.dumps({"headers": given.headers, "run_id": run_id}).encode() + b"\n" + given.body


def _again(status: int, kept: bytes) -> Answer:
    head, _, body = kept.partition(b"\n")
    told = json.loads(head)
    headers = tuple((name, value) for name, value in told["headers"])
    run_id = None if told["run_id"] is None else UUID(told["run_id"])
    return Answer(status, body, headers=headers + _REPLAYED, run_id=run_id)
