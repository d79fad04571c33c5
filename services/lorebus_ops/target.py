"""Which gateway a command asks, and with whose credential."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from lorebus_ops.errors import StackError
from lorebus_ops.home import LocalInfo

URL_VARIABLE: Final = "LOREBUS_URL"
KEY_VARIABLE: Final = "LOREBUS_API_KEY"
TOKEN_VARIABLE: Final = "LOREBUS_TOKEN"  # noqa: S105 - A variable's name.
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True)
class Target:
    """The gateway to ask, and the value of the `Authorization` header."""

    url: str
    authorization: str


def find_target(environment: Mapping[str, str], local: LocalInfo | None) -> Target:
    """The gateway that the environment names, else the running local stack's, whose key is given to no other.

    Raises:
        StackError: there is none, or it is not clear by which credential to ask; the text says what to do.
    """
    url, key, token = (environment.get(name, "") for name in (URL_VARIABLE, KEY_VARIABLE, TOKEN_VARIABLE))
    if key and token:
        raise StackError(f"give {KEY_VARIABLE} or {TOKEN_VARIABLE}, not both: they open different tools")
    if not url and local is None:
        raise StackError(f"no local stack is up here; start it with `lorebus up`, or give {URL_VARIABLE}")
    if not url and local is not None:
        url, key = local.gateway_url, key or ("" if token else local.api_key)
    if not (key or token):
        raise StackError(f"{URL_VARIABLE} needs {KEY_VARIABLE} or {TOKEN_VARIABLE} with it")
    return Target(url.rstrip("/"), f"Agent {token}" if token else f"Bearer {key}")


def is_here(url: str) -> bool:
    """Whether an address is of this machine, to which no proxy of the environment leads."""
    return urlsplit(url).hostname in _LOOPBACK
