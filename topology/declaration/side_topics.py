"""The topics for what ends apart from the views' outputs, which all views of a topology share."""


class SideTopics:
    """Their names. A subclass says of which topology they are."""

    __slots__ = ()

    @property
    def _prefix(self) -> str:
        """The topology's name."""
        raise NotImplementedError

    @property
    def malformed_topic(self) -> str:
        return f"{self._prefix}.malformed"

    @property
    def unknown_topic(self) -> str:
        return f"{self._prefix}.unknown"

    @property
    def late_topic(self) -> str:
        return f"{self._prefix}.late"

    @property
    def errors_topic(self) -> str:
        return f"{self._prefix}.errors"

    @property
    def parked_topic(self) -> str:
        return f"{self._prefix}.parked"

    @property
    def dead_topic(self) -> str:
        return f"{self._prefix}.dead"

    @property
    def audit_topic(self) -> str:
        return f"{self._prefix}.audit"

    @property
    def clock_topic(self) -> str:
        """Where the broker tells its time; what is written there means nothing."""
        return f"{self._prefix}.clock"

    @property
    def side_topics(self) -> tuple[str, ...]:
        """All of them; each has one partition."""
        return (
            self.malformed_topic,
            self.unknown_topic,
            self.late_topic,
            self.errors_topic,
            self.parked_topic,
            self.dead_topic,
            self.audit_topic,
        )
