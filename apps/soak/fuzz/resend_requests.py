"""Requests to send again: each is answered, or is told to be none; never more than is bounded."""

import asyncio

from hypothesis import strategies as st

from sequitur.relay.answers import AT_ONCE, RANGE, Answering, Known
from sequitur.relay.kafka_link import KafkaLink
from sequitur.relay.link import MissingRange
from sequitur.relay.records import missing_of
from soak.fuzz.inbox_requests import fresh
from soak.fuzz.mutation import bodies
from stores.outbox.capture import Outbox
from stores.outbox.log import MessageLog
from stores.outbox.message import Draft
from stores.outbox.retention import RetentionStore

_ASKED = {"stream": "A-17", "first": 1, "last": 5}
_VIEW = {"view": "board", "commands": "shop.board.commands", "partition": 0}
_SAMPLES = (
    _ASKED,
    {**_ASKED, **_VIEW},
    {**_ASKED, **_VIEW, "view": "other", "commands": "shop.other.commands"},
    {**_ASKED, "last": 2**63 - 1},
)


class ResendRequests:
    """Some requests to a relay whose log has, keeps, voids and lost messages of a stream."""

    name = "resend-requests"

    def __init__(self) -> None:
        self._link = KafkaLink("fuzz", {}, views=["shop.board"])

    def strategy(self) -> st.SearchStrategy[list[bytes | None]]:
        """Bodies of requests, changed."""
        return st.lists(bodies(_SAMPLES), min_size=1, max_size=6)

    def run(self, input: list[bytes | None]) -> None:
        """All that is asked is looked up, and nobody but the named view gets commands."""
        engine, log = fresh(self.name), MessageLog()
        log.create(engine)
        kept = RetentionStore(engine, log, 600)
        with engine.begin() as connection:
            kept.make(connection)
            Outbox(log).capture_many(connection, [Draft("orders", "A-17", None, b"x")] * 6)
            gone = [m.id for m in log.read_stream(connection, "orders", "A-17", 0, 3)]
            kept.keep(connection, gone[1:])
            log.delete(connection, gone)
            log.declare_void(connection, "orders", "A-17", 4, 4, "for the test")
        answering, asked, refused = Answering(engine, log, kept), set[MissingRange](), [""]
        for body in input:
            try:
                missing = missing_of("orders", body)
            except ValueError as error:
                refused.append(str(error))
                continue
            asked.add(missing)
            answering.ask([missing])
        assert max(map(len, refused)) < 1000
        looked = answering.look()
        assert not answering.asked
        assert {each for each, _ in looked} == asked
        asyncio.run(self._tell(looked))

    async def _tell(self, looked: list[tuple[MissingRange, Known]]) -> None:
        for each, known in looked:
            voids = known.voids
            assert sum(last - first + 1 for first, last in voids) <= RANGE <= AT_ONCE
            for first, last in voids:
                for answer in await self._link.void(each, first, last):
                    assert answer.topic in ("shop.board.commands", "orders.void")
                    assert isinstance(answer.value, bytes)
