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
    """The providers of one process: each is made when it is first named, and kept with what it has learnt."""

    def __init__(self, profiles: Mapping[str, ModelProfile], usage: UsageBook) -> None:
        self._profiles = profiles
        self._usage = usage
        self._rules = TraceRules()
        self._made: dict[str, OpenAIProvider] = {}

    @property
    def profiles(self) -> Mapping[str, ModelProfile]:
        """The models that there are, by name."""
        return self._profiles

    def of(self, profile_name: str | None) -> Provider:
        """The provider of this name; without one, the rules.

        Raises:
            ProviderRefusedError: there is no such profile.
        """
        if profile_name is None:
            return self._rules
        profile = self._profiles.get(profile_name)
        if profile is None:
            raise ProviderRefusedError(
                FailureReason.UNKNOWN_MODEL_PROFILE,
                "the organization's model_profile names no model that LOREBUS_MODELS has",
            )
        if profile_name not in self._made:
            # A second's work, which a process without models need not do.
            from lorebus_kit.providers.openai_provider import OpenAIProvider  # noqa: PLC0415  # The reason above.

            self._made[profile_name] = OpenAIProvider(profile_name, profile, self._usage)
        return self._made[profile_name]

    async def close(self) -> None:
        """Close the connections to all endpoints."""
        for provider in self._made.values():
            await provider.close()
