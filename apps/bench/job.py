"""What every program under test is told, and how: by its environment."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

Guarantee = Literal["at_least_once", "exactly_once"]
GUARANTEES: tuple[Guarantee, ...] = get_args(Guarantee)


@dataclass(frozen=True, slots=True)
class Job:
    """Read `input`, write each stream's events once and in sequence to `output`.

    broker: host:port. group: consumer group, and prefix of all that the program makes on the
    broker. datadir: an empty folder for its state. partitions: of input and output.
    """

    broker: str
    input: str
    output: str
    group: str
    datadir: Path
    guarantee: Guarantee = "exactly_once"
    partitions: int = 4

    def environment(self) -> dict[str, str]:
        """BROKER, INPUT, OUTPUT, GROUP, DATADIR, GUARANTEE, PARTITIONS."""
        return {
            "BROKER": self.broker,
            "INPUT": self.input,
            "OUTPUT": self.output,
            "GROUP": self.group,
            "DATADIR": str(self.datadir),
            "GUARANTEE": self.guarantee,
            "PARTITIONS": str(self.partitions),
        }


def job() -> Job:
    """The job that this process was given. Raises KeyError where its environment tells of none."""
    return Job(
        broker=os.environ["BROKER"],
        input=os.environ["INPUT"],
        output=os.environ["OUTPUT"],
        group=os.environ["GROUP"],
        datadir=Path(os.environ["DATADIR"]),
        guarantee="exactly_once" if os.environ["GUARANTEE"] == "exactly_once" else "at_least_once",
        partitions=int(os.environ.get("PARTITIONS", "4")),
    )
