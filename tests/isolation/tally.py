"""What a run did and saw, in numbers."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.isolation.canaries import Leak


@dataclass(slots=True)
class Tally:
    """Operations by kind, statuses of answers, and canaries that were shown to those who may see them."""

    operations: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    own: int = 0
    loads_with_own: int = 0
    answers: int = 0
    answered_bytes: int = 0
    tail_pieces: int = 0
    """Pieces of live tails, which are among the answers."""

    unsettled: int = 0
    """Runs that did not end in time before everything was looked at."""

    findings: list[Leak | str] = field(default_factory=list)
    """All that must not be: leaks, and in words what was answered where a refusal had to be, or what quoted a text."""

    first_leak_after: int | None = None
    """How many operations had been done when the first leak was seen."""

    @property
    def done(self) -> int:
        """All operations."""
        return self.operations.total()

    @property
    def leaks(self) -> list[Leak]:
        """What was shown to the wrong asker."""
        return [finding for finding in self.findings if isinstance(finding, Leak)]

    @property
    def foreign(self) -> list[Leak]:
        """Leaks out of another organization."""
        return [leak for leak in self.leaks if leak.crosses_organizations]

    def add(self, findings: Iterable[Leak | str]) -> None:
        """Keep what must not be."""
        for finding in findings:
            if isinstance(finding, Leak) and self.first_leak_after is None:
                self.first_leak_after = self.done
            self.findings.append(finding)
