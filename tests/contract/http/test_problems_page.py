"""The page on HTTP names every kind of problem, and the numbers that hold."""

import re
from typing import Final

import pytest

from lorebus_contracts import problems
from lorebus_domain import policy
from lorebus_gateway import idempotency, run_changes, server_sent_events, waiting
from lorebus_gateway.administration import SHOWN_OF_A_PRUNE
from lorebus_kit.retention import IDEMPOTENCY_KEPT
from lorebus_store.idempotency import GIVEN_UP_AFTER
from tests.contract.golden_files import ROOT

PAGE: Final = (ROOT / "docs" / "architecture" / "http.md").read_text(encoding="utf-8")
FLOWING: Final = " ".join(PAGE.split())
ROW: Final = re.compile(r"^\| `([a-z-]+)` \| (\d{3}) \| (.+) \| (.+) \|$", re.MULTILINE)


def test_the_table_has_every_kind_of_problem_in_the_order_of_the_code_and_no_other() -> None:
    told = [(name, int(status)) for name, status, _, _ in ROW.findall(PAGE)]

    assert told == [(kind.name, kind.status) for kind in problems.KINDS]
    assert all(when.strip() and what.strip() for _, _, when, what in ROW.findall(PAGE))


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (idempotency.WAIT_SECONDS, "waits up to 5 s for its answer"),
        (idempotency.MAX_KEPT_BYTES / 1_048_576, "answers of 1 MiB at most"),
        (IDEMPOTENCY_KEPT.days, "for 7 days, under a hash"),
        (GIVEN_UP_AFTER.total_seconds(), "did not answer within 60 s"),
        (waiting.LONGEST_WAIT_SECONDS, "N is at most 30;"),
        (server_sent_events.HEARTBEAT_SECONDS, "A comment every 15 s"),
        (run_changes.FIRST_LOOK_SECONDS * 1_000, "first after 20 ms"),
        (run_changes.LONGEST_LOOK_SECONDS * 1_000, "every 250 ms at most"),
        (policy.LIST_PER_PAGE_MAX, "1 to 100 (20)"),
        (policy.LIST_QUERY_WORDS, "1 to 10 words"),
        (SHOWN_OF_A_PRUNE, "the first 100 that would go"),
        (policy.MAX_JSON_DEPTH, "| nesting | 64 levels"),
        (policy.MAX_ENTRIES_PER_SAVE, "| entries of a save | 1 to 100 |"),
        (policy.MAX_TEXT_CHARS / 1_000, "| text of an entry | 10 000 code points |"),
        (policy.MAX_TASK_CHARS / 1_000, "| task, cue | 100 000 code points |"),
        (policy.MAX_PRINCIPAL_REF_CHARS, "| 512 characters"),
    ],
)
def test_the_numbers_of_the_page_are_those_of_the_code(number: float, sentence: str) -> None:
    assert sentence in FLOWING
    assert re.search(rf"\b{number:g}\b", sentence)
