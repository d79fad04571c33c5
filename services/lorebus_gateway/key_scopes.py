"""What an API key must be for to be used on a route or a tool.

The rule that must not break: no scope opens by a detour what another one guards. So a route that gives memory away
needs `read` whatever else it needs, and what says nothing needs `admin`.
"""

from collections.abc import Collection, Mapping
from typing import Final, TypeAlias

from lorebus_contracts.http import StartBody
from lorebus_contracts.workflows import WorkflowType
from lorebus_domain.key_scope import KeyScope
from lorebus_gateway.authentication import Organization
from lorebus_gateway.errors import ForbiddenError

Scopes: TypeAlias = tuple[KeyScope, ...]

NONE: Final[Scopes] = ()
READ: Final[Scopes] = (KeyScope.READ,)
WRITE: Final[Scopes] = (KeyScope.WRITE,)
READ_AND_WRITE: Final[Scopes] = (KeyScope.READ, KeyScope.WRITE)
"""For what gives a session's token, which reads and writes."""
ADMIN: Final[Scopes] = (KeyScope.ADMIN,)

_OF_STARTING: Final[Mapping[WorkflowType, Scopes]] = {
    WorkflowType.MEMORY_LOAD: READ,
    WorkflowType.MEMORY_SAVE: WRITE,
    WorkflowType.MEMORY_DISTILL: WRITE,
    WorkflowType.MEMORY_PRUNE: ADMIN,
}


def of_starting(body: StartBody) -> Scopes:
    """What starting a run of this type needs: the same as its own route, where it has one."""
    return _OF_STARTING[body.workflow_type]


def require_scopes(principal: object, needed: Collection[KeyScope]) -> None:
    """Do nothing if whoever asks may: a key that is for all of `needed`, a session's token, or nobody.

    Raises:
        ForbiddenError: the key is not for all of that.
    """
    if isinstance(principal, Organization) and not principal.scopes.issuperset(needed):
        raise ForbiddenError
