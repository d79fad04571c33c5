"""POST memory-save (SPEC.md sections 3, 6 and 8): accepted means durable, and nothing else is accepted."""

import json

from tests.support.gateways import Asking


async def test_a_save_is_accepted_with_its_run_and_its_event_in_one_transaction(gateway: Asking) -> None:
    config = await gateway.config()
    session = await gateway.session(config, {"kind": "end_user", "ref": "bob"})

    answer = await gateway.save(session, {"entries": [{"text": "prefers tea", "importance": 0.8}]})

    assert answer.status_code == 202
    workflow_id = answer.json()["workflow_id"]
    assert answer.headers["location"] == f"/api/workflows/{workflow_id}"
    (run,) = await gateway.rows("SELECT * FROM lorebus.workflow_runs")
    (row,) = await gateway.rows("SELECT * FROM lorebus.outbox")
    assert (str(run["id"]), run["type"], run["state_name"]) == (
        workflow_id,
        "agents.memory-save",
        "initiated",
    )
    assert run["pending_input"] == row["payload"]
    event = json.loads(row["payload"])
    assert (row["topic"], row["key"]) == ("memory.save-requested", f"{config}|bob".encode())
    assert (event["event_id"], str(row["event_id"])) == (workflow_id, workflow_id)
    assert event["caller"] == {"kind": "end_user", "ref": "bob"}
    assert event["principal_ref"] == "bob"
    assert event["entries"] == [{"text": "prefers tea", "importance": 0.8}]
    assert event["origin"] == "runner"
