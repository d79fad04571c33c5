"""What is planted where the system speaks is found there: these searches can fail."""

import json
import uuid

import asyncpg

from lorebus_contracts.topics import LABELS_GROUP, SESSION_RATED
from lorebus_kit.topics import apply_topics
from tests.support.output_searches import search_dead_letters, search_runs
from tests.support.outputs import CANARY, OUTPUTS, Outputs
from tests.support.services import services
from tests.support.talkative import MEASURES_VARIABLE, SAYS_VARIABLE
from tests.support.wire import Wire

PLANTED = "planted."
ADD_RUN = """
INSERT INTO lorebus.workflow_runs
    (organization_uuid, id, type, state_name, state_data, history, agent_config_uuid, created_at)
VALUES ($1, $2, 'agents.memory-distill', 'failed', $3, '[]', $4, now())
"""


async def test_a_text_in_a_services_log_and_a_key_in_its_metrics_are_found() -> None:
    async with services(
        "gateway",
        database_url="postgresql://nobody@127.0.0.1:9/none",
        bootstrap_servers="127.0.0.1:9",
        topic_prefix="t",
        extra={SAYS_VARIABLE: f"kept {CANARY}", MEASURES_VARIABLE: f'calls{{key="lrb_{"k" * 43}"}} 1'},
        launcher=("tests.support.talkative",),
    ):
        pass

    metrics, log = OUTPUTS.findings()
    assert metrics.startswith("an API key in the metrics of gateway, ")
    assert log.startswith("a memory text in the log of gateway, ")


async def test_a_text_in_what_a_failed_run_says_is_found(owner_url: str) -> None:
    outputs = Outputs()
    error = json.dumps({"error": f"cannot read {CANARY}"})
    connection = await asyncpg.connect(owner_url)
    try:
        await connection.execute(ADD_RUN, uuid.uuid4(), uuid.uuid4(), error, uuid.uuid4())
        await search_runs(outputs, owner_url)
        await connection.execute("DELETE FROM lorebus.workflow_runs")
    finally:
        await connection.close()

    (finding,) = outputs.findings()
    assert finding.startswith("a memory text in a failed run of agents.memory-distill, ")


async def test_a_text_in_a_dead_letters_header_is_found(bootstrap_servers: str) -> None:
    outputs, prefix = Outputs(), f"{PLANTED}{uuid.uuid4().hex[:12]}."
    topic = SESSION_RATED.dead_letters(LABELS_GROUP)
    await apply_topics(bootstrap_servers, prefix=prefix, partitions=1)
    async with Wire(bootstrap_servers, prefix) as wire:
        await wire.send_raw(
            topic, b"{}", headers=[("lorebus-error-type", b"WireError"), ("why", CANARY.encode())]
        )
        await search_dead_letters(outputs, bootstrap_servers, prefix=PLANTED)

    (finding,) = outputs.findings()
    assert finding.startswith(f"a memory text in a header of {prefix}{topic}, after 'why: ")
