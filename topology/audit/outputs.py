"""A view's output topic: in sequence per stream, no repeats; a hash of what each stream said."""

from collections import OrderedDict
from hashlib import blake2b
from typing import NamedTuple

from topology.audit.finding import Findings, Place, Violation
from topology.event import Message
from topology.policies import Skip
from topology.view import View

REMEMBERED = 50_000
"""At least once: records per partition with which repeats are compared."""


class Chain(NamedTuple):
    """A stream's outputs so far: how many, the last sequence, and the hash of all in order."""

    records: int
    last: int
    hash: bytes


START = Chain(0, -(2**63) - 1, bytes(8))


def chained(chain: Chain, sequence: int, value: bytes) -> Chain:
    """The chain with one more record."""
    link = blake2b(b"%s%d " % (chain.hash, sequence), digest_size=8)
    link.update(value)
    return Chain(chain.records + 1, sequence, link.digest())


class Outputs:
    """The outputs of a view in one partition. chains: stream → what it said.

    backward: stream → the places where its sequences went back, which a dropped stream may.
    """

    def __init__(self, view: View, findings: Findings) -> None:
        self.view = view
        self.findings = findings
        self.chains: dict[str, Chain] = {}
        self.backward: dict[str, list[Violation]] = {}
        self.repeats = 0
        self._ordered = view.lane is None and view.closing is None
        """Lanes have sequences of their own, and a closed stream may begin again."""
        self._recent: OrderedDict[tuple[str, int], bytes] = OrderedDict()

    def add(self, stream: str, sequence: int, record: Message) -> bool:
        """A record; whether it is a new one, no repeat."""
        value = record.value or b""
        chain = self.chains.get(stream, START)
        if not self._ordered:
            pass
        elif not self.findings.once:
            said = blake2b(value, digest_size=8).digest()
            if sequence <= chain.last:
                self._again(stream, sequence, said, record)
                return False
            self._recent[stream, sequence] = said
            if len(self._recent) > REMEMBERED:
                self._recent.popitem(last=False)
        elif sequence <= chain.last:
            again = "comes a second time" if sequence == chain.last else "comes too late"
            wrong = Violation(
                f"it {again}: the record before it in the output topic has sequence {chain.last}",
                Place(record.topic, record.partition, record.offset),
                self.view.name,
                stream,
                sequence,
            )
            self.backward.setdefault(stream, []).append(wrong)
            if sequence == chain.last:
                return False
        self.chains[stream] = chained(chain, sequence, value)
        return True

    def _again(self, stream: str, sequence: int, said: bytes, record: Message) -> None:
        """At least once, a record that comes again after a crash."""
        before = self._recent.get((stream, sequence))
        if before == said:
            self.repeats += 1
        elif isinstance(self.view.gap, Skip) or before is None:
            self.repeats += 1
            self.findings.remark(
                f"view {self.view.name}: outputs came again that could not be compared, or that "
                "differ as a gap was given up before a crash"
            )
        else:
            self.findings.violation(
                Violation(
                    "it comes again after a crash, and says something else",
                    Place(record.topic, record.partition, record.offset),
                    self.view.name,
                    stream,
                    sequence,
                )
            )

    def check(self, drops: dict[str, int]) -> None:
        """Say where the order is broken. drops: stream → how often it was dropped."""
        for stream, places in self.backward.items():
            if len(places) > drops.get(stream, 0):
                for violation in places:
                    self.findings.violation(violation)
