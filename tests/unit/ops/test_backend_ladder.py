"""Which rung of the ladder the suite runs on, as `make test BACKEND=...` asks."""

import pytest

from tests.support import backends


@pytest.mark.parametrize(
    ("asked", "engine_answers", "containers"),
    [("", False, False), ("", True, True), ("embedded", True, False), ("containers", True, True)],
)
def test_containers_are_taken_where_an_engine_answers_or_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, *, asked: str, engine_answers: bool, containers: bool
) -> None:
    monkeypatch.setenv("LOREBUS_TEST_BACKEND", asked)
    monkeypatch.setattr(backends, "docker_answers", lambda: engine_answers)

    assert backends.wants_containers() is containers


def test_containers_that_cannot_be_had_are_not_replaced_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOREBUS_TEST_BACKEND", "containers")
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")

    with pytest.raises(RuntimeError, match="no Docker engine answers"):
        backends.wants_containers()


def test_a_rung_that_there_is_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOREBUS_TEST_BACKEND", "podman")

    with pytest.raises(RuntimeError, match="'podman'"):
        backends.wants_containers()
