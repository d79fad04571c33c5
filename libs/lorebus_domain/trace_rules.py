"""A distiller without any model: fixed rules that read a trace and write what it teaches.

The rule that must not break: the same session always gives the same lessons, and no lesson holds a value of the
trace or of the task; see `error_template` and `trace_steps` for what may be named (SPEC.md section 4).
"""

from typing import Final

from lorebus_domain import policy
from lorebus_domain.distilling import DistillInput, Lesson
from lorebus_domain.fingerprint import fingerprint
from lorebus_domain.trace_errors import error_lessons
from lorebus_domain.trace_steps import steps_of
from lorebus_domain.trace_ways import way_lessons, where_it_stopped

RULES_NAME: Final = "trace-rules"
RULES_VERSION: Final = 1


def distil_by_rules(session: DistillInput) -> tuple[Lesson, ...]:
    """At most 5 lessons, the most important first; often none.

    Importance says how sure the evidence is: 0.7 for an error that changed arguments put right (0.8 if it had
    come before), 0.6 for a dead end, a useless repetition, a repair by other tools or a tool that found what
    another did not, 0.5 for an order that worked or a corrected input, 0.4 and less for what was seen once and
    may have been chance.
    Source: SPEC.md section 4.
    """
    steps, outcome = steps_of(session), session.outcome
    found = [*error_lessons(steps, outcome=outcome), *way_lessons(steps, outcome=outcome)]
    if not found and outcome != "success":
        found.extend(where_it_stopped(steps))
    distinct: dict[bytes, Lesson] = {}
    for lesson in sorted(found, key=lambda lesson: (-lesson.importance, lesson.text)):
        distinct.setdefault(fingerprint(lesson.text), lesson)
    return tuple(distinct.values())[: policy.DISTILL_MAX_LESSONS]
