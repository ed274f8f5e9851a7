"""What a soak has done so far: kept in a file after each round."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from topology.diagnostics.explain.times import lasting


@dataclass
class Round:
    """A round that passed. harms: what was done → how often. seconds: all of it, check included."""

    seed: int
    way: str
    messages: int
    seconds: int
    harms: dict[str, int]

    def __str__(self) -> str:
        harms = ", ".join(f"{count} × {name}" for name, count in sorted(self.harms.items()))
        return (
            f"seed {self.seed}, {self.way}: {self.messages:,} messages right in "
            f"{lasting(self.seconds * 1000)} after {harms}"
        )


@dataclass
class Done:
    """seed: of the first round; each round has the next one."""

    seed: int
    rounds: list[Round] = field(default_factory=list)

    @property
    def next_seed(self) -> int:
        return self.seed + len(self.rounds)

    @property
    def harms(self) -> int:
        """Harms done in rounds that passed."""
        return sum(sum(each.harms.values()) for each in self.rounds)

    @property
    def seconds(self) -> int:
        return sum(each.seconds for each in self.rounds)


def load(file: Path, seed: int) -> Done | None:
    """What an earlier run from this seed did, None if there is none."""
    try:
        found = json.loads(file.read_text())
        done = Done(found["seed"], [Round(**each) for each in found["rounds"]])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return done if done.seed == seed else None


def save(file: Path, done: Done) -> None:
    made = file.with_suffix(".new")
    made.write_text(json.dumps(asdict(done)))
    made.replace(file)
