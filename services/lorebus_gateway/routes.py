"""The table of routes: who may ask what, with which input, and what comes back (SPEC.md section 8).

The rule that must not break: a path that could be taken for another one's parameter stands before it.
"""

from typing import Final

from lorebus_contracts import problems
from lorebus_contracts.events import MemoryChanged
from lorebus_contracts.http import (
    AgentConfigBody,
    EndBody,
    LoadBody,
    MemoryQuery,
    NoInput,
    OrganizationBody,
    PruneBody,
    RateBody,
    RegisterBody,
    RunQuery,
    SaveBody,
    StartBody,
)
from lorebus_contracts.http_answers import (
    Accepted,
    AgentConfigAnswer,
    EventAccepted,
    LoadAnswer,
    MemoryPage,
    OrganizationAnswer,
    PrunePreview,
    Receipt,
    RunHistory,
    RunList,
    RunSnapshot,
    SessionAnswer,
    WorkflowSchema,
    WorkflowTypes,
)
from lorebus_contracts.http_memory import (
    EraseBody,
    ErasureReceipt,
    FeedGap,
    FeedQuery,
    FeedReady,
    ImportAnswer,
    MoveQuery,
)
from lorebus_contracts.memory_file import FileLine
from lorebus_gateway import memory_handlers, organization_handlers, session_handlers, workflow_handlers
from lorebus_gateway.authentication import Authenticator
from lorebus_gateway.endpoints import AnyRoute, Route
from lorebus_gateway.lesson_routes import LESSON_ROUTES

_SESSION: Final = "/api/agents/sessions/{session_ref}"
_APP: Final = "/api/app/agents"
_CONFIG: Final = _APP + "/configs/{agent_config_uuid}"
_WORKFLOWS: Final = "/api/workflows"

_OF_SESSIONS: Final[tuple[AnyRoute, ...]] = (
    Route(
        "POST",
        _SESSION + "/memory-save",
        Authenticator.session,
        SaveBody,
        {202: Accepted},
        session_handlers.save_memory,
        "Keep entries for the token's own session.",
        problems=(problems.FORBIDDEN,),
    ),
    Route(
        "POST",
        _SESSION + "/memory-load",
        Authenticator.session,
        LoadBody,
        {200: LoadAnswer},
        session_handlers.load_memory,
        "Recall for the token's own session.",
        problems=(problems.FORBIDDEN,),
    ),
)

_OF_ORGANIZATIONS: Final[tuple[AnyRoute, ...]] = (
    Route(
        "POST",
        _APP + "/sessions",
        Authenticator.organization,
        RegisterBody,
        {201: SessionAnswer},
        organization_handlers.register_session,
        "Register a session and mint its token; with `load`, also recall for it.",
        problems=(problems.NOT_FOUND, problems.CONFLICT),
        keeping=organization_handlers.without_token,
    ),
    Route(
        "POST",
        _APP + "/sessions/{session_uuid}/end",
        Authenticator.organization,
        EndBody,
        {202: EventAccepted},
        organization_handlers.end_session,
        "Say that a session ended; it is then distilled.",
    ),
    Route(
        "POST",
        _APP + "/sessions/{session_uuid}/rating",
        Authenticator.organization,
        RateBody,
        {202: EventAccepted},
        organization_handlers.rate_session,
        "Rate a session.",
    ),
    Route(
        "GET",
        _APP + "/memory",
        Authenticator.organization,
        MemoryQuery,
        {200: MemoryPage},
        organization_handlers.list_memory,
        "List an agent config's entries, highest importance first.",
        problems=(problems.NOT_FOUND,),
    ),
    Route(
        "POST",
        _APP + "/memory/prune",
        Authenticator.organization,
        PruneBody,
        {200: PrunePreview, 202: Accepted},
        organization_handlers.prune_memory,
        "Cut an agent config down, lowest importance first; with `dry_run`, tell what would go.",
        problems=(problems.NOT_FOUND,),
    ),
    Route(
        "GET",
        _APP + "/memory/feed",
        Authenticator.organization,
        FeedQuery,
        {},
        memory_handlers.follow_memory,
        "Follow the organization's changes as they happen, from `Last-Event-ID` on; see docs/architecture/feed.md.",
        problems=(problems.NOT_FOUND,),
        streams={"memory.changed": MemoryChanged, "gap": FeedGap, "ready": FeedReady},
    ),
    Route(
        "POST",
        _APP + "/memory/erase",
        Authenticator.organization,
        EraseBody,
        {200: ErasureReceipt},
        memory_handlers.erase_memory,
        "Erase a principal or a session: all that is kept of it, now and whatever comes late.",
        problems=(problems.NOT_FOUND,),
    ),
    Route(
        "GET",
        _APP + "/memory/erasures/{erasure_id}",
        Authenticator.organization,
        NoInput,
        {200: ErasureReceipt},
        memory_handlers.get_erasure,
        "Show the receipt of an erasure.",
    ),
    Route(
        "GET",
        _APP + "/memory/export",
        Authenticator.organization,
        MoveQuery,
        {},
        memory_handlers.export_memory,
        "Export an agent config's entries as JSON Lines, with all their counts.",
        problems=(problems.NOT_FOUND,),
        writes=FileLine,
    ),
    Route(
        "POST",
        _APP + "/memory/import",
        Authenticator.organization,
        MoveQuery,
        {200: ImportAnswer},
        memory_handlers.import_memory,
        "Add the entries of an exported file, wholly or not at all; a second time nothing is added.",
        problems=(problems.NOT_FOUND,),
        reads=FileLine,
    ),
    Route(
        "DELETE",
        _APP + "/memory/{entry_id}",
        Authenticator.organization,
        NoInput,
        {204: None},
        organization_handlers.delete_entry,
        "Delete an entry.",
    ),
    Route(
        "GET",
        _APP + "/recalls/{recall_id}",
        Authenticator.organization,
        NoInput,
        {200: Receipt},
        organization_handlers.get_receipt,
        "Show what a recall handed out and left out; takes a pack's id as well.",
    ),
    Route(
        "PUT",
        _CONFIG,
        Authenticator.organization,
        AgentConfigBody,
        {200: AgentConfigAnswer},
        organization_handlers.put_agent_config,
        "Set an agent config's memory settings, or make it known.",
    ),
    Route(
        "GET",
        _CONFIG,
        Authenticator.organization,
        NoInput,
        {200: AgentConfigAnswer},
        organization_handlers.get_agent_config,
        "Show an agent config's memory settings.",
    ),
    Route(
        "PUT",
        "/api/app/organization",
        Authenticator.organization,
        OrganizationBody,
        {200: OrganizationAnswer},
        organization_handlers.put_organization,
        "Set the organization's memory settings.",
    ),
    Route(
        "GET",
        "/api/app/organization",
        Authenticator.organization,
        NoInput,
        {200: OrganizationAnswer},
        organization_handlers.get_organization,
        "Show the organization's memory settings.",
        problems=(problems.NOT_FOUND,),
    ),
)

_OF_WORKFLOWS: Final[tuple[AnyRoute, ...]] = (
    Route(
        "GET",
        _WORKFLOWS,
        Authenticator.organization,
        RunQuery,
        {200: RunList},
        workflow_handlers.list_workflows,
        "List the organization's latest runs, newest first, by type and state; loads are not among them.",
    ),
    Route(
        "POST",
        _WORKFLOWS + "/start",
        Authenticator.organization,
        StartBody,
        {200: RunSnapshot, 202: RunSnapshot},
        workflow_handlers.start_workflow,
        "Start a run of a workflow type; a load is answered with its result.",
        problems=(problems.FORBIDDEN, problems.NOT_FOUND),
    ),
    Route(
        "GET",
        _WORKFLOWS + "/types",
        Authenticator.anyone,
        NoInput,
        {200: WorkflowTypes},
        workflow_handlers.list_workflow_types,
        "List the workflow types.",
    ),
    Route(
        "GET",
        _WORKFLOWS + "/types/{workflow_type}/schema",
        Authenticator.anyone,
        NoInput,
        {200: WorkflowSchema},
        workflow_handlers.get_workflow_schema,
        "Show a workflow type with the schemas of its input and output.",
    ),
    Route(
        "GET",
        _WORKFLOWS + "/{workflow_id}",
        Authenticator.session_or_organization,
        NoInput,
        {200: RunSnapshot},
        workflow_handlers.get_workflow,
        "Show how a run is.",
    ),
    Route(
        "GET",
        _WORKFLOWS + "/{workflow_id}/watch",
        Authenticator.session_or_organization,
        NoInput,
        {},
        workflow_handlers.watch_workflow,
        "Watch a run: an event `snapshot` now and at each change, until it has ended.",
        streams={"snapshot": RunSnapshot},
    ),
    Route(
        "GET",
        _WORKFLOWS + "/{workflow_id}/history",
        Authenticator.session_or_organization,
        NoInput,
        {200: RunHistory},
        workflow_handlers.get_workflow_history,
        "Show all that happened to a run, oldest first.",
    ),
)

ROUTES: Final[tuple[AnyRoute, ...]] = (
    *_OF_SESSIONS,
    *_OF_ORGANIZATIONS,
    *LESSON_ROUTES,
    *_OF_WORKFLOWS,
)
"""Every route of the API, the hot ones first."""
