"""What was chosen on the command line of a bench."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Options:
    """What was chosen, as far as a bench has it.

    events: or messages, or records, of a measurement. repeats: of each. folder: for data and
    logs. broker: host:port, None for one of the bench's own. page: to be written. peers,
    scenarios, parts, rows: the names of what is measured, None for all. rate: events or
    transactions a second for latency; None for a tenth of the throughput. seconds: for captures and
    latency.
    """

    command: str
    events: int
    folder: Path
    repeats: int = 1
    broker: str | None = None
    page: Path = Path()
    install: bool = False
    peers: Sequence[str] = ()
    scenarios: Sequence[str] = ()
    parts: Sequence[str] | None = None
    rows: Sequence[str] | None = None
    rate: int | None = None
    seconds: float = 0.0

    @property
    def samples(self) -> Path:
        """The file of all samples behind the page, beside it, of a bench that has scenarios."""
        return self.page.with_suffix(".json")
