"""Settings of every process: read once in `__main__`, frozen, from variables that begin with LOREBUS_.

A wrong setting stops the process at start with the variable's name and what is wrong with it.
"""

import sys
from datetime import timedelta
from typing import Annotated, Final, Literal, NamedTuple, NoReturn, TypeVar

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

SettingsT = TypeVar("SettingsT", bound="ServiceSettings")

PREFIX: Final = "LOREBUS_"
EXIT_BAD_SETTINGS: Final = 2

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ServiceSettings(BaseSettings):
    """What each service needs: where PostgreSQL and the broker are, where to say how it is."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    database_url: SecretStr = Field(
        description="PostgreSQL, as postgresql://user:password@host:port/database, by a login that owns nothing there."
    )
    bootstrap_servers: str = Field(min_length=1, description="Kafka, as host:port,host:port.")
    topic_prefix: str = Field(
        default="", description="Put before every topic and group; empty in production."
    )
    database_pool_size: int = Field(
        default=5, ge=1, le=100, description="Connections to PostgreSQL a process."
    )
    database_pooler: bool = Field(
        default=False, description="True behind pgbouncer in transaction mode: statement caches off."
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="Least level logged."
    )

    traces_endpoint: str = Field(
        default="",
        pattern=r"^(https?://.+)?$",
        description="Where traces are sent by OTLP over HTTP, as http://host:4318; empty: there are none.",
    )
    traces_share: float = Field(
        default=1.0,
        ge=0,
        le=1,
        description="Which share of the traces that begin here is kept; one that a caller began is kept if it says so.",
    )

    @field_validator("database_url")
    @classmethod
    def _is_postgresql(cls, value: SecretStr) -> SecretStr:
        if not value.get_secret_value().startswith(("postgresql://", "postgres://")):
            raise ValueError("must begin with postgresql://")
        return value


class ConsumerSettings(ServiceSettings):
    """What each consumer needs besides."""

    health_host: str = Field(default="127.0.0.1", description="Where /health and /metrics listen.")
    health_port: int = Field(default=0, ge=0, le=65535, description="Their port; 0 lets the kernel choose.")
    session_timeout_seconds: Seconds = Field(
        default=10.0,
        description="A member of a consumer group that is silent this long loses its partitions.",
    )
    rebalance_timeout_seconds: Seconds = Field(
        default=30.0, description="How long a member may finish what it has in hand when partitions move."
    )
    batch_records: int = Field(
        default=500, ge=1, le=5000, description="Most records handled in one transaction."
    )
    batch_wait: timedelta = Field(
        default=timedelta(milliseconds=20), description="Longest wait for a batch to have its first record."
    )
    dead_letter_limit: int = Field(
        default=50,
        ge=1,
        description="Dead letters in a row after which the consumer stops and asks for a person.",
    )


class SettingFault(NamedTuple):
    """What is wrong with a variable; the text does not repeat its value."""

    variable: str
    problem: str
    is_missing: bool


def setting_faults(settings: type[BaseSettings]) -> tuple[SettingFault, ...]:
    """What is wrong with the environment for a process with these settings."""
    try:
        settings()
    except ValidationError as error:
        return _faults(error)
    return ()


def load_settings(settings: type[SettingsT]) -> SettingsT:
    """The process's settings; a wrong one ends the process with exit code 2 and a line a variable on stderr."""
    try:
        return settings()
    except ValidationError as error:
        _refuse(error)


def _refuse(error: ValidationError) -> NoReturn:
    for fault in _faults(error):
        sys.stderr.write(f"lorebus: {fault.variable}: {fault.problem}\n")
    raise SystemExit(EXIT_BAD_SETTINGS)


def _faults(error: ValidationError) -> tuple[SettingFault, ...]:
    items = error.errors(include_url=False, include_input=False, include_context=False)
    return tuple(
        SettingFault(
            PREFIX + "_".join(str(part) for part in item["loc"]).upper(),
            "is required" if item["type"] == "missing" else item["msg"],
            item["type"] == "missing",
        )
        for item in items
    )
