"""What was measured, part by part, kept between runs: all of it together takes its time."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import orjson

from bench.delivery.backlog import Backlog
from bench.delivery.captures import Rate
from bench.delivery.latency import Latency

PARTS = ("captures", "latency", "backlog")


@dataclass(slots=True)
class Kept:
    """checkout: that was measured. loads: part → the machine's load before and after it."""

    checkout: str = ""
    captures: list[Rate] = field(default_factory=list)
    latency: list[Latency] = field(default_factory=list)
    backlog: list[Backlog] = field(default_factory=list)
    loads: dict[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, file: Path, checkout: str) -> Self:
        """What was kept in `file`; nothing if it is not there, or of another checkout."""
        try:
            found = orjson.loads(file.read_bytes())
            if found["checkout"] != checkout:
                return cls(checkout)
            return cls(
                checkout,
                [Rate(**each) for each in found["captures"]],
                [Latency(**each) for each in found["latency"]],
                [Backlog(**each) for each in found["backlog"]],
                dict(found["loads"]),
            )
        except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
            return cls(checkout)

    def save(self, file: Path) -> None:
        file.write_bytes(orjson.dumps(self, option=orjson.OPT_INDENT_2))

    @property
    def missing(self) -> list[str]:
        """The parts that were not measured."""
        return [part for part in PARTS if part not in self.loads]
