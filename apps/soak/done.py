"""What a soak has done so far: kept in a file after each round, a table at the end."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass
class Round:
    """A round that passed. harms: what was done → how often. seconds: all of it, check included."""

    seed: int
    guarantee: str
    messages: int
    seconds: int
    harms: dict[str, int]

    def __str__(self) -> str:
        harms = ", ".join(f"{count} × {name}" for name, count in sorted(self.harms.items()))
        return (
            f"seed {self.seed}, {self.guarantee}: {self.messages:,} messages right in "
            f"{lasts(self.seconds)} after {harms}"
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


def table(done: Done, columns: Sequence[str] = ("exactly_once", "at_least_once")) -> str:
    """All rounds, a line for each harm. columns: what `Round.guarantee` may be."""
    by_harm: dict[str, Counter[str]] = {}
    for each in done.rounds:
        for name, count in each.harms.items():
            by_harm.setdefault(name, Counter())[each.guarantee] += count
    width = max([24, *map(len, by_harm)])
    heads = "".join(f"{column.replace('_', ' '):>15}" for column in columns)
    lines = [f"{'harm':{width}}{heads}"]
    for name, counts in sorted(by_harm.items()):
        lines.append(f"{name:{width}}" + "".join(f"{counts[column]:>15}" for column in columns))
    messages = sum(each.messages for each in done.rounds)
    lines.append(
        f"{done.harms} harms in {len(done.rounds)} rounds, {messages:,} messages, "
        f"{lasts(done.seconds)}: nothing lost, repeated or out of order; every state is the fold "
        "of its input"
    )
    return "\n".join(lines)


def lasts(seconds: float) -> str:
    """A duration for people."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s"
