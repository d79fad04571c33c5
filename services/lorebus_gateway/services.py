"""What the handlers work with; made once when the gateway starts."""

from dataclasses import dataclass

from lorebus_gateway.administration import Administration
from lorebus_gateway.authentication import Authenticator
from lorebus_gateway.recalling import Recalling
from lorebus_gateway.run_status import RunStatus
from lorebus_gateway.runtime_sessions import RuntimeSessions
from lorebus_gateway.saving import Saving
from lorebus_gateway.starting import Starting


@dataclass(frozen=True, slots=True)
class Services:
    """One of each."""

    authenticator: Authenticator
    saving: Saving
    recalling: Recalling
    starting: Starting
    run_status: RunStatus
    sessions: RuntimeSessions
    administration: Administration
