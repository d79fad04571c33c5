"""The application as a whole, with a shorter way to the two paths that runners call all day.

The rule that must not break: a request is answered as Starlette would have it answered; only the search through some
forty routes and four layers of wrappers is left out, which took a tenth of a save.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.applications import Starlette
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

PREFIX: Final = "/api/agents/sessions/"
_SESSION_REF: Final = "{session_ref}"


class Application(Starlette):
    """Starlette, which is asked for whatever is not a runner's path."""

    def __init__(
        self,
        endpoints: Mapping[str, ASGIApp],
        *,
        on_error: Callable[..., Any],
        **options: Any,  # noqa: ANN401 - As Starlette has them.
    ) -> None:
        """Take the endpoints of all paths, and what answers an error that nobody foresaw."""
        super().__init__(**options)
        self._of_runners = {
            path.removeprefix(PREFIX + _SESSION_REF): ServerErrorMiddleware(endpoint, handler=on_error)
            for path, endpoint in endpoints.items()
            if path.startswith(PREFIX + _SESSION_REF)
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http" and scope["path"].startswith(PREFIX):
            session_ref, slash, rest = scope["path"].removeprefix(PREFIX).partition("/")
            endpoint = self._of_runners.get(slash + rest)
            if endpoint is not None and session_ref:
                scope["path_params"] = {"session_ref": session_ref}
                await endpoint(scope, receive, send)
                return
        await super().__call__(scope, receive, send)
