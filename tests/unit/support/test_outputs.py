import logging

import pytest

from tests.support.outputs import CANARY, LogSearch, Outputs

KEY = "lrb_" + "k3Y-" * 11
TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f"kept {CANARY} for later", "a memory text"),
        (f'{{"action": "minted", "token": "{TOKEN}"}}', "a session token"),
        (f"Authorization: Bearer {KEY}", "an API key"),
    ],
)
def test_what_nobody_may_say_is_found_and_not_told_again(text: str, what: str) -> None:
    outputs = Outputs()

    outputs.search("the log of gateway", f"all is well\n{text}\n")

    (finding,) = outputs.findings()
    assert finding.startswith(f"{what} in the log of gateway, after ")
    assert not any(secret in finding for secret in (CANARY, KEY, TOKEN))
    assert outputs.findings() == []


@pytest.mark.parametrize(
    "text", ["", "the key lrb_k3Y-k3Y- (its prefix)", "canary", "eyJ is how tokens begin"]
)
def test_what_anybody_may_say_is_not_found(text: str) -> None:
    outputs = Outputs()

    outputs.search("a log", text)

    assert outputs.findings() == []
    assert outputs.searched == len(text)


def test_a_finding_tells_what_stands_before_it_without_another_secret() -> None:
    outputs = Outputs()

    outputs.search("a log", f'before\n{{"action": "saved", "by": "{KEY}", "text": "{CANARY}"}}')

    # Of several things of one sort in one text the first is told.
    texts, keys = outputs.findings()
    assert texts.endswith('"text": "\'')
    assert keys.endswith('"action": "saved", "by": "\'')
    assert KEY not in texts


def test_what_the_product_logs_here_is_searched_as_a_service_would_write_it() -> None:
    outputs = Outputs()
    log = logging.getLogger("lorebus_tests_of_outputs")
    log.addHandler(handler := LogSearch(outputs))
    log.propagate = False
    try:
        log.warning("entry kept", extra={"entry_text": f"likes {CANARY}"})
    finally:
        log.removeHandler(handler)

    (finding,) = outputs.findings()
    assert finding.startswith("a memory text in the log of lorebus_tests_of_outputs, ")
