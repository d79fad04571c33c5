"""One model's endpoint, asked through the official `openai` client.

The rules that must not break: an endpoint that refuses `response_format` is asked without, and that is remembered; one
that asked for a pause is not asked before it is over; the client repeats nothing by itself, because every call is
counted before it is made.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Final

import httpx2
import openai
from opentelemetry.trace import Span

from lorebus_kit import tracing
from lorebus_kit.metrics import MODEL_CALLS, MODEL_SECONDS
from lorebus_kit.providers.errors import (
    FailureReason,
    NotAskedError,
    ProviderAwayError,
    ProviderRefusedError,
)
from lorebus_kit.providers.port import Prompt
from lorebus_kit.providers.profiles import ModelProfile
from lorebus_kit.providers.retry_after import retry_after_seconds

MAX_REPLY_BYTES: Final = 16 * 1024 * 1024
"""Far beyond any list of lessons; what is longer is not read to its end."""
_READ_BYTES: Final = 65_536
_NO_KEY: Final = "none"
# What says that the request was understood and not wanted: 400 and 422 by most, 501 by some that lack the feature.
_REFUSES_FORMAT: Final = frozenset({400, 422, 501})
_TRY_LATER: Final = frozenset({408, 409, 425, 429})
_FIRST_SERVER_ERROR: Final = 500
_TOO_MANY: Final = 429
_log: Final = logging.getLogger(__name__)

# No `maxItems`, and no bounds: some endpoints refuse a schema that has them (SPEC.md section 4).
RESPONSE_FORMAT: Final[Mapping[str, Any]] = {
    "type": "json_schema",
    "json_schema": {
        "name": "lessons",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {
                "lessons": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"text": {"type": "string"}, "importance": {"type": "number"}},
                        "required": ["text", "importance"],
                        "additionalProperties": False,
                    },
                }
            },
            "required": ["lessons"],
            "additionalProperties": False,
        },
    },
}


class Endpoint:
    """Sends prompts to one profile's model and gives back the bodies of its answers."""

    def __init__(self, name: str, profile: ModelProfile, *, clock: Callable[[], float] = monotonic) -> None:
        key = profile.api_key
        self._name = name
        self._profile = profile
        self._clock = clock
        self._client = openai.AsyncOpenAI(
            base_url=profile.base_url,
            # Without one the client would take a key of its own from the environment.
            api_key=_NO_KEY if key is None else key.get_secret_value(),
            timeout=profile.deadline_seconds,
            max_retries=0,
        )
        self._takes_format = True
        self._paused_until = 0.0

    @property
    def takes_format(self) -> bool:
        """False once the endpoint has refused a `response_format`."""
        return self._takes_format

    def require_no_pause(self) -> None:
        """Check that the endpoint may be asked now.

        Raises:
            NotAskedError: it asked for a pause that is not over.
        """
        left = self._paused_until - self._clock()
        if left > 0:
            raise NotAskedError(
                FailureReason.RATE_LIMITED, "the model's endpoint asked for a pause", due_in_seconds=left
            )

    async def complete(self, prompt: Prompt, *, begin_call: Callable[[], Awaitable[None]]) -> bytes:
        """The body of the answer, at most about 16 MiB of it; `begin_call` comes before each call that is made.

        Raises:
            ProviderAwayError, ProviderRefusedError: as `Provider.distil` has them.
        """
        await begin_call()
        try:
            return await self._call(prompt, with_format=self._takes_format)
        except _FormatRefusedError:
            await begin_call()
            body = await self._call(prompt, with_format=False)
            # Only now is it known that it was the format, and not the request as a whole.
            self._takes_format = False
            _log.info("endpoint takes no response_format", extra={"profile": self._name})
            return body

    async def close(self) -> None:
        """Close its connections."""
        await self._client.close()

    async def _call(self, prompt: Prompt, *, with_format: bool) -> bytes:
        model = self._profile.model
        asked = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": model,
            "lorebus.profile": self._name,
        }
        with tracing.call(f"chat {model}", asked) as span:
            return await self._counted(prompt, span, with_format=with_format)

    async def _counted(self, prompt: Prompt, span: Span, *, with_format: bool) -> bytes:
        began = self._clock()
        outcome = "given_up"
        try:
            body = await self._send(prompt, with_format=with_format)
            outcome = "answered"
        except openai.APIStatusError as error:
            outcome = "refused" if error.status_code < _FIRST_SERVER_ERROR else "away"
            # What the endpoint said is not kept as a cause either: it may repeat the prompt.
            raise self._by_status(error, with_format=with_format) from None
        except (openai.APITimeoutError, httpx2.TimeoutException):
            outcome = "timeout"
            raise ProviderAwayError(
                FailureReason.MODEL_TIMEOUT, "the model's endpoint did not answer in time"
            ) from None
        except (openai.APIConnectionError, httpx2.HTTPError):
            outcome = "away"
            raise ProviderAwayError(
                FailureReason.MODEL_AWAY, "the model's endpoint cannot be reached, or broke off"
            ) from None
        finally:
            span.set_attribute("lorebus.outcome", outcome)
            MODEL_CALLS.labels(self._name, outcome).inc()
            MODEL_SECONDS.labels(self._name).observe(self._clock() - began)
        return body

    async def _send(self, prompt: Prompt, *, with_format: bool) -> bytes:
        request: dict[str, Any] = {
            "model": self._profile.model,
            "messages": [
                {"role": "system", "content": prompt.system},
                {"role": "user", "content": prompt.user},
            ],
            "extra_body": dict(self._profile.options),
        }
        if with_format:
            request["response_format"] = RESPONSE_FORMAT
        async with self._client.chat.completions.with_streaming_response.create(**request) as response:
            body = bytearray()
            async for piece in response.iter_bytes(_READ_BYTES):
                body += piece
                if len(body) > MAX_REPLY_BYTES:
                    break
            return bytes(body)

    def _by_status(self, error: openai.APIStatusError, *, with_format: bool) -> Exception:
        status = error.status_code
        if with_format and status in _REFUSES_FORMAT:
            return _FormatRefusedError()
        if status in _TRY_LATER or status >= _FIRST_SERVER_ERROR:
            return self._away(error)
        return ProviderRefusedError(
            FailureReason.REQUEST_REFUSED, f"the model's endpoint refused the request with status {status}"
        )

    def _away(self, error: openai.APIStatusError) -> ProviderAwayError:
        wait = retry_after_seconds(error.response.headers, now=datetime.now(UTC))
        if wait is not None:
            self._paused_until = max(self._paused_until, self._clock() + wait)
        limited = error.status_code == _TOO_MANY
        return ProviderAwayError(
            FailureReason.RATE_LIMITED if limited else FailureReason.MODEL_AWAY,
            f"the model's endpoint answered with status {error.status_code}",
            retry_after_seconds=wait,
        )


class _FormatRefusedError(Exception):
    """It may be the format that is refused."""
