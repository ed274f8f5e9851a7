"""How the processes of a router agree on a version of the rules: a fold over one ordered log."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import get_args

from topology.model.printable import printable
from topology.routing.formats import Endpoint
from topology.routing.trail import Detail


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
        stale: keymaps to load again; sources that use them pause meanwhile. None of them: all
            that there is, while messages are routed by what is there.
        rules: which configuration to load, in the words of whoever loads it; None to keep it.
        above: a version that was used already; the next one is higher.
        who: says so.
        why: in that one's words.
    """

    stale: frozenset[str] = frozenset()
    rules: str | None = None
    above: int = 0
    who: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Register:
    """An endpoint reads a destination from the next version on.

    Args:
        endpoint: it, in place of another of its name.
        who: says so.
        why: in that one's words.
    """

    endpoint: Endpoint
    who: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Unregister:
    """An endpoint reads nothing from the next version on.

    Args:
        endpoint: its name.
        who: says so.
        why: in that one's words.
        session: of a listener that has expired; if it is registered anew since, it stays.
    """

    endpoint: str
    who: str = ""
    why: str = ""
    session: str = ""


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


@dataclass(frozen=True, slots=True)
class Trace:
    """From now on, trails of messages are written.

    Args:
        detail: how much they tell: `"none"`, `"fired"` or `"all"`.
        every: of so many offsets one.
        who: says so.
        why: in that one's words.

    Raises:
        ValueError: a value is wrong.
    """

    detail: Detail = "none"
    every: int = 1
    who: str = ""
    why: str = ""

    def __post_init__(self) -> None:
        if self.detail not in get_args(Detail) or self.every < 1:
            raise ValueError(f"detail {printable(self.detail)!r}, every {self.every}")


@dataclass(frozen=True, slots=True)
class Release:
    """A stream that is parked is to be routed again, from its first message on.

    Args:
        topic: that the stream is read from.
        partition: its number there.
        stream: as what is parked names it.
        offset: of the first message that is parked.
        without: whether that message goes to the malformed topic instead, if it still is the first.
        who: says so.
        why: in that one's words.
    """

    topic: str
    partition: int
    stream: str
    offset: int
    without: bool = False
    who: str = ""
    why: str = ""


ControlRecord = Joined | Left | Propose | Register | Unregister | Trace | Release | Loaded | Failed
"""What the log has: a process came or went, somebody asks for a version, or registers what reads
one, or wants trails, or lets a parked stream go, and a process has loaded a version, or could
not."""
_NO_ENDPOINTS: Mapping[str, Endpoint] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Proposal:
    """A version that is to be loaded.

    Attributes:
        version: its number.
        stale: the keymaps to load again.
        rules: the configuration.
        fresh: whether everything is to be loaded, not the stale keymaps alone.
        endpoints: name → what is registered.
        loaded: process → the digest of what it loaded.
    """

    version: int
    stale: frozenset[str]
    rules: str | None
    fresh: bool
    endpoints: Mapping[str, Endpoint]
    loaded: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Agreement:
    """What the log says up to a point; the same in every process that has read up to there.

    Attributes:
        version: of the rules that are decided, 0 before the first.
        digest: of their content.
        rules: which configuration they are.
        endpoints: name → what is registered.
        highest: the highest version that was ever proposed; numbers are not used twice.
        proposal: the version that is being loaded, None if none is.
        processes: who takes part.
        refused: why the last proposal came to nothing, None if it did not.
        trace: which trails are written.
    """

    version: int = 0
    digest: str = ""
    rules: str | None = None
    endpoints: Mapping[str, Endpoint] = field(default_factory=lambda: _NO_ENDPOINTS)
    highest: int = 0
    proposal: Proposal | None = None
    processes: frozenset[str] = frozenset()
    refused: str | None = None
    trace: Trace = Trace()

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
            case Propose(stale, rules, above):
                return self._proposed(stale, rules, fresh=not stale, above=above)
            case Register(endpoint):
                return self._proposed(endpoints={**self._registered, endpoint.name: endpoint})
            case Trace():
                return replace(self, trace=record)
            case Release():
                return self
            case Unregister(name, session=session):
                own = getattr(self._registered.get(name), "listening", None)
                if session and (own is None or own.session != session):
                    return self
                kept = {own: each for own, each in self._registered.items() if own != name}
                return self._proposed(endpoints=kept)
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

    @property
    def _registered(self) -> Mapping[str, Endpoint]:
        return self.endpoints if self.proposal is None else self.proposal.endpoints

    def _proposed(
        self,
        stale: frozenset[str] = frozenset(),
        rules: str | None = None,
        *,
        fresh: bool = False,
        above: int = 0,
        endpoints: Mapping[str, Endpoint] | None = None,
    ) -> "Agreement":
        # What is being loaded may have been read before this notice: it begins again, with both.
        before = self.proposal
        if before is not None:
            stale, rules, fresh = stale | before.stale, rules or before.rules, fresh or before.fresh
        kept = self._registered if endpoints is None else MappingProxyType(dict(endpoints))
        version = max(self.highest, above) + 1
        proposal = Proposal(version, stale, rules or self.rules, fresh, kept)
        return replace(self, highest=version, proposal=proposal, refused=None)

    def _decided(self) -> "Agreement":
        open_ = self.proposal
        if open_ is None or not self.processes or not self.processes <= open_.loaded.keys():
            return self
        digests = {open_.loaded[process] for process in self.processes}
        if len(digests) > 1:
            return self._refused("the processes loaded different tables; load them once more")
        return replace(
            self,
            version=open_.version,
            digest=digests.pop(),
            rules=open_.rules,
            endpoints=open_.endpoints,
            proposal=None,
        )

    def _refused(self, why: str) -> "Agreement":
        assert self.proposal is not None
        kept = f"version {self.version} stays" if self.version else "there is none before it"
        why = f"version {self.proposal.version} is refused, {kept}: {why}"
        return replace(self, proposal=None, refused=why)
