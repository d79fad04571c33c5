"""The page `/docs`: the OpenAPI document for people, with all that it needs from this gateway.

The rule that must not break: it works without any other host, and the browser is told to ask none.
"""

from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Route

_PACKAGE: Final = "mkdocs-swagger-ui-tag"
"""Brings the files of Swagger UI (Apache-2.0); nothing else of it is used."""
_ASSETS: Final = {
    "swagger-ui.css": ("stylesheets/swagger-ui.css", "text/css"),
    "swagger-ui-bundle.js": ("javascripts/swagger-ui-bundle.js", "text/javascript"),
}
_START: Final = """\
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#docs",
  deepLinking: true,
  docExpansion: "list",
  validatorUrl: null,
});
"""
_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Lorebus: HTTP</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/{version}/swagger-ui.css">
</head>
<body>
<div id="docs"><noscript>Without JavaScript there is the <a href="openapi.json">document itself</a>.</noscript></div>
<script src="docs/{version}/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""
_CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "content-security-policy": _CONTENT_SECURITY_POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_ASKED_EACH_TIME: Final = {**_HEADERS, "cache-control": "no-cache"}
_KEPT_FOR_GOOD: Final = {**_HEADERS, "cache-control": "public, max-age=31536000, immutable"}


def docs_routes() -> list[Route]:
    """The page and its files; URLs within it are relative, so it may stand behind a proxy's prefix."""
    return [
        Route("/docs", _page),
        Route("/docs/start.js", _start),
        Route("/docs/{version}/{name}", _asset),
    ]


async def _page(_request: Request) -> Response:
    return HTMLResponse(_PAGE.format(version=_version()), headers=_ASKED_EACH_TIME)


async def _start(_request: Request) -> Response:
    return Response(_START, media_type="text/javascript", headers=_ASKED_EACH_TIME)


async def _asset(request: Request) -> Response:
    """A file of Swagger UI; its version is in its path, so that it may be kept."""
    found = _ASSETS.get(request.path_params["name"])
    if found is None or request.path_params["version"] != _version():
        raise HTTPException(404)
    path, media_type = found
    return FileResponse(_folder() / path, media_type=media_type, headers=_KEPT_FOR_GOOD)


@cache
def _version() -> str:
    return version(_PACKAGE)


@cache
def _folder() -> Path:
    return Path(str(files(_PACKAGE.replace("-", "_")) / "swagger-ui"))
