"""How often rules fire in a process, and how often a second lately."""

from topology.routing import RuleSet

MOST = 200
"""Rules of which it is told, those that fired most: a heartbeat is to be small."""


class RuleRates:
    """Counts of rules over all versions, and their rates from one question to the next."""

    def __init__(self) -> None:
        self._total: dict[str, int] = {}
        self._seen: dict[str, int] = {}
        self._rules: RuleSet | None = None
        self._asked: float | None = None

    def of(self, rules: RuleSet, now: float) -> dict[str, tuple[int, float]]:
        """Rule → (how often it fired, how often a second since the last question).

        Args:
            rules: of now. What an earlier version counted after the last question is not told.
            now: seconds of a clock that does not jump.
        """
        if rules is not self._rules:
            self._rules, self._seen = rules, {}
        fired, seconds = rules.fired, 0.0 if self._asked is None else now - self._asked
        new = {name: count - self._seen.get(name, 0) for name, count in fired.items()}
        self._seen, self._asked = fired, now
        # Of a rule that is no more it is not told.
        self._total = {name: self._total.get(name, 0) + count for name, count in new.items()}
        most = sorted(fired, key=lambda name: -self._total[name])[:MOST]
        return {
            name: (self._total[name], round(new[name] / seconds, 3) if seconds > 0 else 0.0)
            for name in most
        }
