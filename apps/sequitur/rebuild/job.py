"""A rebuild from its plan to the switch."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Literal

from sequitur.rebuild.build import BY_STREAM, SOURCES, Build, Stopped, history_topics, kafka_of
from sequitur.rebuild.compare import compare, count_of
from sequitur.rebuild.job_report import report
from sequitur.rebuild.limits import Limits
from sequitur.rebuild.load import Refused
from sequitur.rebuild.plan import Plan, Request, WorkFolder
from sequitur.rebuild.switch import Follow, begin_following
from stores.db.urls import without_password
from stores.locks.claim import Claim
from stores.paths import is_there
from stores.sinks import Sink, StoreError, open_sink
from stores.sinks.by_url import needs_spark
from stores.sinks.shadows import OLD
from topology import Table, View
from topology.faust.kafka.sending import Sending
from topology.faust.worker.snapshot import snapshot
from topology.model.counted import counted
from topology.view_rebuild import CannotRebuild, Tally

Switch = Literal["yes", "same", "no"]

log = logging.getLogger("rebuild")


@dataclass
class Job:
    """What the command line says.

    stop: whether somebody wants it to end. switch: whether to put what was rebuilt in the place of
    the live tables: always, if nothing differs, or not yet. incomplete: also if the history lacks
    what the live views had. fresh: not to go on with what was begun. cores: of this machine, None
    for all. on_spark: session → what surrounds its use, and takes the signals, as Spark did. dead:
    once it has run, how many records of what was rebuilt could not be applied. missing: then, the
    streams of the request that no view has rebuilt.
    """

    app: Any
    request: Request
    store: str
    folder: WorkFolder
    kafka: Mapping[str, str]
    stop: Callable[[], bool]
    switch: Switch = "yes"
    incomplete: bool = False
    fresh: bool = False
    cores: int | None = None
    on_spark: Callable[[Any], AbstractContextManager[None]] = nullcontext
    dead: int = 0
    missing: tuple[str, ...] = ()
    _session: Any = None

    @property
    def views(self) -> list[View]:
        return [self.app.engine.topology.views[name] for name in self.request.views]

    @property
    def options(self) -> dict[str, str]:
        """Options of Spark's Kafka source."""
        return kafka_of(self.app, self.kafka)

    @property
    def tables(self) -> list[Table]:
        return [table for view in self.views for table in view.tables]

    def run(self) -> bool:
        """Rebuild. Returns whether the live tables are the rebuilt ones now.

        Raises Stopped, CannotRebuild, NoSnapshot, StoreError, KafkaError, and what Spark raises.
        """
        with ExitStack() as stack:
            if needs_spark(self.store):
                stack.enter_context(self.spark())
            # Nobody else rebuilds these views meanwhile.
            names = [f"view {view.output}" for view in self.views]
            claim = stack.enter_context(Claim(self.store, names))

            def check() -> None:
                if self.stop():
                    raise Stopped
                claim.check()

            live = stack.enter_context(open_sink(self.store))
            if OLD in live.shadows() and not self.request.partial:
                raise StoreError(
                    "the tables that an earlier rebuild replaced are still there, as shadow "
                    f"tables {OLD!r}; when nobody needs them: sequitur rebuild drop --read-store "
                    f"{without_password(self.store)}"
                )
            plan = self.plan(live, claim)
            if plan.stage == "build":
                self.check_beginnings(plan)
            if self.request.partial:
                from sequitur.rebuild.some_streams import Partial

                Partial(self, plan, live, check).run()
                switched = True
            else:
                switched = self.whole(plan, live, check, claim)
            if switched:
                if not self.request.partial:
                    claim.note("")
                self.folder.clear()
            return switched

    # -- the plan

    def plan(self, live: Sink, claim: Claim) -> Plan:
        """The plan that was left in the folder if it is for the same, or a new one."""
        left = self.folder.load()
        # A shadow that waits to be switched to is none the worse for a few streams made anew.
        shadows: set[str] = set()
        if not self.request.partial:
            shadows |= set(claim.left.values())
        if left is not None:
            self.check_folder(left.request)
            if not self.fresh and left.request == self.request and self.known(left, live):
                log.info("going on with what was begun in %s", self.folder.path)
                for shadow in shadows - {left.shadow}:
                    live.drop(shadow)
                return left
            shadows.add(left.shadow)
        for shadow in shadows:
            log.info("shadow tables %s, which an earlier rebuild left, are dropped", shadow)
            live.drop(shadow)
        self.folder.clear()
        return self.new_plan(claim)

    def check_folder(self, left: Request) -> None:
        """Raise StoreError where the folder has a rebuild that this one does not replace.

        It may wait for its switch, or be running.
        """
        other = (left.views, left.store) != (self.request.views, self.request.store)
        if not self.fresh and (other or (self.request.partial and not left.partial)):
            raise StoreError(
                f"{self.folder.path} has a rebuild of {', '.join(left.views)} that is not done: "
                "give --work another folder, or --fresh to drop that one"
            )

    def known(self, plan: Plan, live: Sink) -> bool:
        """Whether what the plan needs is still there.

        A snapshot whose limits were not read is not gone on with, since compaction takes them;
        nothing was built of it either. Nor is it where slices are there and the plan, of an earlier
        version, does not say of how many.
        """
        if plan.stage == "build":
            unknown = not plan.slices and is_there(self.folder.slices)
            return is_there(self.folder.limits) and not unknown
        return plan.shadow in live.shadows()

    def new_plan(self, claim: Claim) -> Plan:
        """Note where the views are; from here on, what ends too early can be gone on with."""
        sources = dict.fromkeys(view.of for view in self.views)
        topics = history_topics(self.request.history, sources)
        found = asyncio.run(snapshot(self.app, self.views, topics))
        plan = Plan(self.request, found)
        if not self.request.partial:
            claim.note(plan.shadow)
        self.folder.save(plan)
        return plan

    # -- all streams, into a shadow

    def whole(self, plan: Plan, live: Sink, check: Callable[[], None], claim: Claim) -> bool:
        """Rebuild into a shadow, and switch if that is wanted."""
        while True:
            with open_sink(self.store, self.tables, shadow=plan.shadow) as shadow:
                try:
                    self.fill(plan, shadow, check)
                    return self.finish(plan, live, shadow, check)
                except Refused as refused:
                    if not plan.fold:
                        raise
                    log.info(
                        "the read store does not take all of it (%s): it is made once more, event "
                        "by event, so that only those are set aside that cannot be applied",
                        refused,
                    )
            live.drop(plan.shadow)
            self.folder.clear(limits=False)  # which are those of the snapshot
            plan = Plan(plan.request, plan.snapshot, fold=False)
            claim.note(plan.shadow)
            self.folder.save(plan)

    def fill(self, plan: Plan, shadow: Sink, check: Callable[[], None]) -> None:
        """Fill the shadow with what is rebuilt, unless that was done already. Raises Refused."""
        if plan.stage != "build":
            return
        check_taken(plan, shadow)  # by one that was killed when it had just been refused
        with self.limits(plan, check) as limits, self.spark() as spark, self.sending() as sending:
            began = time.monotonic()
            build = self.build(spark, limits, plan, check)
            build.run(shadow, None if sending is None else sending.send)
            check_taken(plan, shadow)
            tallies = build.tallies
            report(tallies, time.monotonic() - began)
            if self.request.hashes:
                from sequitur.rebuild.hashes import compare_hashes

                compare_hashes(build)
        self.judge(tallies)
        plan.dead = max(plan.dead, dead_of(shadow))
        plan.tables = {name: tuple(tally.tables) for name, tally in tallies.items()}
        self.folder.save(plan)  # before the shadow forgets them
        begin_following(shadow, plan)
        plan.stage = "follow"
        self.folder.save(plan)

    def judge(self, tallies: Mapping[str, Tally]) -> None:
        """Raise CannotRebuild where what was rebuilt must not replace what is there."""
        for name, tally in tallies.items():
            if tally.parked:
                raise CannotRebuild(
                    f"view {name}: {counted(tally.parked, 'stream ends', 'streams end')} before an "
                    "event that its handler fails on, as its policy is park; the live view is past "
                    f"it, so fix the handler and rebuild again: {' '.join(tally.reports[:1])}"
                )
            if tally.unplaced and not self.incomplete:
                raise CannotRebuild(
                    f"view {name}: {counted(tally.unplaced, 'stream was', 'streams were')} dropped "
                    "and began anew; where, only the by-stream topic says: give --history "
                    "by-stream as well, or files of that topic, or --incomplete, which leaves out "
                    "these streams"
                )
            if tally.incomplete and not self.incomplete:
                raise CannotRebuild(
                    f"view {name}: the history lacks {counted(tally.missing, 'event')} and all of "
                    f"{counted(tally.absent, 'stream')} that the live view has processed, so the "
                    "rebuilt tables would be worse; give a longer history, or --incomplete if "
                    "that is meant"
                )

    def check_beginnings(self, plan: Plan) -> None:
        """Raise CannotRebuild where a history may lack its beginning, and no view could tell."""
        entries = self.request.history
        if self.incomplete or not {*entries} <= {BY_STREAM, SOURCES}:
            return
        for view in self.views:
            ordering = view.ordering
            counts = ordering.counts and ordering.open_after is None and not ordering.opens
            shortened = [
                [
                    f"{topic}/{number}"
                    for topic in history_topics([entry], [view.of])
                    for number, (first, _) in sorted(plan.snapshot.inputs[topic].items())
                    if first > 0
                ]
                for entry in entries
            ]
            if not counts and all(shortened):
                raise CannotRebuild(
                    f"view {view.name}: {shortened[0][0]} begins behind its offset 0, and the "
                    "order of its streams does not tell whether they lack their first events, so "
                    "the rebuilt tables might be worse; give a longer history, or --incomplete if "
                    "nothing is missing, or that is meant"
                )

    def finish(self, plan: Plan, live: Sink, shadow: Sink, check: Callable[[], None]) -> bool:
        """Follow, compare, switch."""
        with Follow(self.app, plan, live, shadow, check) as follow:
            follow.catch_up()
            same = self.compare(plan, live, shadow)
            self.dead = plan.dead + dead_of(shadow)
            if self.dead:
                log.warning("what was rebuilt lacks %s that could not be applied: see the "
                            "table _dead of shadow tables %s, which becomes _dead with the switch",
                            counted(self.dead, "record"), plan.shadow)  # fmt: skip
            if self.switch == "no" or (self.switch == "same" and not same):
                log.info(
                    "not switched: what was rebuilt is in the tables that end in __%s; the same "
                    "command with --switch yes goes on from here",
                    plan.shadow,
                )
                return False
            follow.switch()
        log.info(
            "switched: the tables that were live are kept as shadow tables %s until they are "
            "dropped: "
            "sequitur rebuild drop --read-store %s",
            OLD,
            without_password(self.store),
        )
        return True

    def compare(self, plan: Plan, live: Sink, shadow: Sink) -> bool:
        """Tell how the tables differ. Returns whether none does."""
        same = True
        for view in self.views:
            for table in view.tables:
                found = compare(live, shadow, table.name, list(table.key))
                log.info("%s", found)
                same &= found.same
            declared = {table.name for table in view.tables}
            for name in sorted(set(plan.tables.get(view.name, ())) - declared):
                one, other = count_of(live, name), count_of(shadow, name)
                log.info("table %s: %s live, %s rebuilt", name, counted(one, "row"), f"{other:,}")
                same &= one == other
        return same

    # -- what it works with

    def limits(self, plan: Plan, check: Callable[[], None]) -> Limits:
        """How far the live views were, which begins to be read."""
        return Limits(self.app, plan.snapshot.changelogs, self.folder.limits, check)

    def build(self, spark: Any, limits: Limits, plan: Plan, check: Callable[[], None]) -> Build:
        """The first part of the work."""
        topology = self.app.engine.topology
        return Build(spark, topology, limits, plan, self.folder, self.options, check)

    @contextmanager
    def spark(self) -> Iterator[Any]:
        """A Spark session, for as long as it is needed."""
        from sequitur.spark.exceptions import SPARK_ERRORS
        from sequitur.spark.session import spark_session

        if self._session is not None:
            yield self._session
            return
        settings: dict[str, str] = {}
        if self.cores is not None:
            settings["spark.master"] = f"local[{self.cores}]"
            settings["spark.sql.shuffle.partitions"] = str(self.cores)
        session = self._session = spark_session(
            "rebuild", delta=needs_spark(self.store), settings=settings
        )
        try:
            with self.on_spark(session):
                yield session
        finally:
            self._session = None
            with suppress(*SPARK_ERRORS):
                session.stop()

    @contextmanager
    def sending(self) -> Iterator[Sending | None]:
        """What sends the messages that handlers emit, where they are asked for."""
        if not self.request.emit:
            yield None
            return
        with Sending(self.app) as sending:
            yield sending


def dead_of(sink: Sink) -> int:
    """How many records a sink could not apply."""
    return sum(position.dead for position in sink.progress())


def check_taken(plan: Plan, shadow: Sink) -> None:
    """Raise Refused if a shadow did not take a record that has all changes of a stream."""
    if plan.fold and (dead := dead_of(shadow)):
        raise Refused(f"{counted(dead, 'record')} could not be applied")
