"""`/docs` shows the OpenAPI document, and nothing that it loads comes from anywhere else."""

import re
from typing import Final
from urllib.parse import urljoin, urlsplit

import httpx
import pytest

from tests.support.gateways import Asking

URL: Final = re.compile(r"""(?:href|src)=["']([^"']*)["']""")
KINDS: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
}
POLICY: Final = {
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
}


async def page(gateway: Asking) -> httpx.Response:
    answer = await gateway.client.get("/docs")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return answer


async def loaded(gateway: Asking) -> dict[str, httpx.Response]:
    """All that the page names, by its path."""
    names = [name for name in URL.findall((await page(gateway)).text) if name != "data:,"]
    return {name: await gateway.client.get(urljoin("/docs", name)) for name in names}


async def test_everything_that_the_page_names_is_answered_by_the_gateway_itself(gateway: Asking) -> None:
    answers = await loaded(gateway)

    assert not [name for name in answers if urlsplit(name).netloc or urlsplit(name).scheme]
    assert {name.rpartition("/")[2] for name in answers} == {
        "swagger-ui.css",
        "swagger-ui-bundle.js",
        "start.js",
        "openapi.json",
    }
    for name, answer in answers.items():
        assert answer.status_code == 200, name
        assert answer.headers["content-type"] == KINDS[name.rpartition(".")[2]], name


async def test_the_browser_is_told_to_ask_no_other_host(gateway: Asking) -> None:
    answers = [await page(gateway), *(await loaded(gateway)).values()]

    told = [answer.headers.get("content-security-policy") for answer in answers]
    assert [set(policy.split("; ")) for policy in told if policy is not None] == [POLICY] * 4
    assert [
        urlsplit(str(answer.url)).path for answer, policy in zip(answers, told, strict=True) if not policy
    ] == ["/openapi.json"]


async def test_nothing_that_is_loaded_loads_from_another_host(gateway: Asking) -> None:
    answers = {name.rpartition("/")[2]: answer.text for name, answer in (await loaded(gateway)).items()}

    style = answers["swagger-ui.css"]
    assert {url.strip("\"'").partition(":")[0] for url in re.findall(r"url\(([^)]*)\)", style)} == {"data"}
    assert "@import" not in style
    assert not re.search(r"""importScripts\(|\.src\s*=\s*["']https?:""", answers["swagger-ui-bundle.js"])
    # Swagger UI would have the document judged by a service of its makers.
    assert "validatorUrl: null" in answers["start.js"]
    assert "http" not in answers["start.js"]


async def test_scripts_stand_in_files_of_their_own(gateway: Asking) -> None:
    text = (await page(gateway)).text

    assert re.findall(r"<script(?![^>]*\bsrc=)", text) == []
    assert re.findall(r"<style|\bstyle=|\bon\w+=", text) == []


async def test_files_with_a_version_in_their_path_are_kept_and_the_rest_is_asked_for_each_time(
    gateway: Asking,
) -> None:
    answers = {"page": await page(gateway)} | await loaded(gateway)

    told = {name.rpartition("/")[2]: answer.headers.get("cache-control") for name, answer in answers.items()}
    assert told == {
        "page": "no-cache",
        "start.js": "no-cache",
        "openapi.json": None,
        "swagger-ui.css": "public, max-age=31536000, immutable",
        "swagger-ui-bundle.js": "public, max-age=31536000, immutable",
    }


@pytest.mark.parametrize(
    "path", ["/docs/", "/docs/0.0.0/swagger-ui.css", "/docs/0.8.1/plugin.py", "/docs/0.8.1/..%2fplugin.py"]
)
async def test_there_is_nothing_else(gateway: Asking, path: str) -> None:
    answer = await gateway.client.get(path)

    assert (answer.status_code, answer.json()["type"]) == (404, "urn:lorebus:problem:not-found")
