"""`.env.example`: made from the settings classes, with the defaults that they really have."""

import re
from pathlib import Path

import pytest
from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from lorebus_kit.env_example import env_example, main, variable_of
from lorebus_kit.settings import ConsumerSettings, ServiceSettings
from lorebus_ops import env_example as of_ops

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / ".env.example"
COMPOSE = ROOT / "docker-compose.yml"
HOW = "run `.venv/bin/python -m lorebus_ops.env_example > .env.example`"

ENOUGH = {
    "LOREBUS_DATABASE_URL": "postgresql://lorebus@127.0.0.1/lorebus",
    "LOREBUS_BOOTSTRAP_SERVERS": "127.0.0.1:9092",
    "LOREBUS_TOKEN_SECRETS": "x" * 32,
}


class Base(BaseSettings):
    """What all need. The rest is not told."""

    model_config = SettingsConfigDict(env_prefix="TRY_")

    password: SecretStr = Field(default=SecretStr("kanarienvogel"), description="A secret.")
    names: tuple[str, ...] = Field(default=("a", "b"), description="Some names.")


class More(Base):
    """What one needs besides."""

    place: str = Field(description="Where.")
    limit: int | None = Field(default=None, description="How many.")


def test_an_example_tells_each_variable_once_and_no_secret() -> None:
    told = env_example([Base, More], others={"OTHER": "Of another program."}, to_fill_in=("TRY_PLACE",))

    assert told.partition("\n\n")[2] == (
        "# Of another program.\n"
        "OTHER=\n"
        "\n"
        "# --- Base: What all need. The rest is not told.\n"
        "\n"
        "# A secret.\n"
        "# TRY_PASSWORD=\n"
        "\n"
        "# Some names.\n"
        '# TRY_NAMES=["a", "b"]\n'
        "\n"
        "# --- More: What one needs besides.\n"
        "\n"
        "# Required. Where.\n"
        "TRY_PLACE=\n"
        "\n"
        "# How many.\n"
        "# TRY_LIMIT=\n"
    )


def test_the_kit_prints_what_every_service_shares(capsys: pytest.CaptureFixture[str]) -> None:
    main()

    assert capsys.readouterr().out == env_example([ServiceSettings, ConsumerSettings])


def test_the_example_file_is_what_the_settings_say(capsys: pytest.CaptureFixture[str]) -> None:
    of_ops.main()

    assert EXAMPLE.read_text(encoding="utf-8") == capsys.readouterr().out, HOW


def test_every_setting_of_every_service_is_in_the_example() -> None:
    variables = {
        variable_of(settings, field) for settings in of_ops.all_settings() for field in settings.model_fields
    }

    assert variables <= set(
        re.findall("^(?:# )?([A-Z_]+)=", EXAMPLE.read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert {"LOREBUS_ACCEPT", "LOREBUS_HEALTH_PORT", "LOREBUS_DISTILL_CONCURRENCY"} <= variables


def test_every_setting_has_a_description() -> None:
    undescribed = [
        variable_of(settings, name)
        for settings in of_ops.all_settings()
        for name, field in settings.model_fields.items()
        if not field.description
    ]

    assert undescribed == []


@pytest.mark.parametrize("settings", of_ops.all_settings(), ids=lambda settings: settings.__name__)
def test_a_default_in_the_example_is_the_settings_own(
    settings: type[BaseSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = dict(re.findall("^# ([A-Z_]+)=(.+)$", EXAMPLE.read_text(encoding="utf-8"), re.MULTILINE))
    for name in (*defaults, *ENOUGH):
        monkeypatch.delenv(name, raising=False)
    for name, value in ENOUGH.items():
        monkeypatch.setenv(name, value)
    without = settings()

    for name, value in defaults.items():
        monkeypatch.setenv(name, value)

    assert settings() == without


def test_what_docker_compose_asks_for_is_what_is_to_be_filled_in() -> None:
    asked = set(re.findall(r"\$\{([A-Z_]+):\?", COMPOSE.read_text(encoding="utf-8")))

    to_fill_in = set(re.findall("^([A-Z_]+)=$", EXAMPLE.read_text(encoding="utf-8"), re.MULTILINE))

    assert (
        to_fill_in
        == asked
        == {
            "POSTGRES_PASSWORD",
            "POSTGRES_SERVICE_PASSWORD",
            "GRAFANA_PASSWORD",
            "LOREBUS_TOKEN_SECRETS",
        }
    )


def test_what_docker_compose_sets_is_a_setting() -> None:
    variables = {
        variable_of(settings, field) for settings in of_ops.all_settings() for field in settings.model_fields
    }

    assert (
        set(re.findall("^ +(LOREBUS_[A-Z_]+):", COMPOSE.read_text(encoding="utf-8"), re.MULTILINE))
        <= variables
    )
