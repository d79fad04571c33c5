"""Who sees whose memory (SPEC.md section 6)."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebus_domain.visibility import (
    Actor,
    Caller,
    CallerKind,
    EndUser,
    MemoryScope,
    NoCaller,
    ReadScope,
    Writable,
    can_see,
    check_principal_ref,
    read_scope,
    resolve_caller,
    write_scope,
)

ONE = UUID(int=1)
TWO = UUID(int=2)

# References that prefixes, patterns and joined keys have confused elsewhere.
LOOKALIKES = [
    *["user1", "user10", "user1-x", "ann_lee", "ann-lee", "a%b", "a\\b", "a_b"],
    *["b:c", "org:a:b", "c", "a|b", "a&b", "a=b", "a.b", " bob ", "Bob", "bob", "é", "e\u0301"],
]
refs = st.one_of(st.sampled_from(LOOKALIKES), st.text(min_size=1, max_size=8)).filter(
    lambda ref: bool(ref.strip()) and "\0" not in ref
)
principals = st.one_of(st.none(), refs)


@pytest.mark.parametrize("blank", [None, "", " ", "   ", "\t\n", "\u3000\u00a0"])
def test_a_blank_reference_is_no_principal(blank: str | None) -> None:
    assert resolve_caller(CallerKind.NONE, blank) == NoCaller()
    assert resolve_caller(CallerKind.END_USER, blank) == EndUser(None)
    with pytest.raises(ValueError, match="'actor' needs a reference"):
        resolve_caller(CallerKind.ACTOR, blank)


@pytest.mark.parametrize("ref", LOOKALIKES)
def test_a_reference_is_never_altered(ref: str) -> None:
    assert resolve_caller(CallerKind.END_USER, ref) == EndUser(ref)
    assert resolve_caller(CallerKind.ACTOR, ref) == Actor(ref)
    assert check_principal_ref(ref) == ref


def test_a_reference_without_a_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="kind 'none' has no reference"):
        resolve_caller(CallerKind.NONE, "bob")


@pytest.mark.parametrize("kind", list(CallerKind))
@pytest.mark.parametrize("ref", ["a\0b", "\0", "a\ud83d", "\udfff", "x" * 513, " " * 513])
def test_a_malformed_reference_is_refused_for_every_kind(kind: CallerKind, ref: str) -> None:
    with pytest.raises(ValueError, match="principal reference"):
        resolve_caller(kind, ref)


def test_a_reference_may_have_512_characters() -> None:
    assert check_principal_ref("😀" * 512) == "😀" * 512
    with pytest.raises(ValueError, match="at most 512 characters, not 513"):
        check_principal_ref("😀" * 513)


@pytest.mark.parametrize("ref", ["", "  ", "a\0", "x" * 513])
def test_no_caller_can_be_made_around_the_rules(ref: str) -> None:
    with pytest.raises(ValueError, match="reference"):
        EndUser(ref)
    with pytest.raises(ValueError, match="reference"):
        Actor(ref)


@pytest.mark.parametrize(
    ("caller", "reads", "writes"),
    [
        (NoCaller(), ReadScope(None, shared=True), Writable(None)),
        (EndUser("u1"), ReadScope("u1", shared=False), Writable("u1")),
        (EndUser(None), None, None),
        (Actor("a1"), ReadScope("a1", shared=True), Writable("a1")),
    ],
)
def test_a_caller_reads_and_writes_what_the_table_says(
    caller: Caller, reads: ReadScope | None, writes: Writable | None
) -> None:
    assert read_scope(caller) == reads
    assert write_scope(caller) == writes


@pytest.mark.parametrize(
    ("caller", "sees"),
    [
        (NoCaller(), {None}),
        (EndUser("user1"), {"user1"}),
        (EndUser(None), set()),
        (Actor("user1"), {None, "user1"}),
        (EndUser("a%b"), {"a%b"}),
        (Actor("ann_lee"), {None, "ann_lee"}),
        (EndUser("bob"), {"bob"}),
        (EndUser(" bob "), {" bob "}),
    ],
)
def test_comparison_is_equality_only(caller: Caller, sees: set[str | None]) -> None:
    assert {principal for principal in [None, "", " ", *LOOKALIKES] if can_see(caller, principal)} == sees


@given(refs, principals)
def test_an_end_user_never_sees_a_foreign_entry(ref: str, principal_ref: str | None) -> None:
    assert can_see(EndUser(ref), principal_ref) is (principal_ref == ref)


@given(principals)
def test_an_unidentified_end_user_sees_nothing(principal_ref: str | None) -> None:
    assert not can_see(EndUser(None), principal_ref)


@given(refs, principals)
def test_an_actor_sees_its_own_and_the_shared_pool_only(ref: str, principal_ref: str | None) -> None:
    assert can_see(Actor(ref), principal_ref) is (principal_ref is None or principal_ref == ref)


@given(principals)
def test_a_session_for_nobody_sees_the_shared_pool_only(principal_ref: str | None) -> None:
    assert can_see(NoCaller(), principal_ref) is (principal_ref is None)


@given(st.one_of(st.builds(NoCaller), st.builds(EndUser, principals), st.builds(Actor, refs)))
def test_whoever_may_write_sees_what_it_wrote(caller: Caller) -> None:
    writable = write_scope(caller)

    assert writable is None or can_see(caller, writable.principal_ref)


def test_scopes_sort_by_organization_config_and_principal_with_the_pool_first() -> None:
    scopes = [
        MemoryScope(TWO, ONE, None),
        MemoryScope(ONE, TWO, "a"),
        MemoryScope(ONE, TWO, ""),
        MemoryScope(ONE, ONE, "b"),
        MemoryScope(ONE, TWO, None),
        MemoryScope(ONE, ONE, "a:b"),
    ]

    assert sorted(scopes, key=MemoryScope.sort_key) == [
        MemoryScope(ONE, ONE, "a:b"),
        MemoryScope(ONE, ONE, "b"),
        MemoryScope(ONE, TWO, None),
        MemoryScope(ONE, TWO, ""),
        MemoryScope(ONE, TWO, "a"),
        MemoryScope(TWO, ONE, None),
    ]


@given(
    st.builds(MemoryScope, st.sampled_from([ONE, TWO]), st.sampled_from([ONE, TWO]), principals), st.data()
)
def test_two_scopes_sort_the_same_only_when_they_are_the_same(
    scope: MemoryScope, data: st.DataObject
) -> None:
    other = data.draw(
        st.builds(MemoryScope, st.just(scope.organization_uuid), st.sampled_from([ONE, TWO]), principals)
    )

    assert (scope.sort_key() == other.sort_key()) is (scope == other)
