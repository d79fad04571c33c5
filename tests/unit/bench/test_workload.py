"""The work that everything measured does."""

from tests.bench.workload import CONFIGS, PRINCIPALS, cues, new_memories, save_work


def test_the_same_seed_is_the_same_work() -> None:
    assert save_work(memories=50, per_post=5, seed=3) == save_work(memories=50, per_post=5, seed=3)


def test_another_seed_shares_no_text() -> None:
    texts = [{one.text for one in new_memories(50, seed=seed)} for seed in (1, 2)]
    assert texts[0].isdisjoint(texts[1])


def test_one_in_five_repeats_a_text_of_its_scope() -> None:
    work = save_work(memories=20_000, per_post=100, seed=1)
    assert (len(work.posts), work.memories) == (200, 20_000)
    assert 0.19 < 1 - work.distinct / work.memories < 0.21


def test_distinct_counts_the_rows_that_must_be_there() -> None:
    work = save_work(memories=4_000, per_post=1, seed=2)
    rows = {(of.config, of.principal, one.text) for of in work.posts for one in of.memories}
    assert len(rows) == work.distinct


def test_the_work_is_spread_over_all_scopes() -> None:
    work = save_work(memories=2_000, per_post=1, seed=1)
    assert len({(of.config, of.principal) for of in work.posts}) == CONFIGS * PRINCIPALS


def test_a_memory_has_about_200_characters() -> None:
    lengths = [len(one.text) for one in new_memories(200, seed=1)]
    assert min(lengths) >= 190
    assert max(lengths) <= 200


def test_cues_are_words_of_real_lessons() -> None:
    assert [len(cue.split()) for cue in cues(3, seed=1)] == [12, 12, 12]
