"""Every number and fixed text of the product, each once, beside the section of SPEC.md it comes from.

The rule that must not break: no other module holds such a number. Code reads `policy.NAME`; tests and
documents repeat the value literally, so that a change here is seen there.
"""

from typing import Final

# Section 2: settings of an agent config before anybody has set them.
DEFAULT_MAX_ENTRIES: Final = 10_000

# Section 3: saving.
DEFAULT_IMPORTANCE: Final = 0.5
MIN_IMPORTANCE: Final = 0.1
MAX_PRINCIPAL_REF_CHARS: Final = 512
# Section 3, step 3: the characters that a normal form has at neither end.
NORMAL_FORM_STRIP: Final = " .;:,-"

# Section 4: distilling.
DISTILL_MIN_STEPS: Final = 2
DISTILL_MAX_TOOL_CALLS: Final = 25
DISTILL_MAX_LESSONS: Final = 5
# ARCHITECTURE.md, "Distill never calls a model inside a consumer": attempts are counted at the claim.
DISTILL_MAX_ATTEMPTS: Final = 5
# Section 4 asks for "a stated length" of each call's input and of its output. 25 calls with two texts of
# 2 000 code points each are at most 100 000 code points, which fits the context of the usual models.
DISTILL_CALL_TEXT_CHARS: Final = 2_000
# A session that waits for its organization's budget of model calls is skipped when it ended this long ago: what it
# teaches has been overtaken, and a budget that is always too small must not grow a queue without end.
DISTILL_BUDGET_WAIT_DAYS: Final = 3
# A task is part of the same prompt; real ones are longer than that only where they quote whole documents.
DISTILL_TASK_CHARS: Final = 10_000

# Section 5: recall.
TOP_K_DEFAULT: Final = 10
TOP_K_MIN: Final = 1
TOP_K_MAX: Final = 1_000
FULL_LIMIT: Final = 1_000
TEXT_SEPARATOR: Final = "\n---\n"

# Section 5: pack.
PACK_HEADING: Final = "## Recalled memory (ranked for this task)"
PACK_HEADER: Final = PACK_HEADING + "\n\n"
PACK_NEWEST_CANDIDATES: Final = 250
PACK_IMPORTANT_CANDIDATES: Final = 250
# RELEVANCE.md, "Which candidates": what `memory_pack_reach = all` adds, where a scope holds more entries than
# the two limits above take together.
PACK_REACH_CANDIDATES: Final = 250
PACK_REACH_ABOVE_ENTRIES: Final = PACK_NEWEST_CANDIDATES + PACK_IMPORTANT_CANDIDATES
# The first 16 and the last 16 distinct terms of a cue.
PACK_REACH_TERMS_PER_END: Final = 16
PACK_BUDGET_CHARS: Final = 20_000
PACK_WEIGHT_RELEVANCE: Final = 0.60
PACK_WEIGHT_IMPORTANCE: Final = 0.25
PACK_WEIGHT_RECENCY: Final = 0.15
PACK_HALF_LIFE_DAYS: Final = 30.0
PACK_SCORE_DECIMALS: Final = 9

# RELEVANCE.md, "Formula": K(e) = SATURATION * (DAMPING_BASE + DAMPING_SLOPE * |e| / mean|e|), and the floor
# ln(1 + n) / FLOOR_DIVISOR under the best raw value.
RELEVANCE_SATURATION: Final = 0.9
RELEVANCE_DAMPING_BASE: Final = 0.6
RELEVANCE_DAMPING_SLOPE: Final = 0.4
RELEVANCE_FLOOR_DIVISOR: Final = 1.9

# RELEVANCE.md, "Terms".
TERM_MAX_RUN_CHARS: Final = 128
TERM_WORD_CHARS: Final = 5

# Section 5, labels: a rating of at least this much is a success.
RATING_SUCCESS_MIN: Final = 0.5

# Section 7: ARCHITECTURE.md, "Prune": how many entries one delete takes at most.
PRUNE_CHUNK: Final = 1_000

# Section 8: limits at the edge.
MAX_BODY_BYTES: Final = 1_048_576
MAX_TEXT_CHARS: Final = 10_000
MAX_ENTRIES_PER_SAVE: Final = 100
# A session's task is not a memory text: real ones are longer than 10 000 code points, and refusing one would
# lose the session's lessons. This bound only keeps an event well under what a broker takes.
MAX_TASK_CHARS: Final = 100_000
# Deeper JSON than any client of ours sends, and far from where a parser's recursion ends.
MAX_JSON_DEPTH: Final = 64
LIST_PER_PAGE_DEFAULT: Final = 20
LIST_PER_PAGE_MAX: Final = 100
# A listing's `q` is looked for in every text of the config: what it costs grows with its words.
LIST_QUERY_CHARS: Final = 200
LIST_QUERY_WORDS: Final = 10
