"""`.env.example`: every setting of every service. `python -m lorebus_ops.env_example` prints it.

Services never import each other, and this one is no exception: it looks their settings up by name, as it starts
them by name.
"""

import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Final

from pydantic_settings import BaseSettings

from lorebus_kit.env_example import env_example
from lorebus_kit.providers.usage import ModelSettings
from lorebus_kit.settings import ConsumerSettings, ServiceSettings

SERVICES: Final = (
    "lorebus_gateway",
    "lorebus_save",
    "lorebus_distill",
    "lorebus_recall_labeller",
    "lorebus_prune",
    "lorebus_ops",
)

OF_COMPOSE: Final = {
    "POSTGRES_PASSWORD": "Of PostgreSQL in docker-compose.yml: letters and digits, since it becomes part of a URL.",
    "GRAFANA_PASSWORD": "Of the user `admin` of Grafana in docker-compose.yml.",
    "POSTGRES_SERVICE_PASSWORD": "Of the login that services have there, which owns nothing: letters and digits too.",
}
"""What docker-compose.yml takes from `.env` for itself."""

TO_FILL_IN: Final = ("LOREBUS_TOKEN_SECRETS",)
"""What it hands on to a service and has no value for."""


def all_settings() -> tuple[type[BaseSettings], ...]:
    """The settings classes of the kit, then of each service that has any."""
    of_services = (cls for service in SERVICES for cls in _settings_of(service))
    return (ServiceSettings, ConsumerSettings, ModelSettings, *of_services)


def whole_example() -> str:
    """What `.env.example` holds."""
    return env_example(all_settings(), others=OF_COMPOSE, to_fill_in=TO_FILL_IN)


def main() -> None:
    """Print `.env.example`."""
    sys.stdout.write(whole_example())


def _settings_of(service: str) -> Iterator[type[BaseSettings]]:
    name = f"{service}.settings"
    if find_spec(name) is None:
        return
    for found in vars(import_module(name)).values():
        if isinstance(found, type) and issubclass(found, BaseSettings) and found.__module__ == name:
            yield found


if __name__ == "__main__":
    main()
