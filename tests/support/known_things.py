"""An organization with something behind every route: what generated requests are made to ask for."""

import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final
from uuid import uuid4

import httpx

_READY_SECONDS: Final = 60.0
_MEMORY: Final = "/api/app/agents/memory"
_KEPT: Final = 5
_TO_DELETE: Final = 200
_TO_ERASE: Final = 5
_HELD: Final = 5
_KEYS: Final = 100


@dataclass(slots=True)
class KnownThings:
    """Ids that exist, by the name they have in a path, a query or a body; and who may ask for them.

    `ids_of` are those of an operation that takes away or changes what others need.
    """

    organization_uuid: str
    api_key: str
    session_token: str
    ids: Mapping[str, Sequence[str]]
    ids_of: Mapping[str, Mapping[str, Sequence[str]]]
    to_delete: deque[str]

    def id_for(self, operation_id: str, name: str, turn: int) -> str | None:
        """One that the operation may have; None where nothing of that name is known."""
        if operation_id == "delete_entry" and name == "entry_id" and self.to_delete:
            return self.to_delete.popleft()
        known = self.ids_of.get(operation_id, {}).get(name) or self.ids.get(name)
        return known[turn % len(known)] if known else None


def known_things(client: httpx.Client, organization_uuid: str, api_key: str) -> KnownThings:
    """Make one of everything and wait until the consumers have carried it out."""
    maker = _Maker(client, organization_uuid, api_key)
    config, spare = str(uuid4()), str(uuid4())
    for uuid in (config, spare):
        maker.ask("PUT", f"/api/app/agents/configs/{uuid}", {"memory_strategy": "pack"})
    erasable = [maker.session(spare) for _ in range(_TO_ERASE)]
    session = maker.session(config)
    runs = [maker.save(session, [{"text": f"Seats, lesson {n}.", "importance": 0.9} for n in range(_KEPT)])]
    runs += [
        maker.save(session, [{"text": f"Of no use: {first + n}."} for n in range(100)])
        for first in range(0, _TO_DELETE, 100)
    ]
    entries = maker.entries(config)
    load = maker.ask("POST", f"/api/agents/sessions/{session}/memory-load", {"cue": "seats"}, agent=True)
    runs += [maker.start(kind, config, session) for kind in ("load", "prune", "distill")]
    maker.hold_back(config)
    held = maker.entries(config, state="quarantined")
    erased = maker.ask("POST", f"{_MEMORY}/erase", {"principal_ref": "somebody who left"})
    maker.until_there(f"/api/app/agents/recalls/{load['recall_id']}")
    ids = {
        "organization_uuid": [organization_uuid],
        "agent_config_uuid": [config],
        "session_uuid": [session],
        "session_ref": [session],
        "entry_id": entries[:_KEPT],
        "recall_id": [load["recall_id"], load["pack_id"]],
        "erasure_id": [erased["erasure_id"]],
        "workflow_id": runs,
    }
    ids_of = {
        "prune_memory": {"agent_config_uuid": [spare]},
        "put_agent_config": {"agent_config_uuid": [spare]},
        "erase_memory": {"session_uuid": erasable},
        "revoke_key": {"key_id": maker.keys(_KEYS)},
        "release_entry": {"entry_id": held},
    }
    return KnownThings(organization_uuid, api_key, maker.token, ids, ids_of, deque(entries[_KEPT:]))


class _Maker:
    """Asks as the organization, and as the session that it registered last."""

    def __init__(self, client: httpx.Client, organization_uuid: str, api_key: str) -> None:
        self._client = client
        self._organization_uuid = organization_uuid
        self._api_key = api_key
        self.token = ""

    def ask(
        self, method: str, path: str, body: Mapping[str, object] | None = None, *, agent: bool = False
    ) -> Any:  # noqa: ANN401 - Whatever the route answers.
        credentials = f"Agent {self.token}" if agent else f"Bearer {self._api_key}"
        headers = {"authorization": credentials, "prefer": "wait=30"}
        answer = self._client.request(method, path, json=body, headers=headers)
        assert answer.is_success, f"{method} {path}: {answer.text}"
        return answer.json()

    def session(self, config: str) -> str:
        body = {
            "agent_config_uuid": config,
            "caller": {"kind": "actor", "ref": "ann"},
            "task": "Book a seat.",
        }
        told = self.ask("POST", "/api/app/agents/sessions", body)
        self.token = told["token"]
        return str(told["session_uuid"])

    def save(self, session: str, entries: Sequence[Mapping[str, object]]) -> str:
        run = self.ask(
            "POST", f"/api/agents/sessions/{session}/memory-save", {"entries": entries}, agent=True
        )
        assert run["state_name"] == "completed", run
        return str(run["workflow_id"])

    def keys(self, count: int) -> list[str]:
        """The ids of keys that nobody needs."""
        body = {"name": "to be revoked", "scopes": ["read"]}
        return [self.ask("POST", "/api/app/organization/keys", body)["key_id"] for _ in range(count)]

    def hold_back(self, config: str) -> None:
        """Import entries that are held back."""
        at = "2026-01-01T00:00:00Z"
        held = {"principal_ref": None, "importance": 0.5, "created_at": at, "updated_at": at}
        held |= {"state": "quarantined", "quarantine_reason": "prompt_injection"}
        entries = [held | {"text": f"To be looked at: {n}."} for n in range(_HELD)]
        lines = [{"format": "lorebus.memory", "version": 1}, *entries, {"end": True, "entries": _HELD}]
        answer = self._client.post(
            f"{_MEMORY}/import?agent_config_uuid={config}",
            content="".join(json.dumps(line) + "\n" for line in lines),
            headers={"authorization": f"Bearer {self._api_key}", "content-type": "application/x-ndjson"},
        )
        assert answer.json()["imported"] == _HELD, answer.text

    def entries(self, config: str, *, state: str = "active") -> list[str]:
        """The ids of all entries, the most important first."""
        found: list[str] = []
        while True:
            page = len(found) // 100 + 1
            told = self.ask(
                "GET", f"{_MEMORY}?agent_config_uuid={config}&state={state}&per_page=100&page={page}"
            )
            found += [entry["id"] for entry in told["items"]]
            if not told["has_more"]:
                return found

    def start(self, kind: str, config: str, session: str) -> str:
        data = {"organization_uuid": self._organization_uuid, "agent_config_uuid": config}
        if kind != "prune":
            data["session_uuid"] = session
        body = {"workflow_type": f"agents.memory-{kind}", "initial_data": data}
        return str(self.ask("POST", "/api/workflows/start", body)["workflow_id"])

    def until_there(self, path: str) -> None:
        """Wait for what a consumer writes."""
        deadline = monotonic() + _READY_SECONDS
        headers = {"authorization": f"Bearer {self._api_key}"}
        while self._client.get(path, headers=headers).status_code != 200:
            assert monotonic() < deadline, f"{path} is not there"
