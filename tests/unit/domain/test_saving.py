"""Planning and folding a save (SPEC.md section 3)."""

from collections import Counter
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebus_domain.fingerprint import fingerprint
from lorebus_domain.saving import (
    Entry,
    EntrySkip,
    FoldedEntry,
    KeptEntry,
    SaveSkip,
    SkippedEntry,
    fold,
    plan_save,
    save_gate,
)
from lorebus_domain.terms import terms
from lorebus_domain.text import clean, normal_form
from lorebus_domain.visibility import Actor, Caller, EndUser, MemoryScope, NoCaller
from tests.unit.domain.examples import any_text, case_texts, importances

SHARED = MemoryScope(UUID(int=1), UUID(int=2), None)
ANN = MemoryScope(UUID(int=1), UUID(int=2), "ann")
BOB = MemoryScope(UUID(int=1), UUID(int=2), "bob")


def kept_of(*entries: Entry) -> tuple[KeptEntry, ...]:
    return plan_save(entries).kept


def entries_of(texts: list[str]) -> list[Entry]:
    return [Entry(text, 0.5) for text in texts]


def test_a_kept_entry_has_its_text_its_identity_and_its_terms() -> None:
    plan = plan_save([Entry("Check the backup.", 0.7)])

    assert plan.kept == (
        KeptEntry(
            position=0,
            text="Check the backup.",
            importance=0.7,
            fingerprint=fingerprint("check the backup"),
            terms=("check", "backu"),
        ),
    )
    assert plan.skipped == ()


def test_low_importance_and_empty_texts_are_skipped_each_with_its_reason() -> None:
    plan = plan_save(
        [Entry("kept", 0.1), Entry("low", 0.0999), Entry("...", 0.5), Entry("kept too", 1.0), Entry("-", 0.0)]
    )

    assert [(entry.position, entry.text) for entry in plan.kept] == [(0, "kept"), (3, "kept too")]
    assert plan.skipped == (
        SkippedEntry(1, EntrySkip.LOW_IMPORTANCE),
        SkippedEntry(2, EntrySkip.EMPTY_TEXT),
        SkippedEntry(4, EntrySkip.LOW_IMPORTANCE),
    )


@pytest.mark.parametrize("importance", [float("nan"), float("inf"), -0.1, 1.1])
def test_an_importance_outside_0_to_1_is_refused(importance: float) -> None:
    with pytest.raises(ValueError, match=r"an importance is in \[0, 1\]"):
        Entry("text", importance)


def test_four_scripts_are_four_rows() -> None:
    kept = kept_of(*entries_of(case_texts("c01")))

    assert len(kept) == 4
    assert len(fold((SHARED, entry) for entry in kept)) == 4


def test_texts_without_a_normal_form_are_skipped() -> None:
    plan = plan_save(entries_of(case_texts("c02")))

    assert plan.kept == ()
    assert [skipped.reason.value for skipped in plan.skipped] == ["empty_text"] * 4


def test_composed_and_decomposed_accents_are_one_row_stored_composed() -> None:
    (row,) = fold((SHARED, entry) for entry in kept_of(*entries_of(case_texts("c03"))))

    assert row.text == "Réservé café"
    assert row.occurrences == 2


def test_a_nul_and_half_an_emoji_harm_neither_their_entry_nor_the_others() -> None:
    plan = plan_save(entries_of(["disk\0full", "ship \ud83d it", "🚀 stays"]))

    assert [entry.text for entry in plan.kept] == ["diskfull", "ship \ufffd it", "🚀 stays"]


def test_the_same_text_twice_is_one_row_with_the_first_text_and_the_highest_importance() -> None:
    kept = kept_of(Entry("Use CamelCase", 0.3), Entry("use  camelcase.", 0.9), Entry("USE CAMELCASE", 0.4))

    assert fold((SHARED, entry) for entry in kept) == (
        FoldedEntry(
            scope=SHARED,
            fingerprint=fingerprint("use camelcase"),
            text="Use CamelCase",
            importance=0.9,
            occurrences=3,
            terms=("use", "camel", "case"),
        ),
    )


def test_the_same_text_of_two_people_and_of_nobody_is_three_rows_with_the_pool_first() -> None:
    (entry,) = kept_of(Entry("prefers aisle seats", 0.5))

    rows = fold([(BOB, entry), (SHARED, entry), (ANN, entry)])

    assert [(row.scope, row.occurrences) for row in rows] == [(SHARED, 1), (ANN, 1), (BOB, 1)]


def test_nothing_kept_is_no_row() -> None:
    assert fold([]) == ()


entries_to_save = st.lists(st.builds(Entry, any_text, importances), max_size=8)


@given(entries_to_save)
def test_every_entry_is_kept_or_skipped_once_and_planning_its_result_changes_nothing(
    entries: list[Entry],
) -> None:
    plan = plan_save(entries)

    positions = [entry.position for entry in plan.kept] + [entry.position for entry in plan.skipped]
    assert sorted(positions) == list(range(len(entries)))
    again = plan_save([Entry(entry.text, entry.importance) for entry in plan.kept])
    assert [(e.text, e.fingerprint, e.terms) for e in again.kept] == [
        (e.text, e.fingerprint, e.terms) for e in plan.kept
    ]


@given(st.lists(st.tuples(st.sampled_from([SHARED, ANN, BOB]), entries_to_save), max_size=6))
def test_rows_are_sorted_unique_and_count_every_save(saves: list[tuple[MemoryScope, list[Entry]]]) -> None:
    kept = [(scope, entry) for scope, entries in saves for entry in plan_save(entries).kept]

    rows = fold(kept)

    keys = [(row.scope.sort_key(), row.fingerprint) for row in rows]
    assert keys == sorted(set(keys))
    counted = Counter((scope, normal_form(entry.text)) for scope, entry in kept)
    assert {(row.scope, normal_form(row.text)): row.occurrences for row in rows} == counted
    for row in rows:
        assert row.terms == terms(row.text)
        assert row.text == clean(row.text)
        assert row.importance == max(
            entry.importance
            for scope, entry in kept
            if (scope, entry.fingerprint) == (row.scope, row.fingerprint)
        )


@pytest.mark.parametrize(
    ("organization_enabled", "config_enabled", "caller", "skip"),
    [
        (True, True, NoCaller(), None),
        (True, True, EndUser("u1"), None),
        (True, True, Actor("a1"), None),
        (False, True, NoCaller(), SaveSkip.MEMORY_DISABLED),
        (True, False, NoCaller(), SaveSkip.MEMORY_DISABLED),
        (True, True, EndUser(None), SaveSkip.UNIDENTIFIED_END_USER),
        (False, True, EndUser(None), SaveSkip.MEMORY_DISABLED),
    ],
)
def test_a_save_writes_nothing_when_memory_is_off_or_nobody_is_identified(
    *, organization_enabled: bool, config_enabled: bool, caller: Caller, skip: SaveSkip | None
) -> None:
    gate = save_gate(organization_enabled=organization_enabled, config_enabled=config_enabled, caller=caller)

    assert gate is skip


def test_the_reasons_are_named_as_the_specification_says() -> None:
    assert [reason.value for reason in EntrySkip] == ["low_importance", "empty_text"]
    assert [reason.value for reason in SaveSkip] == [
        "memory_disabled",
        "unidentified_end_user",
        "unknown_agent_config",
        "erased",
    ]
