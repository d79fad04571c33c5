"""The shared vectors, cases and lessons, typed, and the texts that the property tests draw."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypedDict
from uuid import UUID

from hypothesis import strategies as st

from lorebus_domain.fingerprint import fingerprint
from lorebus_domain.ranking import Candidate
from lorebus_domain.terms import terms

DATA: Final = Path(__file__).parents[2] / "data"
NOW: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)


class FingerprintVector(TypedDict):
    input: str
    cleaned: str
    normal_form: str
    fingerprint: str | None
    outcome: str


class RelevanceVector(TypedDict):
    name: str
    cue: str
    entries: list[str]
    relevance: list[float]


class TermsVector(TypedDict):
    text: str
    terms: list[str]


class RelevanceVectors(TypedDict):
    relevance: list[RelevanceVector]
    terms: list[TermsVector]


class Lesson(TypedDict):
    id: str
    text: str


class Task(TypedDict):
    cue: str
    relevant: list[str]


class Lessons(TypedDict):
    lessons: list[Lesson]
    tasks: list[Task]


@dataclass(frozen=True, slots=True)
class Memory:
    """An entry with its text, of which a pack sees only a candidate."""

    text: str
    importance: float = 0.5
    created_at: datetime = NOW

    def candidate(self, number: int) -> Candidate:
        return Candidate(
            memory_id=UUID(int=number),
            fingerprint=fingerprint(self.text),
            text_chars=len(self.text),
            importance=self.importance,
            created_at=self.created_at,
            terms=" ".join(terms(self.text)),
        )


def fingerprint_vectors() -> list[FingerprintVector]:
    vectors: list[FingerprintVector] = json.loads((DATA / "vectors" / "fingerprint.json").read_text("utf-8"))
    return vectors


def relevance_vectors() -> RelevanceVectors:
    vectors: RelevanceVectors = json.loads((DATA / "vectors" / "relevance.json").read_text("utf-8"))
    return vectors


def lessons() -> Lessons:
    found: Lessons = json.loads((DATA / "lessons.json").read_text("utf-8"))
    return found


def case_texts(case_id: str) -> list[str]:
    """The texts of the entries of one case in `cases.json`."""
    cases = json.loads((DATA / "cases.json").read_text("utf-8"))
    (case,) = (case for case in cases if case["id"] == case_id)
    return [entry["text"] for entry in case["input"]["entries"]]


# Any code point that Python can hold, lone surrogates and U+0000 included, and more of those that rules name.
ODD_CHARACTERS: Final = (
    "\0\ud83d\ude80 \t\n\u00a0\u3000\u200b\u200d\ufe0f.;:,-_aAsSzZ09éÉßİıŁΣσςǰ\u030c\u0301"
)
SCRIPTS: Final = "上海庫かカーﾊﾟ한글ㅎไทยລາວမြန်ខ្មែរالكِتَابהַשָׁלוֹםहिन्दीЖйЁ🚀👍🏽🇩🇪ﬁ½Ⓐ"
any_text: Final = st.text(
    st.one_of(st.sampled_from(ODD_CHARACTERS + SCRIPTS), st.characters(exclude_categories=())), max_size=40
)
instants: Final = st.datetimes(datetime(2025, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  Hypothesis takes naive bounds.
importances: Final = st.one_of(st.sampled_from([0.0, 0.1, 0.5, 1.0]), st.floats(0, 1))
