"""What each site publishes: the movements of the flights that leave from its airport."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from sequitur.flights.movements import Messages, movements, source_table

AIRPORTS = {"newark": "EWR", "kennedy": "JFK", "laguardia": "LGA"}

Movement = tuple[str, int]
"""An aircraft, and which of its movements."""


@dataclass(frozen=True)
class Traffic:
    """The movements of each site, of all aircraft, and of those that use several airports."""

    of: Mapping[str, list[Movement]]
    aircraft: int
    shared: int

    @property
    def total(self) -> int:
        return sum(map(len, self.of.values()))


def write_traffic(events: int, rate: float, folder: Path) -> Traffic:
    """Write `SITE.events`: lines of when (seconds from the start), aircraft, number and message."""
    table = source_table()
    moves = movements(table, events)
    origins = table["origin"].to_numpy()[moves["flight_id"].to_numpy() - 1]
    found: dict[str, list[Movement]] = {}
    messages = Messages(table, moves)
    for site, airport in AIRPORTS.items():
        rows = (origins == airport).nonzero()[0].tolist()
        own = [(str(moves["tail"].iat[n]), int(moves["number"].iat[n])) for n in rows]
        with (folder / f"{site}.events").open("wb") as file:
            for n, (tail, number) in zip(rows, own, strict=True):
                file.write(f"{n / rate:.4f}\t{tail}\t{number}\t".encode() + messages[n] + b"\n")
        found[site] = own
    return Traffic(found, *aircraft_of(moves.assign(origin=origins)))


def aircraft_of(flights: pd.DataFrame) -> tuple[int, int]:
    """How many aircraft there are, by `tail`, and how many of them use several airports."""
    airports = flights.groupby("tail")["origin"].nunique()
    return len(airports), int((airports > 1).sum())
