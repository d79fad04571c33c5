"""What a service says of itself: its counters, read as Prometheus would, and its health."""

import httpx
from prometheus_client.parser import text_string_to_metric_families


async def counted(service_url: str, name: str) -> float:
    """The sum of a counter (named without `_total`) over all its labels."""
    async with httpx.AsyncClient() as client:
        page = (await client.get(f"{service_url}/metrics", timeout=5.0)).text
    return sum(
        sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == f"{name}_total"
    )


async def assert_accounted_for(service_url: str) -> float:
    """Every record consumed has one outcome; gives how many there were."""
    consumed = await counted(service_url, "lorebus_consumed")
    outcomes = ("applied", "duplicate", "skipped", "dead_lettered")
    assert consumed == sum([await counted(service_url, f"lorebus_{outcome}") for outcome in outcomes])
    return consumed


async def health(service_url: str) -> dict[str, object]:
    """What a consumer says of itself."""
    async with httpx.AsyncClient() as client:
        facts: dict[str, object] = (await client.get(f"{service_url}/health", timeout=5.0)).json()
    return facts


async def waits(service_url: str) -> bool:
    """Whether a consumer says that it waits for what is away."""
    return bool((await health(service_url))["waiting_for_dependency"])


async def is_ready(service_url: str) -> bool:
    """Whether a service answers that it is ready."""
    return await _is_well(f"{service_url}/health/ready")


async def is_alive(service_url: str) -> bool:
    """Whether a service answers that it is alive."""
    return await _is_well(f"{service_url}/health/live")


async def _is_well(url: str) -> bool:
    async with httpx.AsyncClient() as client:
        return (await client.get(url, timeout=5.0)).is_success
