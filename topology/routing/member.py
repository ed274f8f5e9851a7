"""One process of a router: what it loads, what pauses, and which rules route a partition."""

from dataclasses import dataclass

from topology.model.errors import DeclarationError
from topology.model.printable import printable
from topology.routing.agreement import Agreement, ControlRecord, Failed, Loaded, Proposal
from topology.routing.formats import Endpoint
from topology.routing.rule_set import RuleSet


@dataclass(frozen=True, slots=True)
class Load:
    """What the process is to load now.

    Attributes:
        version: the number that the rules get.
        stale: the keymaps to load again; the others are taken from the version before.
        rules: the configuration to load; None to take that of the version before.
        fresh: whether everything is to be loaded, not the stale keymaps alone.
        endpoints: what is registered.
    """

    version: int
    stale: frozenset[str]
    rules: str | None
    fresh: bool = True
    endpoints: tuple[Endpoint, ...] = ()


class Member:
    """A process that takes part in a router. It is told of records and of what was loaded.

    The log of control records is read in order, from its beginning or from a copy of `agreement`.
    A partition's position is committed together with the version that routed it, and whoever has
    the partition gives that version to `rules_for`. Then, in each partition, all messages before
    one offset are routed by the old version and all from there by the new one, whichever processes
    have it. There is no such point over several partitions: each switches when its process reads
    the decision, which is in the log only when all processes have loaded the version.

    Args:
        process: its name, new with every start.
        agreement: what the log says up to where it is read from.
    """

    def __init__(self, process: str, agreement: Agreement | None = None) -> None:
        self.process = process
        self.agreement = agreement or Agreement()
        self._current: RuleSet | None = None
        self._next: RuleSet | None = None

    @property
    def current(self) -> RuleSet | None:
        """The rules that are decided and loaded; None until this process has loaded them."""
        rules = self._current
        at = self.agreement
        return rules if rules is not None and rules.number == at.version else None

    def read(self, record: ControlRecord) -> Load | None:
        """Take the next record of the log.

        Args:
            record: it.

        Returns:
            What is to be loaded now, and answered by `loaded` or `failed`; None if nothing.
        """
        before = self.agreement
        self.agreement = at = before.after(record)
        if at.version != before.version:
            self._current = self._kept(self._next, at.version)
            self._next = None
        opened = at.proposal is not None and at.proposal.version != (
            before.proposal.version if before.proposal else 0
        )
        return self.wanted() if opened or at.version != before.version else None

    def wanted(self) -> Load | None:
        """Say what this process has to load to go on; also after a start."""
        at = self.agreement
        open_: Proposal | None = at.proposal
        if open_ is not None:
            have = self._next is not None and self._next.number == open_.version
            own = tuple(open_.endpoints.values())
            return None if have else Load(open_.version, open_.stale, open_.rules, open_.fresh, own)
        if at.version and self.current is None:
            own = tuple(at.endpoints.values())
            return Load(at.version, frozenset(), at.rules, True, own)
        return None

    def loaded(self, rules: RuleSet) -> Loaded | None:
        """Take what was loaded.

        Args:
            rules: the version, with the number that `Load` names.

        Returns:
            The record to write to the log; None if it is not proposed any more.

        Raises:
            DeclarationError: it is the decided version, but has other content than was decided.
        """
        at = self.agreement
        if at.proposal is not None and rules.number == at.proposal.version:
            self._next = rules
            return Loaded(self.process, rules.number, rules.digest)
        if rules.number == at.version:
            if rules.digest != at.digest:
                raise DeclarationError(
                    f"rules, version {at.version}: the tables have changed since it was decided; "
                    "declare the changed keymaps stale, so that all processes load them"
                )
            self._current = rules
        return None

    def answer(self) -> Loaded | None:
        """Say again that the proposed version is loaded, if the log has not counted that."""
        open_, rules = self.agreement.proposal, self._next
        if open_ is None or rules is None or rules.number != open_.version:
            return None
        return None if self.process in open_.loaded else self.loaded(rules)

    def failed(self, version: int, reason: str) -> Failed | None:
        """Say that a version could not be loaded.

        Args:
            version: as `Load` names it.
            reason: why.

        Returns:
            The record to write to the log; None if it is not proposed any more.
        """
        open_ = self.agreement.proposal
        if open_ is None or open_.version != version:
            return None
        return Failed(self.process, version, printable(reason, 300))

    def paused(self) -> frozenset[str]:
        """Name the source topics that wait, as a keymap that their rules use is stale."""
        open_, rules = self.agreement.proposal, self.current
        return frozenset() if open_ is None or rules is None else rules.using(open_.stale)

    def rules_for(self, topic: str, version: int) -> RuleSet | None:
        """Give the rules for a partition's next messages.

        Args:
            topic: the source topic.
            version: that the partition's position was committed with last, 0 if none was.

        Returns:
            The rules; None while the partition has to wait: for a keymap, for these rules to be
            loaded, or until this process has read of the version that others route by already.
        """
        rules = self.current
        if rules is None or rules.number < version or topic in self.paused():
            return None
        return rules

    def _kept(self, rules: RuleSet | None, version: int) -> RuleSet | None:
        if rules is None or rules.number != version or rules.digest != self.agreement.digest:
            return None
        return rules
