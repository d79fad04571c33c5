import pytest

from tests.isolation.canaries import Asker, Ledger, Owner, may_see

SHARED = Owner("o1", "c1", None)
ANNS = Owner("o1", "c1", "ann")
NOBODYS = Owner("o1", "c1", None, nobodys=True)


@pytest.mark.parametrize(
    ("asker", "sees"),
    [
        (Asker("o1", "c1", "none"), {SHARED}),
        (Asker("o1", "c1", "end_user", "ann"), {ANNS}),
        (Asker("o1", "c1", "end_user", "Ann"), set()),
        (Asker("o1", "c1", "end_user"), set()),
        (Asker("o1", "c1", "actor", "ann"), {SHARED, ANNS}),
        (Asker("o1", "c1", "actor", "bob"), {SHARED}),
        (Asker("o1", "c2", "actor", "ann"), set()),
        (Asker("o2", "c1", "actor", "ann"), set()),
        (Asker("o1", None, "organization"), {SHARED, ANNS, NOBODYS}),
        (Asker("o1", "c2", "organization"), set()),
        (Asker("o2", None, "organization"), set()),
        (Asker("o1", "c1", "principal", "ann"), {ANNS}),
        (Asker("o1", "c1", "principal"), {SHARED}),
    ],
)
def test_an_asker_may_see_what_the_table_says(asker: Asker, sees: set[Owner]) -> None:
    assert {owner for owner in (SHARED, ANNS, NOBODYS) if may_see(asker, owner)} == sees


def test_a_foreign_canary_is_a_leak_unless_the_asker_sent_it() -> None:
    ledger = Ledger()
    own, foreign, sent = ledger.mint(ANNS), ledger.mint(SHARED), ledger.mint(NOBODYS)
    asker = Asker("o1", "c1", "end_user", "ann")
    found = ledger.found(f'{{"memory": "{own} and {foreign} and {sent}"}}'.encode())

    (leak,) = ledger.leaks("load", asker, found, sent={sent.encode()})

    assert (leak.place, leak.owner, leak.crosses_organizations) == ("load", SHARED, False)


def test_canaries_are_words_of_letters_alone_and_none_comes_twice() -> None:
    ledger = Ledger()

    words = [ledger.mint(SHARED) for _ in range(30)]

    assert words[:2] == ["cnryaaaaaaaa", "cnryaaaaaaab"]
    assert words[27] == "cnryaaaaaabb"
    assert len(set(words)) == 30
