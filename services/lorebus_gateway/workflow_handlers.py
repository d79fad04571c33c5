"""Workflow types, runs, and how they are started."""

from lorebus_contracts import wire
from lorebus_contracts.http import NoInput, RunQuery, StartBody
from lorebus_contracts.http_answers import WorkflowSchema, WorkflowSummary, WorkflowTypes
from lorebus_contracts.workflows import KIND, LIBRARY, VERSION, WORKFLOWS, WorkflowType, describe
from lorebus_gateway.answers import Answer, Stream, answer
from lorebus_gateway.authentication import Organization
from lorebus_gateway.endpoints import Call
from lorebus_gateway.errors import NotFoundError
from lorebus_gateway.run_status import Asker
from lorebus_gateway.server_sent_events import EVENT_STREAM
from lorebus_gateway.services import Services


async def start_workflow(call: Call[Organization, StartBody], services: Services) -> Answer:
    """Start a run; a load is answered with its result."""
    run = await services.starting.start(
        call.principal, call.input.workflow_type, call.input.initial_data, now=call.now, once=call.once
    )
    status = 200 if run.workflow_type is WorkflowType.MEMORY_LOAD else 202
    return answer(status, run, run_id=run.workflow_id)


async def get_workflow(call: Call[Asker, NoInput], services: Services) -> Answer:
    """Answer with how a run is."""
    return answer(
        200, await services.run_status.snapshot(call.principal, call.uuid("workflow_id"), now=call.now)
    )


async def watch_workflow(call: Call[Asker, NoInput], services: Services) -> Stream:
    """Answer with how a run is, and again at each change until it has ended."""
    run = await services.run_status.snapshot(call.principal, call.uuid("workflow_id"), now=call.now)
    return Stream(services.waiting.watch(call.principal, run), EVENT_STREAM)


async def get_workflow_history(call: Call[Asker, NoInput], services: Services) -> Answer:
    """Answer with all that happened to a run."""
    return answer(
        200, await services.run_status.history(call.principal, call.uuid("workflow_id"), now=call.now)
    )


async def list_workflows(call: Call[Organization, RunQuery], services: Services) -> Answer:
    """Answer with the organization's latest runs."""
    return answer(200, await services.run_status.latest(call.principal.organization_uuid, call.input))


async def list_workflow_types(_call: Call[None, NoInput], _services: Services) -> Answer:
    """Answer with all workflow types."""
    summaries = tuple(
        WorkflowSummary(
            name=descriptor.workflow_type,
            description=descriptor.description,
            kind=KIND,
            library=LIBRARY,
            version=VERSION,
        )
        for descriptor in WORKFLOWS.values()
    )
    return answer(200, WorkflowTypes(types=summaries))


async def get_workflow_schema(call: Call[None, NoInput], _services: Services) -> Answer:
    """Answer with a workflow type's schema, made from the models that validate."""
    try:
        descriptor = WORKFLOWS[WorkflowType(call.path["workflow_type"])]
    except ValueError as error:
        raise NotFoundError from error
    return answer(200, wire.validate(WorkflowSchema, describe(descriptor)))
