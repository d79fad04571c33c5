"""What the `lorebus` command takes from the environment besides what it shares with services."""

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from lorebus_kit.settings import PREFIX


class MigrationSettings(BaseSettings):
    """What `lorebus migrate` takes; its own option reads the variable, so that a shell needs no settings at all."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    migrations_database_url: SecretStr | None = Field(
        default=None,
        description="The same PostgreSQL as the owner of the tables reaches it: a superuser, or a role that may make"
        " roles. Left out, `lorebus migrate` works over LOREBUS_DATABASE_URL, and makes no login for services.",
    )
