"""What is the same for every route: unknown paths, methods, errors of ours, health, metrics, OpenAPI."""

import pytest

from tests.support.gateways import Asking

PROBLEM_JSON = "application/problem+json"


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/workflow", "/api/app/agents/memory/", "/doc", "/%00", "/..%2f"]
)
async def test_an_unknown_path_is_a_problem_document(gateway: Asking, path: str) -> None:
    answer = await gateway.client.get(path)

    assert (answer.status_code, answer.headers["content-type"]) == (404, PROBLEM_JSON)
    assert answer.json()["type"] == "urn:lorebus:problem:not-found"


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("DELETE", "/api/app/organization", "GET, PUT"),
        ("PUT", "/api/workflows/start", "POST"),
        ("PATCH", "/api/app/agents/memory", "GET"),
        ("OPTIONS", "/api/workflows/types", "GET"),
    ],
)
async def test_an_unknown_method_is_a_problem_document_that_names_the_known_ones(
    gateway: Asking, method: str, path: str, allow: str
) -> None:
    answer = await gateway.client.request(method, path)

    assert (answer.status_code, answer.headers["content-type"]) == (405, PROBLEM_JSON)
    assert answer.headers["allow"] == allow
    assert answer.json()["type"] == "urn:lorebus:problem:method-not-allowed"


async def test_a_method_unknown_to_health_is_a_problem_document_too(gateway: Asking) -> None:
    answer = await gateway.client.post("/health/live")

    assert (answer.status_code, answer.headers["content-type"]) == (405, PROBLEM_JSON)
    assert "GET" in answer.headers["allow"]


async def test_head_is_answered_as_get_without_a_body(gateway: Asking) -> None:
    answer = await gateway.client.head("/api/workflows/types")

    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) > 100


async def test_an_error_of_ours_is_a_problem_document_that_tells_nothing(gateway: Asking) -> None:
    config = await gateway.config()
    # A row that no code of ours writes makes the reading of it fail.
    async with gateway.database.begin() as connection:
        await connection.exec_driver_sql(
            "ALTER TABLE lorebus.agent_configs DROP CONSTRAINT agent_configs_strategy_is_known"
        )
        await connection.exec_driver_sql("UPDATE lorebus.agent_configs SET memory_strategy = 'secret words'")

    answer = await gateway.ask("GET", f"/api/app/agents/configs/{config}")

    assert (answer.status_code, answer.headers["content-type"]) == (500, PROBLEM_JSON)
    assert answer.json()["type"] == "urn:lorebus:problem:internal"
    assert "secret" not in answer.text
    failed = 'route="/api/app/agents/configs/{agent_config_uuid}",status="500"'
    assert failed in (await gateway.client.get("/metrics")).text
    assert (await gateway.ask("GET", "/api/app/organization")).status_code == 200


async def test_the_gateway_is_live_and_ready_with_its_database(gateway: Asking) -> None:
    async def is_ready() -> bool:
        return (await gateway.client.get("/health/ready")).status_code == 200

    await gateway.until(is_ready)
    assert (await gateway.client.get("/health/live")).json() == {"status": "ok", "problems": []}


async def test_requests_are_counted_by_route_and_never_by_id(gateway: Asking) -> None:
    config = await gateway.config()
    await gateway.load(await gateway.session(config))

    metrics = (await gateway.client.get("/metrics")).text

    route = 'method="PUT",route="/api/app/agents/configs/{agent_config_uuid}",status="200"'
    assert f"lorebus_http_requests_total{{{route}}}" in metrics
    assert 'lorebus_recalls_total{strategy="last_k"}' in metrics
    for measured in ("seconds", "entries", "chars"):
        assert f'lorebus_recall_{measured}_count{{strategy="last_k"}}' in metrics
    assert 'lorebus_healthy{probe="ready"} 1.0' in metrics
    assert 'lorebus_database_connections{state="size"}' in metrics
    assert str(config) not in metrics


async def test_the_openapi_document_is_served(gateway: Asking) -> None:
    answer = await gateway.client.get("/openapi.json")

    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json()["openapi"] == "3.1.0"
