"""A view's output topic: in sequence per stream and epoch; a hash of what each stream said."""

from collections import OrderedDict
from collections.abc import Collection, Mapping
from hashlib import blake2b
from typing import Any

import orjson

from topology.declaration.view import View
from topology.diagnostics.audit.finding import Findings, Place, Violation
from topology.diagnostics.audit.side_topics import header
from topology.engine.output.output_chain import START, OutputChain, chained
from topology.model.event import Message
from topology.view_rebuild.stream_rebuild import CLEARED

REMEMBERED = 50_000
"""At least once: records per partition with which repeats are compared."""


class Outputs:
    """The outputs of a view in one partition. chains: stream → what it said.

    backward: stream → the places where its sequences went back, which a dropped stream may.
    """

    def __init__(self, view: View, findings: Findings) -> None:
        self.view = view
        self.findings = findings
        self.chains: dict[str, OutputChain] = {}
        self.backward: dict[str, list[Violation]] = {}
        self.repeats = 0
        self._recent: OrderedDict[tuple[str, tuple[int, int]], bytes] = OrderedDict()

    def add(
        self, stream: str, sequence: int, record: Message, epoch: int, body: Mapping[str, Any]
    ) -> bool:
        """A record; whether it is a new one, no repeat. body: the record's value, decoded."""
        value = record.value or b""
        chain = self.chains.get(stream, START)
        if sequence > chain[1] and not epoch and not chain[3] and self.findings.once:
            self.chains[stream] = chained(chain, sequence, value)
            return True
        at = epoch, sequence
        if not self.findings.once:
            said = blake2b(value, digest_size=8).digest()
            if at <= chain.at:
                self._again(stream, at, said, record)
                return False
            self._recent[stream, at] = said
            if len(self._recent) > REMEMBERED:
                self._recent.popitem(last=False)
        elif at <= chain.at:
            again = "comes a second time" if at == chain.at else "comes too late"
            before = f"sequence {chain.last}"
            if epoch or chain.epoch:
                before += f" of epoch {chain.epoch}"
            wrong = Violation(
                f"it {again}: the record before it in the output topic has {before}",
                Place(record.topic, record.partition, record.offset),
                self.view.name,
                stream,
                sequence,
            )
            self.backward.setdefault(stream, []).append(wrong)
        if epoch > chain.epoch:
            chain = OutputChain(0, START.last, START.hash, epoch)
        said_alone = alone(body, record) if epoch else value
        if said_alone is None:
            self.chains[stream] = OutputChain(chain.records, sequence, chain.hash, epoch)
            return True
        self.chains[stream] = chained(chain, sequence, said_alone)._replace(epoch=epoch)
        return True

    def _again(self, stream: str, at: tuple[int, int], said: bytes, record: Message) -> None:
        """At least once, a record that comes again after a crash."""
        before = self._recent.get((stream, at))
        if before == said:
            self.repeats += 1
        elif self.view.gap.skips or before is None:
            self.repeats += 1
            self.findings.remark(
                f"view {self.view.name}: outputs came again that could not be compared, or that "
                "differ since a gap was skipped before a crash"
            )
        else:
            self.findings.violation(
                Violation(
                    "it comes again after a crash, and says something else",
                    Place(record.topic, record.partition, record.offset),
                    self.view.name,
                    stream,
                    at[1],
                )
            )

    def check(self, drops: Mapping[str, int], anew: Collection[str]) -> None:
        """Say where the order is broken. drops: stream → how often it was dropped. anew: streams
        that may have begun again after they were closed and forgotten."""
        for stream, places in self.backward.items():
            if stream not in anew and len(places) > drops.get(stream, 0):
                for violation in places:
                    self.findings.violation(violation)


def alone(said: Mapping[str, Any], record: Message) -> bytes | None:
    """What a record of a rebuilt stream says by itself: without its epoch, and without what it
    clears of the epoch before; None if that is nothing."""
    body = {name: value for name, value in said.items() if name != "epoch"}
    body["changes"] = body["changes"][int(header(record, CLEARED) or 0) :]
    return orjson.dumps(body) if body["changes"] else None
