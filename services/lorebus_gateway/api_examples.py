"""Requests that the OpenAPI document shows, each as a client would make it.

The rule that must not break: every body has one, and each is what its model takes; a test holds both.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

from pydantic import BaseModel, JsonValue

from lorebus_contracts.http import (
    AgentConfigBody,
    EndBody,
    LoadBody,
    NoInput,
    OrganizationBody,
    PruneBody,
    RateBody,
    RegisterBody,
    SaveBody,
    StartBody,
)
from lorebus_contracts.http_keys import KeyBody
from lorebus_contracts.http_lessons import PreviewBody
from lorebus_contracts.http_memory import EraseBody
from lorebus_contracts.memory_file import FileLine

Example: TypeAlias = tuple[str, JsonValue]
"""What it does, and the body."""

_ORGANIZATION: Final = "463f32b1-1fa6-4027-b185-c5fbc6853560"
_CONFIG: Final = "5a1c5a52-6f2c-4f0c-9d35-0c6f6f1f7a10"
_SESSION: Final = "0199f1a2-7000-7000-8000-000000000001"
_LESSON: Final = "Ask for the booking reference before you change a seat."
_TASK: Final = "Move Ann to an aisle seat on her flight to Lisbon."
_TRACE: Final[JsonValue] = [
    {
        "tool": "find_booking",
        "input": {"name": "Ann"},
        "output": "Error: no booking reference",
        "is_error": True,
    },
    {"tool": "find_booking", "input": {"reference": "K7Q2ZD"}, "output": "LIS, seat 14B"},
]

EXAMPLES: Final[Mapping[type[BaseModel], tuple[Example, ...]]] = {
    NoInput: (("Nothing is asked for", {}),),
    SaveBody: (
        ("Entries, each with its importance", {"entries": [{"text": _LESSON, "importance": 0.7}]}),
        ("One text", {"content": _LESSON}),
    ),
    LoadBody: (
        ("As the agent config says", {}),
        (
            "Ranked for a task, with the reasons",
            {"cue": _TASK, "strategy": "pack", "top_k": 10, "explain": True},
        ),
    ),
    RegisterBody: (
        (
            "A session for an end user, with what it should remember",
            {
                "agent_config_uuid": _CONFIG,
                "session_uuid": _SESSION,
                "caller": {"kind": "end_user", "ref": "customer-8812"},
                "task": _TASK,
                "load": True,
            },
        ),
    ),
    EndBody: (("A session that succeeded", {"outcome": "success", "step_count": 2, "trace": _TRACE}),),
    RateBody: (("A good one", {"quality_score": 0.9}),),
    PruneBody: (
        ("Look first", {"agent_config_uuid": _CONFIG, "max_entries": 1_000, "dry_run": True}),
        ("To the agent config's own cap", {"agent_config_uuid": _CONFIG}),
    ),
    EraseBody: (
        ("A person, everywhere", {"principal_ref": "customer-8812"}),
        ("A person, in one agent config", {"principal_ref": "customer-8812", "agent_config_uuid": _CONFIG}),
        ("A session", {"session_uuid": _SESSION}),
    ),
    AgentConfigBody: (
        ("All at its default", {}),
        ("Ranked recalls of a small memory", {"memory_strategy": "pack", "memory_max_entries": 1_000}),
    ),
    OrganizationBody: (("Memory on, distilled by the built-in rules", {"memory_enabled": True}),),
    StartBody: (
        (
            "Recall for a session",
            {
                "workflow_type": "agents.memory-load",
                "initial_data": {
                    "organization_uuid": _ORGANIZATION,
                    "agent_config_uuid": _CONFIG,
                    "session_uuid": _SESSION,
                    "strategy": "pack",
                },
            },
        ),
        (
            "Prune an agent config",
            {
                "workflow_type": "agents.memory-prune",
                "initial_data": {"organization_uuid": _ORGANIZATION, "agent_config_uuid": _CONFIG},
            },
        ),
    ),
    KeyBody: (("A key for a session runtime", {"name": "runtime", "scopes": ["read", "write"]}),),
    PreviewBody: (("By the built-in rules", {"outcome": "failed", "task": _TASK, "trace": _TRACE}),),
    FileLine: (
        (
            "One line: an entry",
            {
                "principal_ref": "customer-8812",
                "text": _LESSON,
                "importance": 0.7,
                "created_at": "2026-01-31T22:00:00Z",
                "updated_at": "2026-01-31T22:00:00Z",
            },
        ),
    ),
}
"""By what a route takes, the usual one first."""
