"""How the processes of a router agree on a version of the rules: a fold over one ordered log."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from topology.model.printable import printable


@dataclass(frozen=True, slots=True)
class Joined:
    """A process of the router began.

    Args:
        process: its name, new with every start.
    """

    process: str


@dataclass(frozen=True, slots=True)
class Left:
    """A process ended, or was found dead by whoever watches it.

    Args:
        process: its name.
    """

    process: str


@dataclass(frozen=True, slots=True)
class Propose:
    """All processes are to load a next version.

    Args:
        stale: keymaps to load again; sources that use them pause meanwhile.
        rules: which configuration to load, in the words of whoever loads it; None to keep it.
    """

    stale: frozenset[str] = frozenset()
    rules: str | None = None


@dataclass(frozen=True, slots=True)
class Loaded:
    """A process has a version in memory.

    Args:
        process: its name.
        version: the version.
        digest: of its content.
    """

    process: str
    version: int
    digest: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A process could not load a version.

    Args:
        process: its name.
        version: the version.
        reason: why.
    """

    process: str
    version: int
    reason: str


ControlRecord = Joined | Left | Propose | Loaded | Failed
"""What the log has: a process came or went, asks for tables, has loaded a version, or could not."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A version that is to be loaded.

    Attributes:
        version: its number.
        stale: the keymaps to load again.
        rules: the configuration.
        loaded: process → the digest of what it loaded.
    """

    version: int
    stale: frozenset[str]
    rules: str | None
    loaded: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Agreement:
    """What the log says up to a point; the same in every process that has read up to there.

    Attributes:
        version: of the rules that are decided, 0 before the first.
        digest: of their content.
        rules: which configuration they are.
        highest: the highest version that was ever proposed; numbers are not used twice.
        proposal: the version that is being loaded, None if none is.
        processes: who takes part.
        refused: why the last proposal came to nothing, None if it did not.
    """

    version: int = 0
    digest: str = ""
    rules: str | None = None
    highest: int = 0
    proposal: Proposal | None = None
    processes: frozenset[str] = frozenset()
    refused: str | None = None

    def after(self, record: ControlRecord) -> "Agreement":
        """Return the agreement after the next record of the log.

        Args:
            record: it; one that is about another version than the proposed one changes nothing.
        """
        match record:
            case Joined(process):
                return replace(self, processes=self.processes | {process})._decided()
            case Left(process):
                return replace(self, processes=self.processes - {process})._decided()
            case Propose(stale, rules):
                return self._proposed(stale, rules)
            case Loaded(process, version, digest):
                open_ = self.proposal
                if open_ is None or open_.version != version or process not in self.processes:
                    return self
                loaded = MappingProxyType({**open_.loaded, process: digest})
                return replace(self, proposal=replace(open_, loaded=loaded))._decided()
            case Failed(process, version, reason):
                open_ = self.proposal
                if open_ is None or open_.version != version or process not in self.processes:
                    return self
                why = f"{printable(process)} could not load it: {printable(reason, 300)}"
                return self._refused(why)

    def _proposed(self, stale: frozenset[str], rules: str | None) -> "Agreement":
        # What is being loaded may have been read before this notice: it begins again, with both.
        before = self.proposal
        if before is not None:
            stale, rules = stale | before.stale, rules or before.rules
        proposal = Proposal(self.highest + 1, stale, rules or self.rules)
        return replace(self, highest=proposal.version, proposal=proposal, refused=None)

    def _decided(self) -> "Agreement":
        open_ = self.proposal
        if open_ is None or not self.processes or not self.processes <= open_.loaded.keys():
            return self
        digests = {open_.loaded[process] for process in self.processes}
        if len(digests) > 1:
            return self._refused("the processes loaded different tables; load them once more")
        return replace(
            self, version=open_.version, digest=digests.pop(), rules=open_.rules, proposal=None
        )

    def _refused(self, why: str) -> "Agreement":
        assert self.proposal is not None
        kept = f"version {self.version} stays" if self.version else "there is none before it"
        why = f"version {self.proposal.version} is refused, {kept}: {why}"
        return replace(self, proposal=None, refused=why)
