"""What else may go wrong with the movements: garbage, other messages, and handlers that fail.

Made up, from a seed, as the network is. Beside the movements a station sends messages that break
off (malformed) and weather reports (unknown); some movements bear a fault, on which the handler of
view `aircraft` fails.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import orjson
import pandas as pd

from sequitur.flights.network import Delivery
from sequitur.flights.topology import FAULT, WEATHER


@dataclass(frozen=True)
class Disorder:
    """Shares of the movements: for each, how likely there is a broken message or a weather report
    beside it, and how likely it bears a fault.
    """

    malformed: float = 0.0
    unknown: float = 0.0
    faults: float = 0.0
    seed: int = 2013

    def add(self, messages: Sequence[bytes], delivery: Delivery) -> "Disordered":
        """The messages and their delivery, with what else is sent among them."""
        random, count = np.random.default_rng([self.seed, 1]), len(messages)
        broken = np.flatnonzero(random.random(count) < self.malformed)
        weather = np.flatnonzero(random.random(count) < self.unknown)
        faulty = random.random(count) < self.faults
        beside = [messages[index][: len(messages[index]) // 2] for index in broken.tolist()]
        beside += [
            WEATHER + orjson.dumps(int(temperature)) + b"}"
            for temperature in random.integers(-15, 35, len(weather))
        ]
        more = pd.DataFrame(
            {
                "at": random.random(len(beside)) * delivery.seconds,
                "index": np.arange(count, count + len(beside)),
                "station": np.where(random.random(len(beside)) < 0.5, "EWR-A", "JFK-B"),
                "copy": False,
            }
        )
        arrivals = pd.concat([delivery.arrivals, more]) if beside else delivery.arrivals
        arrivals = arrivals.sort_values("at", kind="stable", ignore_index=True)
        return Disordered(
            Spoiled(messages, faulty, beside),
            Delivery(arrivals, delivery.lost),
            len(broken),
            len(weather),
            faulty & ~delivery.lost,
        )


@dataclass(frozen=True)
class Disordered:
    """What is sent. malformed, unknown: how many of these there are. faulty: per movement, whether
    it bears a fault and arrives.
    """

    messages: "Spoiled"
    delivery: Delivery
    malformed: int
    unknown: int
    faulty: np.ndarray

    def planted(self, moves: pd.DataFrame) -> dict[str, int]:
        """What has to be found of it: each a number of messages or of events of one view.

        skipped: movements that are lost, with a later one of the same aircraft that is not: else
        nobody can know.
        """
        arrived = moves["number"].where(~self.delivery.lost, 0)
        known = moves["number"] < arrived.groupby(moves["tail"]).transform("max")
        return {
            "read": len(self.delivery.arrivals),
            "malformed": self.malformed,
            "unknown": self.unknown,
            "duplicate": self.delivery.copies,
            "failed": int(self.faulty.sum()),
            "skipped": int((self.delivery.lost & known).sum()),
        }


class Spoiled(Sequence[bytes]):
    """The movements' messages, some with a fault, and behind them what is sent beside them."""

    def __init__(
        self, messages: Sequence[bytes], faulty: np.ndarray, beside: Sequence[bytes]
    ) -> None:
        self._messages = messages
        self._faulty = faulty
        self._beside = beside

    def __len__(self) -> int:
        return len(self._messages) + len(self._beside)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index >= len(self._messages):
            return self._beside[index - len(self._messages)]
        message = self._messages[index]
        return b'{"%s":true,%s' % (FAULT.encode(), message[1:]) if self._faulty[index] else message
