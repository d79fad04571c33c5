"""Which provider an organization has: the model that its profile names, or the built-in rules.

The rule that must not break: a profile that nobody has set up is an error that says so, never silently the rules.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lorebus_kit.providers.errors import FailureReason, ProviderRefusedError
from lorebus_kit.providers.port import Provider, TraceRules
from lorebus_kit.providers.profiles import ModelProfile
from lorebus_kit.providers.usage import UsageBook

if TYPE_CHECKING:
    from lorebus_kit.providers.openai_provider import OpenAIProvider


class Providers:
    """The providers of one process, each kept with what it has learnt of its endpoint."""

    def __init__(self, profiles: Mapping[str, ModelProfile], usage: UsageBook) -> None:
        """Make them all; where there are models that takes seconds, so it is done before anything is consumed."""
        self._rules = TraceRules()
        self._models = _models(profiles, usage) if profiles else {}

    def of(self, profile_name: str | None) -> Provider:
        """The provider of this name; without one, or by their own name, the rules.

        Raises:
            ProviderRefusedError: there is no such profile.
        """
        if profile_name is None or profile_name == self._rules.name:
            return self._rules
        provider = self._models.get(profile_name)
        if provider is None:
            raise ProviderRefusedError(
                FailureReason.UNKNOWN_MODEL_PROFILE,
                "the organization's model_profile names no model that LOREBUS_MODELS has",
            )
        return provider

    async def close(self) -> None:
        """Close the connections to all endpoints."""
        for provider in self._models.values():
            await provider.close()


def _models(profiles: Mapping[str, ModelProfile], usage: UsageBook) -> "dict[str, OpenAIProvider]":
    # The client is slow to import, and a process without models has no need of it.
    from lorebus_kit.providers.openai_provider import OpenAIProvider  # noqa: PLC0415  # The reason above.

    return {name: OpenAIProvider(name, profile, usage) for name, profile in profiles.items()}
