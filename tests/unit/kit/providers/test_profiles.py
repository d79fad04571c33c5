"""LOREBUS_MODELS: read at start, refused with what is wrong and without what was given."""

import json
from typing import Final

import pytest
from pydantic import ValidationError

from lorebus_kit.providers.usage import ModelSettings

ENDPOINT: Final = {"base_url": "http://127.0.0.1:8080/v1", "model": "small"}


def set_models(monkeypatch: pytest.MonkeyPatch, value: object) -> None:
    monkeypatch.setenv("LOREBUS_MODELS", value if isinstance(value, str) else json.dumps(value))


def test_without_the_variable_there_are_no_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOREBUS_MODELS", raising=False)

    settings = ModelSettings()

    assert settings.models == {}
    assert (settings.model_calls_per_day, settings.model_tokens_per_day) == (1_000, 5_000_000)


@pytest.mark.parametrize("empty", ["", "  ", "{}"])
def test_an_empty_value_is_no_models(monkeypatch: pytest.MonkeyPatch, empty: str) -> None:
    set_models(monkeypatch, empty)

    assert ModelSettings().models == {}


def test_a_profile_has_its_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    set_models(monkeypatch, {"local": ENDPOINT})

    profile = ModelSettings().models["local"]

    assert (profile.api_key, profile.deadline_seconds, profile.calls_at_once) == (None, 60.0, 2)
    assert profile.price_of(1_000, 1_000) is None
    assert dict(profile.options) == {}


def test_a_profile_says_everything_that_it_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    set_models(
        monkeypatch,
        {
            "big": ENDPOINT
            | {
                "api_key": "sk-secret",
                "deadline_seconds": 120,
                "calls_at_once": 8,
                "prompt_token_price": 0.25,
                "completion_token_price": 2,
                "options": {"temperature": 0},
            }
        },
    )

    profile = ModelSettings().models["big"]

    assert profile.api_key is not None
    assert profile.api_key.get_secret_value() == "sk-secret"
    assert "sk-secret" not in repr(profile)
    assert (profile.deadline_seconds, profile.calls_at_once) == (120.0, 8)
    assert profile.price_of(4, 3) == 7.0


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("{not json sk-secret", "must be a JSON object of profiles by name"),
        (["sk-secret"], "must be a JSON object of profiles by name"),
        ({"a b": ENDPOINT}, "a profile's name has 1 to 64 letters"),
        ({"trace-rules": ENDPOINT}, "trace-rules is the name of the built-in rules"),
        ({"x": {"model": "m", "api_key": "sk-secret"}}, "x.base_url: Field required"),
        ({"x": ENDPOINT | {"base_url": "ftp://host/sk-secret"}}, "x.base_url: must begin with https://"),
        (
            {"x": ENDPOINT | {"base_url": "https://u:sk-secret@host/v1"}},
            "x.base_url: must hold no user or password",
        ),
        ({"x": ENDPOINT | {"deadline_seconds": 0}}, "x.deadline_seconds: Input should be greater than 0"),
        (
            {"x": ENDPOINT | {"calls_at_once": "sk-secret"}},
            "x.calls_at_once: Input should be a valid integer",
        ),
        ({"x": ENDPOINT | {"apikey": "sk-secret"}}, "x.apikey: Extra inputs are not permitted"),
        ({"x": "sk-secret"}, "x: Input should be a valid dictionary"),
    ],
)
def test_a_wrong_profile_is_refused_by_name_without_its_values(
    monkeypatch: pytest.MonkeyPatch, value: object, problem: str
) -> None:
    set_models(monkeypatch, value)

    with pytest.raises(ValidationError) as raised:
        ModelSettings()

    [error] = raised.value.errors(include_url=False, include_input=False, include_context=False)
    assert error["loc"] == ("models",)
    assert problem in error["msg"]
    assert "sk-secret" not in error["msg"]
