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


async def waits(service_url: str) -> bool:
    """Whether a consumer says that it waits for what is away."""
    async with httpx.AsyncClient() as client:
        facts = (await client.get(f"{service_url}/health", timeout=5.0)).json()
    return bool(facts["waiting_for_dependency"])
