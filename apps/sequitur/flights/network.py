"""A simulated radio network between the aircraft and Kafka. The disorder is made up; it says so.

The movements are real, the table does not say how their messages travelled. So this draws it, from
a seed: lateness has a heavy tail (log-normal, capped), a few per cent of the messages are heard by
both ground stations of the airport and arrive twice, a few in ten thousand are never heard.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Delivery:
    """What the network made of the movements.

    arrivals: a row per message that arrives, in order of arrival: `at` (seconds since the timeline
    began), `index` (the movement's place in the frame it was made from), `station` (who heard it),
    `copy` (whether it is the second of two). lost: a boolean per movement.
    """

    arrivals: pd.DataFrame
    lost: np.ndarray

    @property
    def copies(self) -> int:
        """How many of the arrivals are a message's second one."""
        return int(self.arrivals["copy"].sum())

    @cached_property
    def seconds(self) -> float:
        """The length of the timeline, up to the last arrival."""
        return float(self.arrivals["at"].max()) if len(self.arrivals) else 0.0

    def overtaken(self, moves: pd.DataFrame) -> int:
        """Count the messages that arrive after a later one of the same aircraft."""
        first = self.arrivals[~self.arrivals["copy"]]["index"].to_numpy()
        numbers = moves["number"].take(first)
        highest = numbers.groupby(moves["tail"].take(first)).cummax()
        return int((numbers < highest).sum())


@dataclass(frozen=True)
class Network:
    """The simulation's figures. Times are seconds of the timeline.

    The timeline is the flights' own calendar, pressed together evenly until `rate` movements take
    a second on average. Lateness is log-normal: half of the messages are later than `typical`,
    `spread` is the standard deviation of its logarithm, and `cap` the most there is. `twice` and
    `lost` are the probabilities of a message to arrive twice and not at all.
    """

    seed: int = 2013
    rate: float = 3500.0
    typical: float = 0.03
    spread: float = 1.4
    cap: float = 4.0
    twice: float = 0.03
    lost: float = 0.0003

    def deliver(self, table: pd.DataFrame, moves: pd.DataFrame) -> Delivery:
        """Draw how each of `moves` travels; the same seed and movements give the same delivery."""
        arrivals, lost = self.travel(moves["time"])
        arrivals["station"] = self._stations(table, moves, arrivals)
        return Delivery(arrivals, lost)

    def travel(self, times: pd.Series) -> tuple[pd.DataFrame, np.ndarray]:
        """Draw how messages of these times travel: (arrivals as of a `Delivery`, lost).

        Stations are 0 and 1 here.
        """
        random, count = np.random.default_rng(self.seed), len(times)
        reported = self._timeline(times)
        lost = random.random(count) < self.lost
        twice = (random.random(count) < self.twice) & ~lost
        heard = np.flatnonzero(~lost)
        again = np.flatnonzero(twice)

        station = random.integers(2, size=count)
        at = reported[heard] + self._lateness(random, len(heard))
        at_again = reported[again] + self._lateness(random, len(again))
        arrivals = pd.DataFrame(
            {
                "at": np.concatenate([at, at_again]),
                "index": np.concatenate([heard, again]),
                "station": np.concatenate([station[heard], 1 - station[again]]),
            }
        ).sort_values("at", kind="stable", ignore_index=True)
        arrivals["copy"] = arrivals["index"].duplicated()
        return arrivals, lost

    def __str__(self) -> str:
        return (
            f"simulated, seed {self.seed}: half of the messages are later than "
            f"{self.typical * 1000:g} ms, the latest {self.cap:g} s; "
            f"{self.twice:.1%} arrive twice, {self.lost * 10_000:g} in 10,000 never"
        )

    def _timeline(self, times: pd.Series) -> np.ndarray:
        """Return each movement's place on the timeline, in seconds."""
        if len(times) < 2:
            return np.zeros(len(times))
        since = (times - times.iloc[0]).dt.total_seconds().to_numpy()
        return np.asarray(since * (len(times) / self.rate / max(since[-1], 1.0)))

    def _lateness(self, random: np.random.Generator, count: int) -> np.ndarray:
        drawn = self.typical * random.lognormal(0.0, self.spread, count)
        return np.minimum(drawn, self.cap)

    @staticmethod
    def _stations(table: pd.DataFrame, moves: pd.DataFrame, arrivals: pd.DataFrame) -> pd.Series:
        """Name the stations: two at each airport, A and B."""
        heard = moves.iloc[arrivals["index"].to_numpy()]
        flown = table.iloc[heard["flight_id"].to_numpy() - 1]
        leaves = heard["kind"].to_numpy() == "OUT"
        airport = np.where(leaves, flown["origin"].to_numpy(), flown["dest"].to_numpy())
        letter = arrivals["station"].map({0: "-A", 1: "-B"})
        return pd.Series(airport, index=arrivals.index) + letter
