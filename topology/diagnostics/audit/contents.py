"""Do the records say what handlers say? They are run again, and bodies are compared.

After an audit has told what each view has handled, feed the records of its inputs and outputs once
more; then those of the topics that handlers send to.
"""

from collections.abc import Collection, Sequence
from hashlib import blake2b
from typing import Any

import orjson

from topology.diagnostics.audit.audit import Audit
from topology.diagnostics.audit.finding import Place, Violation, place_of
from topology.diagnostics.audit.outputs import alone
from topology.diagnostics.audit.received import numbered
from topology.diagnostics.audit.replay import HandlerReplay
from topology.diagnostics.audit.side_topics import header
from topology.diagnostics.audit.view_partition import ViewPartition
from topology.engine.commit_unit import Out
from topology.engine.output.record_formatter import EPOCH
from topology.model.counted import counted
from topology.model.errors import Malformed, described
from topology.model.event import Event, Message
from topology.model.origin_headers import original
from topology.model.printable import printable

Key = tuple[str, int]
"""(stream, sequence)."""


class _Compared:
    """One view in one partition. made: what its handler says; found: what its records say, with
    their place. Both only until the other is there."""

    def __init__(self, part: ViewPartition) -> None:
        self.part = part
        self.streams, self.left_out = part.handled()
        self.again = HandlerReplay(part.view, self.streams)
        self.made: dict[Key, bytes] = {}
        self.found: dict[Key, tuple[bytes | None, Place]] = {}


class ContentsCheck:
    """audit: one that was fed with everything; it gets the violations that are found here."""

    def __init__(self, audit: Audit) -> None:
        audit.check()
        self._audit = audit
        self._findings = audit.findings
        self._views = {
            (view.name, number): _Compared(part)
            for view in audit.views
            for number, part in audit.partitions_of(view)
        }
        self._outputs = {view.output: view.name for view in audit.views}
        self._inputs = {source.by_stream: source for source in audit.sources}
        self._sent: dict[str, dict[bytes, list[Any]]] = {}
        """Topic → hash of a message → [how often it is to be there, the event it is first of]."""
        self._unsure = False

    @property
    def topics(self) -> Collection[str]:
        """The inputs and outputs of views."""
        return self._outputs.keys() | self._inputs.keys()

    @property
    def sent_to(self) -> Collection[str]:
        """The topics that handlers send to, once inputs and outputs were fed."""
        return self._sent.keys()

    async def feed(self, records: Sequence[Message]) -> None:
        """Records of one partition of an input or output topic, in order."""
        first = records[0]
        name = self._outputs.get(first.topic)
        if name is not None:
            compared = self._views[name, first.partition]
            for record in records:
                self._said(compared, record)
            return
        source = self._inputs[first.topic]
        views = [
            found
            for view in self._audit.views
            if view.of is source and (found := self._views.get((view.name, first.partition)))
        ]
        for record in records:
            try:
                known = numbered(
                    source, record if source.keyed else original(record), record.timestamp
                )
            except Malformed:
                continue
            if known is None:
                continue
            event, number = known
            for each in views:
                split = each.part.view.split
                each.again.event(event if split is None else split([event])[0], number)
        for each in views:
            await self._run(each)

    def sent(self, records: Sequence[Message]) -> None:
        """Records of one partition of a topic that handlers send to."""
        wanted = self._sent[records[0].topic]
        for record in records:
            name = _hash(record.key, record.value, record.headers)
            found = wanted.get(name)
            if found is None:
                found = wanted[name] = [0, place_of(record)]
            elif found[0] == 0:
                found[1] = place_of(record)
            found[0] -= 1

    def finish(self, shortened: Collection[str] = ()) -> None:
        """Say what is missing, and what nobody says. shortened: topics that lack their first
        records."""
        for (name, _), each in self._views.items():
            for key in sorted(each.made) if not each.part.shortened else ():
                self._wrong(each, key, "its handler says row changes, and no record has them")
            for key, (_, place) in sorted(each.found.items()):
                self._wrong(each, key, "its handler says no such row changes", place)
            for stream, _ in each.again.unhandled():
                each.left_out.add(stream)
            if each.left_out:
                self._unsure = True
                self._findings.remark(
                    f"view {name}: contents of {counted(len(each.left_out), 'stream')} not "
                    "compared: their beginning is gone, or what was handled of them is not known"
                )
        for topic, messages in self._sent.items():
            self._unsent(topic, messages, topic in shortened)

    # -- row changes

    def _said(self, each: _Compared, record: Message) -> None:
        try:
            body = orjson.loads(record.value or b"")
            key = body["stream"], body["sequence"]
            epoch, value = int(header(record, EPOCH) or 0), record.value
            numbers = each.streams.get(key[0])
            if numbers is None or each.part.number(key[1]) not in numbers:
                return
            if epoch or each.part.records.outputs.chains[key[0]].epoch:
                if epoch != each.part.records.outputs.chains[key[0]].epoch:
                    return
                value = alone(body, record)
                if value is None:
                    return
        except (ValueError, KeyError, TypeError):
            # The audit itself has counted it.
            return
        if key in each.made:
            self._compare(each, key, each.made.pop(key), value, place_of(record))
        elif not each.again.passed(*self._at(each, key)):
            each.found.setdefault(key, (value, place_of(record)))
        elif self._findings.once:
            self._wrong(each, key, "its handler says no such row changes", place_of(record))

    def _at(self, each: _Compared, key: Key) -> tuple[str, int]:
        return key[0], each.part.number(key[1])

    async def _run(self, each: _Compared) -> None:
        handling = await each.again.run()
        for event, error in handling.broken:
            # In a rebuild it may have failed as well: it stays processed, and its state is kept.
            if each.part.rows.epoch(event.stream):
                continue
            what = f"it was processed, and its handler fails now: {printable(described(error))}"
            self._wrong(each, (event.stream, event.sequence), what)
        for event, value in handling.said:
            key = event.stream, event.sequence
            if key in each.found:
                found, place = each.found.pop(key)
                self._compare(each, key, value, found, place)
            else:
                each.made[key] = value
        for event, sent in handling.messages:
            for topic, messages in sent.items():
                wanted = self._sent.setdefault(topic, {})
                for message in messages:
                    self._send(wanted, each, event, message)

    def _compare(
        self, each: _Compared, key: Key, made: bytes, found: bytes | None, place: Place
    ) -> None:
        if made != found and _sorted(made) != _sorted(found or b"null"):
            what = (
                f"its record says {printable((found or b'').decode('utf-8', 'replace'), 300)}, "
                f"its handler {printable(made.decode(), 300)}"
            )
            self._wrong(each, key, what, place)

    def _wrong(self, each: _Compared, key: Key, what: str, place: Place | None = None) -> None:
        part = each.part
        self._findings.violation(Violation(what, place, part.view.name, *key, part.place))

    # -- messages

    def _send(
        self, wanted: dict[bytes, list[Any]], each: _Compared, event: Event, message: Out
    ) -> None:
        key, value, _, headers = message
        name = _hash(key, value, headers)
        epoch = each.part.rows.epoch(event.stream)
        found = wanted.get(name)
        if found is None:
            found = wanted[name] = [0, None]
        if epoch:
            # In a rebuild only late events send; what was sent before depends on their absence.
            self._unsure = True
            return
        found[0] += 1
        found[1] = each.part.tally.violation(
            "its handler sends a message that is not there", event.stream, event.sequence
        )

    def _unsent(self, topic: str, messages: dict[bytes, list[Any]], shortened: bool) -> None:
        findings = self._findings
        surplus: list[Place] = []
        repeats = 0
        for number, first in messages.values():
            if number > 0 and not shortened and isinstance(first, Violation):
                text = f"{first.what} (topic {topic})"
                findings.violation(
                    Violation(text, None, first.view, first.stream, first.sequence, first.input)
                )
            elif number < 0 and isinstance(first, Place):
                surplus.append(first)
                repeats -= number
        if not surplus:
            return
        others = topic in {t for source in self._audit.sources for t in source.topics}
        sure = findings.once and findings.exact and not self._unsure and not others
        what = f"{counted(repeats, 'message')} in {topic} that no handler sends"
        if sure and len(self._audit.views) == len(self._audit.topology.views):
            findings.violation(Violation(what, min(surplus)))
        else:
            findings.remark(f"{what}; others may have sent them")


def _sorted(value: bytes) -> bytes:
    """A body as JSON, which tells 1 from true and from 1.0."""
    return orjson.dumps(orjson.loads(value), option=orjson.OPT_SORT_KEYS)


def _hash(key: bytes | None, value: bytes | None, headers: Any) -> bytes:
    said = repr((key, value, [(name, each) for name, each in headers]))
    return blake2b(said.encode(), digest_size=12).digest()
