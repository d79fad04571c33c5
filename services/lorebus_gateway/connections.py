"""The connections of clients, where an answer in pieces may have to end in the middle of one.

A client that does not read holds up whoever writes to it, and nothing that is written can tell it so.
"""

from collections.abc import Callable
from typing import Final

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_CUT: Final = "lorebus.cut"


class CuttableProtocol(HttpToolsProtocol):
    """uvicorn's protocol, whose requests know how to cut their connection."""

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self.scope["extensions"] = {_CUT: {"cut": self.transport.abort}}


def cutting(scope: Scope) -> Callable[[], None]:
    """What ends the request's connection at once, dropping what is not written yet."""
    extension = scope.get("extensions", {}).get(_CUT)
    cut: Callable[[], None] = extension["cut"] if extension else _nothing
    return cut


def _nothing() -> None:
    """Leave a connection of another server to that server."""
