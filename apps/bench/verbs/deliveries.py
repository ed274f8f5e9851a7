"""The flights of 2013 and the weather, and the orders in which networks deliver them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np
import orjson
import pandas as pd

from bench.workload import Message
from sequitur.flights.movements import Messages, movements, source_table
from sequitur.flights.network import Network
from sequitur.flights.weather import report_messages, weather

END = "END"
"""The aircraft that leaves every airport long after all others, so that all grace is over."""
SKIP = 10
"""Seconds after which what is lost is given up; later than the network's latest."""
_AFTER = timedelta(days=60)
_ISO = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True)
class Delivery:
    """title, how: for the reader. network: None where all arrives in order.

    prompt: whether the network's seconds are the flights' own, not those of the demo's timeline.
    """

    title: str
    how: str = ""
    network: Network | None = None
    prompt: bool = False

    @property
    def loses(self) -> bool:
        """Whether some never arrive."""
        return self.network is not None and self.network.lost > 0


DELIVERIES: Mapping[str, Delivery] = {
    "in order": Delivery("all arrives in order"),
    "late": Delivery(
        "half is later than 2 min, at most 6 h",
        "The lateness is log-normal; nothing is lost, nothing arrives twice.",
        Network(typical=120, cap=6 * 3600, twice=0, lost=0),
        prompt=True,
    ),
    "demo": Delivery(
        "the demo's network",
        "It delivers the year in three minutes, half of it more than 30 ms late and some of it 4 s:"
        " on the flights' own clocks, 84 minutes and 8 days. Nothing is lost, nothing arrives"
        " twice.",
        Network(twice=0, lost=0),
    ),
    "lost": Delivery(
        "the demo's network, which loses 3 in 10,000",
        "A row is right where it is what pandas makes of what arrived. Sequitur gives a gap up"
        f" after {SKIP} s, and says in each row how much is missing before its events.",
        Network(twice=0),
    ),
    "twice": Delivery(
        "the demo's network, and 3% arrive twice",
        "Peers count twice what arrives twice, and they have no verb against it. A lookup is the"
        " same the second time.",
        Network(lost=0),
    ),
}


class Flights:
    """The first `count` movements, and the weather up to the last of them."""

    def __init__(self, count: int) -> None:
        self.table = source_table()
        self.moves = movements(self.table, count)
        reports, last = weather(), self.moves["time"].iloc[-1]
        self.reports = reports[reports["time"] <= last]
        self._messages = Messages(self.table, self.moves)
        self._tails = [tail.encode() for tail in self.moves["tail"]]

    def moved(self, delivery: Delivery) -> Iterator[Message]:
        """The movements' messages as they arrive, keyed by aircraft; behind them the end."""
        for index in self.moves_that_arrive(delivery)["index"].tolist():
            yield self._tails[index], self._messages[index]
        last = orjson.loads(self._messages[len(self._messages) - 1])
        over = self.moves["time"].iloc[-1] + _AFTER
        for number, origin in enumerate(sorted(self.reports["origin"].unique()), 1):
            last |= {"tail": END, "number": number, "kind": "OUT", "origin": origin, "dep_delay": 0}
            last["time"] = f"{over:{_ISO}}"
            yield END.encode(), orjson.dumps(last)

    def reported(self, delivery: Delivery) -> Iterator[Message]:
        """The reports' messages as they arrive, keyed by airport; behind them one of the end each.

        So a join has both its sides until the last departure, and need not wait for either.
        """
        messages, origins = report_messages(self.reports), self.reports["origin"].tolist()
        for index in self.reports_that_arrive(delivery)["index"].tolist():
            yield origins[index].encode(), messages[index]
        over = self.moves["time"].iloc[-1] + 2 * _AFTER
        for origin in sorted(set(origins)):
            last = {"origin": origin, "time": f"{over:{_ISO}}", "wind_speed": None}
            yield origin.encode(), orjson.dumps(last)

    def moves_that_arrive(self, delivery: Delivery) -> pd.DataFrame:
        """In order of arrival: `at` (seconds since the first was sent), and `index` in `moves`."""
        return self._arrivals(delivery, self.moves["time"], 0)

    def reports_that_arrive(self, delivery: Delivery) -> pd.DataFrame:
        """The same of the reports."""
        return self._arrivals(delivery, self.reports["time"], 1)

    def _arrivals(self, delivery: Delivery, times: pd.Series, seed: int) -> pd.DataFrame:
        if delivery.network is None:
            return pd.DataFrame({"at": np.zeros(len(times)), "index": range(len(times))})
        network, of = delivery.network, self.moves["time"]
        seconds = len(of) / network.rate
        if delivery.prompt:
            seconds = (of.iloc[-1] - of.iloc[0]).total_seconds()
        network = replace(network, rate=len(times) / seconds, seed=network.seed + seed)
        return network.travel(times)[0][["at", "index"]]
