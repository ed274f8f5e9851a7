"""What was measured: samples by scenario, kept from run to run beside the page."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

_COMMIT = "Sequitur"
OF_A_TABLE = (_COMMIT, "processor", "cores", "memory", "Python")
"""The facts that all samples of a scenario have in common; those of a page have the first."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement of one subject. problem: what makes it void, in words; else empty."""

    subject: str
    values: dict[str, float]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A value over the repeats."""

    median: float
    lowest: float
    highest: float
    repeats: int


@dataclass(slots=True)
class Result:
    """A scenario's samples and the facts of its run."""

    scenario: str
    facts: dict[str, str]
    samples: list[Sample] = field(default_factory=list)

    def subjects(self) -> list[str]:
        """Those that were measured, in order, sound samples or not."""
        return list(dict.fromkeys(sample.subject for sample in self.samples))

    def figure(self, subject: str, value: str) -> Figure | None:
        """A value of a subject over its sound samples, None if there is none."""
        found = [
            sample.values[value]
            for sample in self.samples
            if sample.subject == subject and value in sample.values and not sample.problem
        ]
        return Figure(median(found), min(found), max(found), len(found)) if found else None

    def ratio(self, subject: str, base: str, value: str) -> float | None:
        """A subject's median by another's."""
        one, other = self.figure(subject, value), self.figure(base, value)
        return one.median / other.median if one and other and other.median else None

    def over(self, subject: str, value: str, others: Sequence[str]) -> float | None:
        """A subject's median by the highest of its medians of other values."""
        one = self.figure(subject, value)
        found = [figure.median for each in others if (figure := self.figure(subject, each))]
        return one.median / max(found) if one and found else None

    def turns(self) -> list["Result"]:
        """Of each repeat a result of its own: the first, second … sound sample of each value."""
        found: list[Result] = []
        seen: Counter[tuple[str, str]] = Counter()
        for sample in self.samples:
            for name, value in () if sample.problem else sample.values.items():
                turn = seen[sample.subject, name]
                seen[sample.subject, name] += 1
                if turn == len(found):
                    found.append(Result(self.scenario, self.facts))
                found[turn].samples.append(Sample(sample.subject, {name: value}))
        return found

    def problems(self) -> list[str]:
        """What made samples void, by subject."""
        return [f"{sample.subject}: {sample.problem}" for sample in self.samples if sample.problem]


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of sorted values that at least `share` (0 to 1) of them do not exceed."""
    return values[min(len(values) - 1, max(0, -int(-len(values) * share // 1) - 1))]


def load(path: Path, facts: Mapping[str, str]) -> dict[str, Result]:
    """The results of earlier runs, by scenario; empty if there are none.

    A page is of one commit: what others had is measured anew. facts: as they are now.
    """
    try:
        kept = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return {
        entry["scenario"]: Result(
            entry["scenario"], entry["facts"], [Sample(**sample) for sample in entry["samples"]]
        )
        for entry in kept
        if entry["facts"].get(_COMMIT) == facts.get(_COMMIT)
    }


def save(path: Path, results: Iterable[Result]) -> None:
    """Keep results for later runs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = path.with_suffix(".new")  # one that is killed loses no hours of samples
    whole.write_text("[" + ",\n".join(map(_lines, results)) + "]\n")
    whole.replace(path)


def _lines(result: Result) -> str:
    """A line a sample, so that what was measured more shows as lines that were added."""
    samples = ",\n".join(json.dumps(asdict(sample)) for sample in result.samples)
    head = json.dumps({"scenario": result.scenario, "facts": result.facts})
    return f'{head[:-1]}, "samples": [\n{samples}]}}'
