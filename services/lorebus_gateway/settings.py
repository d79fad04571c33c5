"""The gateway's settings."""

from datetime import timedelta

from pydantic import Field, SecretStr, field_validator

from lorebus_kit.acceptance import PUBLISH_SECONDS, AcceptMode
from lorebus_kit.providers.usage import ModelSettings
from lorebus_kit.settings import Seconds, ServiceSettings
from lorebus_kit.tokens import MIN_SECRET_CHARS


class GatewaySettings(ServiceSettings, ModelSettings):
    """What the gateway needs besides."""

    http_host: str = Field(default="127.0.0.1", description="Where the gateway listens.")
    http_port: int = Field(
        default=8080, ge=0, le=65535, description="The gateway's port; 0 lets the kernel choose."
    )
    accept: AcceptMode = Field(
        default=AcceptMode.BUS,
        description="Where events are accepted first: `bus` (production), or `store` (the local stack).",
    )
    publish_timeout_seconds: Seconds = Field(
        default=PUBLISH_SECONDS, description="How long Kafka is waited for before the store is asked."
    )
    token_secrets: SecretStr = Field(
        description="Secrets of the session tokens, separated by commas, 32 characters or more each. The first"
        " one mints, all of them verify."
    )
    token_lifetime: timedelta = Field(
        default=timedelta(hours=24), gt=timedelta(0), description="How long a session token is good at most."
    )
    token_grace_seconds: Seconds = Field(
        default=300.0,
        description="How long a session's token is still good after the session's end, for what its runner has not"
        " said yet.",
    )
    key_cache_seconds: Seconds = Field(
        default=5.0,
        description="How long a found API key and an agent config's settings are remembered. A change is heard of at"
        " once; behind a pooler, or while nothing can be heard, what was before it may hold that long still. No session"
        " is asked more often whether it has ended.",
    )
    rate_limit_per_minute: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="Requests a minute for each token and API key, over all gateways together; 0: no limit.",
    )
    body_timeout_seconds: Seconds = Field(
        default=30.0, description="How long a request's body may take to come, and each MiB of a file."
    )
    feed_heartbeat_seconds: Seconds = Field(
        default=15.0, description="How long a client of the live tail hears nothing at most."
    )
    feed_longest_seconds: Seconds = Field(
        default=900.0,
        description="How long one feed goes on before its client has to ask again, with a key that still holds.",
    )
    feed_queue: int = Field(
        default=1_000, ge=1, description="How many changes behind a client of the live tail is cut off."
    )
    feeds_per_organization: int = Field(
        default=100,
        ge=1,
        description="Clients of the live tail that an organization may have at one gateway.",
    )
    recall_queue: int = Field(
        default=10_000, ge=1, description="Answered recalls that may wait to be recorded; then loads wait."
    )
    stop_seconds: Seconds = Field(
        default=15.0, description="How long a stop waits for requests in hand and for recalls to be recorded."
    )

    @field_validator("token_secrets")
    @classmethod
    def _are_long_enough(cls, value: SecretStr) -> SecretStr:
        if any(len(secret) < MIN_SECRET_CHARS for secret in _split(value)):
            raise ValueError(f"every secret must have at least {MIN_SECRET_CHARS} characters")
        return value

    def all_token_secrets(self) -> tuple[str, ...]:
        """The secrets, the minting one first."""
        return _split(self.token_secrets)


def _split(value: SecretStr) -> tuple[str, ...]:
    return tuple(secret.strip() for secret in value.get_secret_value().split(","))
