"""The two kinds of evidence for a lesson.

The rule that must not break: a session that gives back what it was handed is no second witness.
"""

from enum import StrEnum


class EvidenceKind(StrEnum):
    """`own`: a session learnt the lesson by itself; `echo`: it had recalled it before."""

    OWN = "own"
    ECHO = "echo"
