"""Rounds of a soak, of several ways in turn: options, what was done before, and how it ends."""

import argparse
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from sequitur.cli.signals import interrupted_by
from sequitur.local.broker import Broker
from soak.done import Done, Round, load, save
from topology.diagnostics.explain.times import lasting

Run = Callable[..., Round]
"""([broker,] way, an empty folder, seed, harms) → the round. Raises RuntimeError with what is
wrong."""


@dataclass(frozen=True, slots=True)
class Soaking:
    """A soak's command. prog, doc: for its help. ways: in the order of the rounds, one perhaps
    several times. things: what rounds count. holds: what is shown once all of them have passed.
    keeps: whether a round that fails leaves its folder. broker: whether the rounds share one."""

    prog: str
    doc: str | None
    ways: tuple[str, ...]
    harms: int
    per_round: int
    things: str
    holds: str
    keeps: bool = False
    broker: bool = False

    def main(self, arguments: Sequence[str] | None, home: Path, run: Run) -> int:
        """Do what the arguments say, with all that is kept in `home`; returns the exit status."""
        options = self._options(arguments)
        if options.rounds is not None:
            options.harms = options.rounds * options.per_round

        interrupted_by(signal.SIGTERM)
        done = load(home / "done.json", options.seed)
        if options.fresh or done is None or done.harms >= options.harms:
            shutil.rmtree(home, ignore_errors=True)
            done = Done(options.seed)
        elif done.rounds:
            print(f"going on after {len(done.rounds)} rounds with {done.harms} harms", flush=True)
        home.mkdir(parents=True, exist_ok=True)
        try:
            with ExitStack() as stack:
                servers = [stack.enter_context(Broker(home / "broker"))] if self.broker else []
                while done.harms < options.harms:
                    self._round(options, home, done, lambda *words: run(*servers, *words))
        except KeyboardInterrupt:
            print(f"stopped after {done.harms} harms; run it again to go on", flush=True)
            return 130
        except RuntimeError as error:
            print(f"FAILED: {error}", flush=True)
            if self.keeps:
                print(f"its logs and databases are in {home}", flush=True)
            return 1
        print(self.table(done))
        return 0

    def _options(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        parser = argparse.ArgumentParser(prog=self.prog, description=self.doc)
        add = parser.add_argument
        add("--harms", type=int, default=self.harms, help="bad things to do in all (%(default)s)")
        add("--rounds", type=int, help="instead of --harms")
        add("--per-round", type=int, default=self.per_round, help="in one round (%(default)s)")
        add("--seed", type=int, default=1, help="of the first round")
        add("--fresh", action="store_true", help="do not go on with an earlier run")
        ways = list(dict.fromkeys(self.ways))
        add("--way", action="append", choices=ways, help="default: all, in turn")
        return parser.parse_args(arguments)

    def _round(self, options: argparse.Namespace, home: Path, done: Done, run: Run) -> None:
        count = min(options.per_round, options.harms - done.harms)
        ways, seed = options.way or self.ways, done.next_seed
        folder = Path(tempfile.mkdtemp(dir=home, prefix=f"round-{seed}-"))
        passed = False
        try:
            found = run(ways[len(done.rounds) % len(ways)], folder, seed, count)
            passed = True
        finally:
            if passed or not self.keeps:
                shutil.rmtree(folder, ignore_errors=True)
        done.rounds.append(found)
        save(home / "done.json", done)
        left = done.seconds / done.harms * (options.harms - done.harms)
        print(f"{found}; about {lasting(round(left * 1000))} left", flush=True)

    def table(self, done: Done) -> str:
        """All rounds, a line for each harm."""
        found: Counter[str] = Counter()
        for each in done.rounds:
            found.update(each.harms)
        lines = [f"{name:40}{count:>6}" for name, count in sorted(found.items())]
        things = sum(each.messages for each in done.rounds)
        return "\n".join(lines) + (
            f"\n{done.harms} harms in {len(done.rounds)} rounds, {things:,} {self.things}, "
            f"{lasting(done.seconds * 1000)}: {self.holds}"
        )
