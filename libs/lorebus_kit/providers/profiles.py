"""Models by name, as the operator sets them in LOREBUS_MODELS; an organization names the one it wants.

The rule that must not break: a wrong profile stops the process at start, and neither its key nor anything else of the
value is repeated in what is said about it.
"""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeAlias
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
)
from pydantic_settings import NoDecode

from lorebus_domain.trace_rules import RULES_NAME

DEADLINE_SECONDS: Final = 60.0
CALLS_AT_ONCE: Final = 2
_NAME: Final = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_Seconds = Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)]
_Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class ModelProfile(BaseModel):
    """One model behind an OpenAI-compatible endpoint."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    base_url: str = Field(description="Where the endpoint is, up to and with `/v1`.")
    model: str = Field(min_length=1, description="What the endpoint calls the model.")
    api_key: SecretStr | None = Field(default=None, description="Left out where the endpoint asks for none.")
    deadline_seconds: _Seconds = Field(
        default=DEADLINE_SECONDS, description="The longest that one session may take, a second call included."
    )
    calls_at_once: int = Field(
        default=CALLS_AT_ONCE, ge=1, le=100, description="Sessions asked about at once by one process."
    )
    prompt_token_price: _Price | None = Field(default=None, description="For one token sent.")
    completion_token_price: _Price | None = Field(default=None, description="For one token answered.")
    options: Mapping[str, Any] = Field(
        default_factory=dict, description="Put into every request as it is, such as `temperature`."
    )

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("must begin with https:// or http:// and name a host")
        if parts.username or parts.password:
            raise ValueError("must hold no user or password; the key goes into api_key")
        return value

    def price_of(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        """What so many tokens cost; None where no price is set."""
        if self.prompt_token_price is None and self.completion_token_price is None:
            return None
        return prompt_tokens * (self.prompt_token_price or 0) + completion_tokens * (
            self.completion_token_price or 0
        )


def _read(value: object) -> object:
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else {}
        except ValueError as error:
            raise ValueError("must be a JSON object of profiles by name") from error
    if not isinstance(value, Mapping):
        raise ValueError("must be a JSON object of profiles by name")  # noqa: TRY004  # pydantic takes ValueError.
    return {name: _profile(name, given) for name, given in value.items()}


def _profile(name: object, given: object) -> ModelProfile:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError("a profile's name has 1 to 64 letters, digits, dots, dashes and underscores")
    if name == RULES_NAME:
        raise ValueError(f"{name} is the name of the built-in rules")
    if isinstance(given, ModelProfile):
        return given
    try:
        return ModelProfile.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join((name, *map(str, first["loc"])))
        raise ValueError(f"{where}: {first['msg'].removeprefix('Value error, ')}") from None


ModelProfiles: TypeAlias = Annotated[Mapping[str, ModelProfile], NoDecode, BeforeValidator(_read)]
"""Profiles by name: 1 to 64 letters, digits, `.`, `_` and `-`."""
