"""Settings: a wrong one ends the process with its variable's name, and a secret is never shown."""

from collections.abc import Mapping
from datetime import timedelta

import pytest
from pydantic import ValidationError

from lorebus_kit.settings import ConsumerSettings, ServiceSettings, load_settings

PASSWORD = "kanarienvogel"
ENOUGH = {
    "LOREBUS_DATABASE_URL": f"postgresql://lorebus:{PASSWORD}@127.0.0.1:5432/lorebus",
    "LOREBUS_BOOTSTRAP_SERVERS": "127.0.0.1:9092",
}


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*ConsumerSettings.model_fields, "http_port"):
        monkeypatch.delenv(f"LOREBUS_{name.upper()}", raising=False)


def refusal(
    environment: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    settings: type[ServiceSettings] = ConsumerSettings,
) -> list[str]:
    """The lines on stderr of a process that ends because of its settings."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        load_settings(settings)
    assert ended.value.code == 2
    told = capsys.readouterr()
    assert told.out == ""
    return told.err.splitlines()


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**ENOUGH, "LOREBUS_BATCH_RECORDS": "50", "LOREBUS_BATCH_WAIT": "PT1.5S"}.items():
        monkeypatch.setenv(name, value)

    settings = load_settings(ConsumerSettings)

    assert settings.bootstrap_servers == "127.0.0.1:9092"
    assert settings.batch_records == 50
    assert settings.batch_wait == timedelta(seconds=1.5)
    assert settings.log_level == "INFO"


def test_missing_settings_are_named_one_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refusal({}, monkeypatch, capsys) == [
        "lorebus: LOREBUS_DATABASE_URL: is required",
        "lorebus: LOREBUS_BOOTSTRAP_SERVERS: is required",
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LOREBUS_BOOTSTRAP_SERVERS", ""),
        ("LOREBUS_DATABASE_POOL_SIZE", "0"),
        ("LOREBUS_DATABASE_POOL_SIZE", "many"),
        ("LOREBUS_DATABASE_POOLER", "perhaps"),
        ("LOREBUS_LOG_LEVEL", "LOUD"),
        ("LOREBUS_HEALTH_PORT", "65536"),
        ("LOREBUS_SESSION_TIMEOUT_SECONDS", "0"),
        ("LOREBUS_SESSION_TIMEOUT_SECONDS", "inf"),
        ("LOREBUS_REBALANCE_TIMEOUT_SECONDS", "nan"),
        ("LOREBUS_BATCH_RECORDS", "5001"),
        ("LOREBUS_BATCH_WAIT", "soon"),
        ("LOREBUS_DEAD_LETTER_LIMIT", "-1"),
    ],
)
def test_a_wrong_setting_ends_the_process_with_its_name(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (line,) = refusal({**ENOUGH, name: value}, monkeypatch, capsys)

    assert line.startswith(f"lorebus: {name}: ")
    assert len(line) > len(f"lorebus: {name}: ")


def test_a_database_url_of_another_kind_is_refused_without_being_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = {**ENOUGH, "LOREBUS_DATABASE_URL": f"mysql://lorebus:{PASSWORD}@127.0.0.1/lorebus"}

    (line,) = refusal(wrong, monkeypatch, capsys)

    assert line.startswith("lorebus: LOREBUS_DATABASE_URL: ")
    assert "must begin with postgresql://" in line
    assert PASSWORD not in line


def test_a_secret_is_not_shown_beside_another_wrong_setting(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = refusal({**ENOUGH, "LOREBUS_BATCH_RECORDS": PASSWORD}, monkeypatch, capsys)

    assert PASSWORD not in "".join(lines)


def test_a_secret_is_not_in_the_settings_own_text(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENOUGH.items():
        monkeypatch.setenv(name, value)

    settings = load_settings(ConsumerSettings)

    assert PASSWORD not in f"{settings} {settings!r} {settings.model_dump_json()}"
    assert PASSWORD in settings.database_url.get_secret_value()


def test_settings_are_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENOUGH.items():
        monkeypatch.setenv(name, value)
    settings = load_settings(ConsumerSettings)

    with pytest.raises(ValidationError):
        settings.batch_records = 1  # type: ignore[misc]  # That it cannot be set is what is tested.


def test_a_variable_of_another_service_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**ENOUGH, "LOREBUS_HTTP_PORT": "8080"}.items():
        monkeypatch.setenv(name, value)

    assert load_settings(ServiceSettings).bootstrap_servers == "127.0.0.1:9092"
