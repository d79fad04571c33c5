"""What the handlers work with; made once when the gateway starts."""

from dataclasses import dataclass

from lorebus_gateway.administration import Administration
from lorebus_gateway.api_keys import ApiKeys
from lorebus_gateway.authentication import Authenticator
from lorebus_gateway.erasing import Erasing
from lorebus_gateway.exporting import Exporting
from lorebus_gateway.feed import Feed
from lorebus_gateway.idempotency import Idempotency
from lorebus_gateway.importing import Importing
from lorebus_gateway.lessons import Lessons
from lorebus_gateway.rate_limit import RateLimit
from lorebus_gateway.recalling import Recalling
from lorebus_gateway.run_status import RunStatus
from lorebus_gateway.runtime_sessions import RuntimeSessions
from lorebus_gateway.saving import Saving
from lorebus_gateway.starting import Starting
from lorebus_gateway.waiting import RunWaiting


@dataclass(frozen=True, slots=True)
class Services:
    """One of each; `body_seconds` is how long a body may take to come."""

    authenticator: Authenticator
    saving: Saving
    recalling: Recalling
    starting: Starting
    run_status: RunStatus
    sessions: RuntimeSessions
    administration: Administration
    idempotency: Idempotency
    feed: Feed
    erasing: Erasing
    exporting: Exporting
    importing: Importing
    rate_limit: RateLimit
    waiting: RunWaiting
    lessons: Lessons
    body_seconds: float
    api_keys: ApiKeys
