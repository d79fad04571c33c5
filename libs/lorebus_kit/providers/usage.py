"""The book of what each organization's models are asked, day by day, and the budget that it holds.

The rule that must not break: a call is counted, in a transaction of its own, before it is made. So a process that dies
in a call has counted it, and a budget is never overdrawn by more than the calls that run at once.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Protocol
from uuid import UUID

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from lorebus_kit.metrics import MODEL_OVER_BUDGET
from lorebus_kit.providers.errors import FailureReason, NotAskedError
from lorebus_kit.providers.profiles import ModelProfiles
from lorebus_kit.settings import PREFIX
from lorebus_store import model_usage
from lorebus_store.acting import Tenants
from lorebus_store.database import Database


class ModelSettings(BaseSettings):
    """What a process that asks models is told, whatever else it does."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    models: ModelProfiles = Field(
        default_factory=dict,
        description="Models by the name that an organization's model_profile gives, as JSON:"
        ' {"name": {"base_url", "model", "api_key", "deadline_seconds", "calls_at_once", "prompt_token_price",'
        ' "completion_token_price", "options"}}; all but the first two may be left out.',
    )
    model_calls_per_day: int = Field(
        default=1_000, ge=0, description="Calls of a model for one organization and UTC day."
    )
    model_tokens_per_day: int = Field(
        default=5_000_000, ge=0, description="Tokens, sent and answered, for one organization and UTC day."
    )


@dataclass(frozen=True, slots=True)
class CountedCall:
    """A call that was counted with an estimate of what it sends."""

    organization_uuid: UUID
    day: date
    prompt_tokens: int


class UsageBook(Protocol):
    """Where calls are counted."""

    async def begin(self, organization_uuid: UUID, *, prompt_tokens: int) -> CountedCall:
        """Count a call of about so many tokens.

        Raises:
            NotAskedError: the organization's budget of the day is used up.
            TransientError: the book is away.
        """

    async def settle(self, call: CountedCall, *, prompt_tokens: int, completion_tokens: int) -> None:
        """Put what the endpoint counted in place of the estimate.

        Raises:
            TransientError: the book is away.
        """


class StoredUsage:
    """The book that is kept in the database, with the budget of the settings."""

    def __init__(self, database: Database, settings: ModelSettings) -> None:
        self._database = database
        self._settings = settings

    async def begin(self, organization_uuid: UUID, *, prompt_tokens: int) -> CountedCall:
        """Count a call of about so many tokens."""
        now = datetime.now(UTC)
        async with self._database.begin(Tenants.of(organization_uuid)) as connection:
            counted = await model_usage.count_call(
                connection,
                organization_uuid,
                now.date(),
                prompt_tokens=prompt_tokens,
                max_calls=self._settings.model_calls_per_day,
                max_tokens=self._settings.model_tokens_per_day,
            )
        if not counted:
            MODEL_OVER_BUDGET.inc()
            raise NotAskedError(
                FailureReason.OVER_BUDGET,
                "the organization's budget of model calls or tokens of the day is used up",
                due_in_seconds=seconds_to_next_day(now),
            )
        return CountedCall(organization_uuid, now.date(), prompt_tokens)

    async def settle(self, call: CountedCall, *, prompt_tokens: int, completion_tokens: int) -> None:
        """Put what the endpoint counted in place of the estimate."""
        async with self._database.begin(Tenants.of(call.organization_uuid)) as connection:
            await model_usage.add_tokens(
                connection,
                call.organization_uuid,
                call.day,
                prompt_tokens=prompt_tokens - call.prompt_tokens,
                completion_tokens=completion_tokens,
            )


class UnkeptUsage:
    """No book and no budget, for a person who tries a model from a shell."""

    async def begin(self, organization_uuid: UUID, *, prompt_tokens: int) -> CountedCall:
        """Count nothing."""
        return CountedCall(organization_uuid, datetime.now(UTC).date(), prompt_tokens)

    async def settle(self, call: CountedCall, *, prompt_tokens: int, completion_tokens: int) -> None:
        """Count nothing."""


def seconds_to_next_day(now: datetime) -> float:
    """How long until the next UTC day begins, in (0, 86 400] s."""
    tomorrow = datetime.combine(now.astimezone(UTC).date() + timedelta(days=1), time(), UTC)
    return (tomorrow - now).total_seconds()
